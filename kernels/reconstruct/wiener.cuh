/* Applies the Wiener filter to sums on a CUDA device, for code that fills transforms with the filtered values. */
#ifndef ICESTREAM_KERNELS_RECONSTRUCT_WIENER_CUH
#define ICESTREAM_KERNELS_RECONSTRUCT_WIENER_CUH

#include "kernels/reconstruct/accumulator.cuh"
#include "kernels/reconstruct/accumulator_private.h"

/* Totals over a shell floor(r) of the padded grid. Totals over the shells ROUND(r / PAD) and FLOOR(r / PAD) follow from
 * these. */
enum { SHELL_WEIGHT, SHELL_COUNT, SHELL_COVERED, SHELL_FILTERED, SHELL_TERMS };

struct wiener {
    accumulator_cuda sums;
    const float *tau2; /* [sums.count][box/2 + 1], or NULL */
    double fudge;      /* T times the oversampling of the grid */
    int minres_shell, limit;
    int map_limit; /* sums within this radius go into the map; at most `limit` */
};

/* Returns a filter for frequencies up to those of the sums. */
struct wiener wiener_filter(const accumulator_cuda *sums, const float *tau2, double tau_fudge, int minres_shell,
                            int last_shell);
/* Computes ret_totals[sums.count][limit][SHELL_TERMS], stored at the beginning of scratch
 * (reconstruct_cuda_shells_scratch). */
enum status wiener_totals(const wiener &w, void *scratch, cudaStream_t stream, const double **ret_totals,
                          struct err *err);
/* Computes curves, each [sums.count][box/2 + 1], or NULL. */
enum status wiener_describe(const wiener &w, const double *totals, float *ret_sigma2, float *ret_data_vs_prior,
                            float *ret_completeness, cudaStream_t stream, struct err *err);

/* Returns the filter of reference `index`. */
static __device__ inline wiener wiener_of(wiener all, int index) {
    if (all.tau2 != NULL) all.tau2 += (size_t)index * (all.sums.box / 2 + 1);
    all.sums = accumulator_of(all.sums, index);
    return all;
}

/* Returns the totals of reference `index`. */
static __device__ inline const double *wiener_totals_of(const wiener &w, const double *totals, int index) {
    return totals + (size_t)index * w.limit * SHELL_TERMS;
}

/* Returns ROUND(r / PAD), the shell of tau2, for floor(r) = radius. */
static __device__ inline int wiener_shell(int radius) {
    return (radius + 1) / ACCUMULATOR_PAD;
}

/* Returns weight + 1/(T tau²); weight + 1000/weight where tau² is 0; the weight alone where there is no prior. */
static __device__ inline double wiener_denominator(const wiener &w, double weight, int shell) {
    if (w.tau2 == NULL || shell < w.minres_shell) return weight;
    double tau2 = w.fudge * (double)w.tau2[shell];
    if (tau2 > 0) return weight + 1 / tau2;
    return weight > 1e-20 ? weight + 1000 / weight : weight;
}

/* Returns data over denominator at a voxel of shell floor(r), with the phase origin moved from the centre. w and totals
 * belong to one reference. */
static __device__ inline float2 wiener_value(const wiener &w, const double *totals, const double2 *voxel, int radius,
                                             bool odd) {
    const int first = radius / ACCUMULATOR_PAD * ACCUMULATOR_PAD;
    double value = wiener_denominator(w, voxel[1].x, wiener_shell(radius)), sum = 0, count = 0;
    for (int i = first; i < first + ACCUMULATOR_PAD && i < w.limit; i++) {
        sum += totals[i * SHELL_TERMS + SHELL_FILTERED];
        count += totals[i * SHELL_TERMS + SHELL_COUNT];
    }
    /* A floor: without it, points that almost no slice comes near would be amplified noise. */
    double least = 0.001 * sum / count;
    if (value < least) value = least;
    double factor = value > 0 ? (odd ? -1 : 1) / value : 0;
    double2 data = voxel[0];
    return make_float2((float)(factor * data.x), (float)(factor * data.y));
}

#endif
