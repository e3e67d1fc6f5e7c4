/* What search.c, which both devices share, asks of each. */
#ifndef ICESTREAM_KERNELS_SEARCH_SEARCH_PRIVATE_H
#define ICESTREAM_KERNELS_SEARCH_SEARCH_PRIVATE_H

#include "kernels/search/search.h"
#include "kernels/whiten/whiten.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SEARCH_RINGS = 64, SEARCH_RING_WIDTH = 4, SEARCH_RING_COEFFICIENTS = 100 };

/* Rings of the micrograph's full transform whose power is compared for `noise`: of equal width over 0 ≤ |k| < end, where
 * ring = int(|k| · rings / end); both signs of ky, kx ≥ 0. The variance of white noise is the least mean power of those
 * rings that hold at least SEARCH_RING_COEFFICIENTS coefficients, over size²; transforms without a factor. */
static inline int search_rings_end(const struct search_options *options) {
    return options->work < options->size / 2 ? options->work : options->size / 2;
}
static inline int search_rings(const struct search_options *options) {
    int rings = search_rings_end(options) / SEARCH_RING_WIDTH;
    return rings < SEARCH_RINGS ? rings : SEARCH_RINGS;
}
/* √(variance / pixels in the circle), from the rings' sums of power and counts. */
float search_noise(const struct search_options *options, int rings, const double *power, const double *count);

/* The part of the maps that is micrograph, and the particle's circle. */
struct whiten_options search_whiten_options(const struct search_options *options);

/* Takes template t into the best maps; the first (0) as it is. Of equal scores the earlier template stays. */
void search_keep_best(const float *score, const uint16_t *rotation, int t, struct search_maps *maps);

struct search_cpu;
enum status search_cpu_create(const struct search_options *options, const float *templates,
                              struct search_cpu **ret_search, struct err *err);
void search_cpu_destroy(struct search_cpu **search);
enum status search_cpu_run(struct search_cpu *search, const float *micrograph, const struct ctf *ctf, uint64_t seed,
                           struct search_maps *maps, struct err *err);

/* Built where CUDA is. */
struct search_cuda;
enum status search_cuda_create(const struct search_options *options, const float *templates,
                               struct search_cuda **ret_search, struct err *err);
void search_cuda_destroy(struct search_cuda **search);
enum status search_cuda_run(struct search_cuda *search, const struct search_input *input, const struct ctf *ctf,
                            uint64_t seed, struct search_maps *maps, struct err *err);
/* For benchmarks and tests: always through cuFFT or by what is fastest, with so many pairs of rotations at a time (0: as
 * many as is fast); and what the parts of a search take (search_cuda.h). */
struct search_times;
enum status search_cuda_create_as(const struct search_options *options, const float *templates, bool cufft, int pairs,
                                  struct search_cuda **ret_search, struct err *err);
enum status search_cuda_times(struct search_cuda *search, int repeats, struct search_times *ret_times, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
