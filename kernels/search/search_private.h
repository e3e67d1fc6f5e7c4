/* Connects search.c, which is the same for all devices, with the work of each kind of device. */
#ifndef ICESTREAM_KERNELS_SEARCH_SEARCH_PRIVATE_H
#define ICESTREAM_KERNELS_SEARCH_SEARCH_PRIVATE_H

#include "kernels/search/search.h"
#include "kernels/template_spectra/template_spectra.h"
#include "kernels/whiten/whiten.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Chooses how a CUDA device correlates. {0} is the fastest way; other values are for tests and benchmarks. */
struct search_tuning {
    bool cufft; /* use cuFFT even for sizes that have fused transforms */
    int pairs;  /* pairs of rotations that are correlated at a time; 0: the fastest number */
};

/* The work of one kind of device on its own state. */
struct search_work {
    enum status (*create)(const struct search_options *options, const float *templates,
                          const struct search_tuning *tuning, void **ret_state, struct err *err);
    /* Takes a state, never NULL. */
    void (*destroy)(void *state);
    enum status (*run)(void *state, const struct search_input *input, const struct ctf *ctf, uint64_t seed,
                       struct search_maps *maps, struct err *err);
};
extern const struct search_work search_cpu_work;  /* state: struct search_cpu */
extern const struct search_work search_cuda_work; /* state: struct search_cuda; only in builds with CUDA */

/* For tests and benchmarks: search_create with a tuning, and the state behind a search. */
enum status search_create_as(const struct search_options *options, const float *templates,
                             const struct search_tuning *tuning, struct search **ret_search, struct err *err);
void *search_state(struct search *search);

enum { SEARCH_RINGS = 64, SEARCH_RING_WIDTH = 4, SEARCH_RING_COEFFICIENTS = 100 };

/* Return `end` and the number of the rings whose power gives `noise`. The rings lie in the half plane kx ≥ 0 of the
 * micrograph's full, unscaled transform, with equal widths over 0 ≤ |k| < end: ring = int(|k| · rings / end). The
 * variance of white noise is the least mean power / size² among the rings that hold at least SEARCH_RING_COEFFICIENTS
 * coefficients. */
static inline int search_rings_end(const struct search_options *options) {
    return options->work < options->size / 2 ? options->work : options->size / 2;
}
static inline int search_rings(const struct search_options *options) {
    int rings = search_rings_end(options) / SEARCH_RING_WIDTH;
    return rings < SEARCH_RINGS ? rings : SEARCH_RINGS;
}
/* Returns `noise` of struct search_maps, √(variance / pixels in the circle). power[rings], count[rings]: sums of |F|²
 * and numbers of coefficients. */
float search_noise(const struct search_options *options, int rings, const double *power, const double *count);

/* Returns the options of the templates' transforms. memory_limit: bytes for rotated transforms; 0: none are kept. */
struct template_spectra_options search_spectra_options(const struct search_options *options, size_t memory_limit);
/* Returns the options of whitening: the part of the maps that shows the micrograph, and the particle's diameter. */
struct whiten_options search_whiten_options(const struct search_options *options);

/* Merges the map of template t into score, best_template and best_rotation of `maps`. t = 0 overwrites the maps. When
 * scores are equal the earlier template stays. */
void search_keep_best(const float *score, const uint16_t *rotation, int t, struct search_maps *maps);

#ifdef __cplusplus
}
#endif
#endif
