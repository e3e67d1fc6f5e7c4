/* Shared by the CUDA parts of the alignment: spectra on the device, and what their steps need. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_ALIGN_CUDA_CUH
#define ICESTREAM_KERNELS_MOTION_MOTION_ALIGN_CUDA_CUH

#include <stdint.h>

#include "kernels/motion/motion_align_private.h"
#include "kernels/motion/motion_cuda.cuh"

enum { ALIGN_THREADS = 256, ALIGN_CHUNK = 8192, ALIGN_OUTSIDE = MOTION_RINGS };

/* The frequencies of one transform, [ny][nx/2 + 1]. */
struct align_band {
    int nx, ny;
    float step_x, step_y; /* cycles per px of the movie */
    uint8_t *rings;       /* of each frequency; ALIGN_OUTSIDE: left out */
};

/* Spectra of the whole frames, or of all patches. */
struct align_set {
    struct align_band band;
    int members, frames; /* frames: or groups */
    float2 *spectra;     /* [members][frames][ny][nx/2 + 1] */
    float2 *shifts;      /* [members][frames] px of the movie */
    float2 *sum;         /* [members][ny][nx/2 + 1]: R */
    float *shared;       /* the same: |R|² − Σ |t|² */
    float *total;        /* the same: Σ |t|² */
    double *slopes;      /* [members][frames][chunks][2] parts of sums, */
    double *curvatures;  /* [members][blocks][3] */
    double *host;        /* and their copies */
};

struct motion_align_cuda {
    struct motion_align_plan plan;
    struct motion_cuda *motion;
    struct motion_course *course;
    float *weight; /* [MOTION_RINGS] */
    float2 *host_shifts;

    cufftHandle binned_plan, search_plan, group_plan, patch_plan;
    float *binned; /* [binned_y][binned_x + 2], then its transform in place */
    float *taper_x, *taper_y, *patch_taper_x, *patch_taper_y;
    float *means; /* [frames] of the binned frames */
    struct align_set whole, patches;

    struct align_band search;
    float2 *correlation;                   /* [frames][search_y][search_x/2 + 1] */
    float *image;                          /* [frames][search_y][search_x] */
    struct align_peak *peaks, *host_peaks; /* [frames] */

    float2 *group_sums;  /* [groups][window_y][window_x/2 + 1] */
    float *group_images; /* [groups][window_y][window_x] */
    float *patch_images; /* [patches][groups][patch_y][patch_x] */
    int2 *patch_starts;  /* [patches] window px */

    double *rings; /* [3][MOTION_RINGS] sums over rings */
};

/* The largest value of a correlation, and its neighbours along x and y. */
struct align_peak {
    int x, y; /* px of the search window */
    float middle, left, right, below, above;
};

static inline size_t align_count(const struct align_band *band) {
    return (size_t)band->ny * (band->nx / 2 + 1);
}

#ifdef __CUDACC__
/* Returns frequency `at` of a band, in cycles per px of the movie. */
static __device__ inline float2 align_frequency(const align_band &band, int at) {
    int columns = band.nx / 2 + 1, y = at / columns, x = at - y * columns;
    return make_float2(x * band.step_x, (y <= band.ny / 2 ? y : y - band.ny) * band.step_y);
}

/* Returns value · exp(−2πi f·d). */
static __device__ inline float2 align_shifted(float2 value, float2 f, float2 d) {
    float turns = f.x * d.x + f.y * d.y, s, c;
    sincospif(-2 * turns, &s, &c);
    return make_float2(value.x * c - value.y * s, value.x * s + value.y * c);
}
#endif

/* The operations of kernels/motion/motion_align_private.h, state is a struct motion_align_cuda. */
enum status motion_align_cuda_spectra(void *state, struct err *err);
enum status motion_align_cuda_powers(void *state, const float *x, const float *y, double *shared, double *total,
                                     double *count, struct err *err);
enum status motion_align_cuda_search(void *state, const float *x, const float *y, const float *weight, float *ret_x,
                                     float *ret_y, struct err *err);
enum status motion_align_cuda_cut(void *state, const float *x, const float *y, struct err *err);
enum status motion_align_cuda_slopes(void *state, enum motion_set set, const float *x, const float *y,
                                     const float *weight, double *slope, double *curvature, struct err *err);

/* Takes shifts there. */
enum status motion_align_cuda_put_shifts(struct motion_align_cuda *a, const struct align_set *set, const float *x,
                                         const float *y, struct err *err);
/* Queues the sums R of a set and what follows from them; curvatures too if weights are there. */
enum status motion_align_cuda_add(struct motion_align_cuda *a, const struct align_set *set, bool weighted,
                                  struct err *err);
#endif
