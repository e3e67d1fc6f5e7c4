/* What alignment.c, which both devices share, asks of each. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_PRIVATE_H
#define ICESTREAM_KERNELS_ALIGNMENT_PRIVATE_H

#include "kernels/alignment/alignment.h"

#ifdef __cplusplus
extern "C" {
#endif

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
int alignment_cuda_batch(const struct alignment_cuda *alignment);
enum status alignment_cuda_add(struct alignment_cuda *alignment, const struct alignment_particle *particles, int count,
                               struct alignment_result *results, struct err *err);
size_t alignment_cuda_trace(struct alignment_cuda *alignment, struct arena_step *steps, size_t capacity);
enum status alignment_cuda_finish(struct alignment_cuda *alignment, struct err *err);
enum status alignment_cuda_seconds(struct alignment_cuda *alignment, double *ret_seconds, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
