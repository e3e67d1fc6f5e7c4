/* What alignment.c, which both devices share, asks of each. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_PRIVATE_H
#define ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_PRIVATE_H

#include "kernels/alignment/alignment.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Probability that there is nothing in an image, and that there is something: each to many digits, however small; ln of
 * what all poses and nothing come to. */
static inline double alignment_nothing(double evidence, double nothing) {
    return 1 / (1 + exp(fmin(evidence - nothing, 700)));
}
static inline double alignment_something(double evidence, double nothing) {
    return alignment_nothing(nothing, evidence);
}
static inline double alignment_evidence_with(double evidence, double nothing) {
    return fmax(evidence, nothing) + log1p(exp(-fabs(evidence - nothing)));
}

/* How many coarse samples of a particle the fine pass takes, but for ties: more where their children, 32 to one, are not
 * looked at. */
enum { ALIGNMENT_WITHOUT_CHILDREN = 4 };
static inline size_t alignment_most_samples(const struct alignment_options *options,
                                            const struct alignment_iteration *iteration) {
    return (size_t)options->max_significant * (size_t)(iteration->oversampled ? 1 : ALIGNMENT_WITHOUT_CHILDREN);
}

struct alignment_cpu;
enum status alignment_cpu_create(const struct alignment_options *options, struct alignment_cpu **ret_alignment,
                                 struct err *err);
void alignment_cpu_destroy(struct alignment_cpu **alignment);
enum status alignment_cpu_begin(struct alignment_cpu *alignment, const struct alignment_iteration *iteration,
                                struct err *err);
int alignment_cpu_batch(const struct alignment_cpu *alignment);
enum status alignment_cpu_scale(struct alignment_cpu *alignment, const struct alignment_particle *particles, int count,
                                double *ret_mean, double *dots, double *norms, struct err *err);
enum status alignment_cpu_add(struct alignment_cpu *alignment, const struct alignment_particle *particles, int count,
                              struct alignment_result *results, struct err *err);

/* Built where CUDA is. */
struct alignment_cuda;
enum status alignment_cuda_create(const struct alignment_options *options, struct alignment_cuda **ret_alignment,
                                  struct err *err);
void alignment_cuda_destroy(struct alignment_cuda **alignment);
enum status alignment_cuda_begin(struct alignment_cuda *alignment, const struct alignment_iteration *iteration,
                                 struct err *err);
struct workspace *alignment_cuda_workspace(const struct alignment_cuda *alignment);
enum status alignment_cuda_keep_images(struct alignment_cuda *alignment, int count, size_t most_bytes, struct err *err);
int alignment_cuda_batch(const struct alignment_cuda *alignment);
enum status alignment_cuda_add(struct alignment_cuda *alignment, const struct alignment_particle *particles, int count,
                               struct alignment_result *results, struct err *err);
size_t alignment_cuda_trace(struct alignment_cuda *alignment, struct arena_step *steps, size_t capacity);
/* D and N of each particle are added up; *ret_mean is the first one's. */
enum status alignment_cuda_scale(struct alignment_cuda *alignment, const struct alignment_particle *particles,
                                 int count, double *ret_mean, double *dots, double *norms, struct err *err);
enum status alignment_cuda_finish(struct alignment_cuda *alignment, struct err *err);
enum status alignment_cuda_seconds(struct alignment_cuda *alignment, double *ret_seconds, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
