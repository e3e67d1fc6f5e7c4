/* Computes weights that give a micrograph the same power at all resolutions, as white noise of variance 1 has.
 *
 * The matched filter for a particle in noise is the particle's image divided by the power of the noise. The detector's
 * transfer, the summing of frames and denoising colour the noise and the particle alike; denoising may leave a
 * thousandth of the power at 30 Å. If the noise was white before, dividing the micrograph by the root of its power
 * undoes the colour; the template stays unchanged.
 *
 * The power is the median over places, not that of the whole: lumps of ice, edges of carbon and gradients of thickness
 * would otherwise dominate the lowest frequencies. With the low-passed micrograph as a map (work × work; z-scores):
 *   tiles of T × T px, T = fft_good_size(3 diameters, at least 16), no larger than the area; first at (x0, y0), every
 *     T/2 px, whole ones only; map px (x0, y0) ≤ (x, y) < (x1, y1) are the micrograph
 *   t ← (t − Σ t v / Σ v) v, v = h(x) h(y), h(i) = 1/2 − 1/2 cos(2πi/T)
 *   power of ring r of a tile: mean of |FFT(t)|² over r = int(|k| + 1/2) ≤ T/2, kx ≥ 0 and both signs of ky counted
 *   once P(r) = median over the tiles (value of rank tiles/2) · (size/work)² / (9/64 T²); P(0) = P(1) = P(2)
 *   weight(r) = P^(−1/2), r = 0 … work/2 on the half plane of the map, P linear between rings at r · T/work, and at
 *     least 1e-7 of its greatest value. */
#ifndef ICESTREAM_KERNELS_WHITEN_WHITEN_H
#define ICESTREAM_KERNELS_WHITEN_WHITEN_H

#include <math.h>

#include "common/status.h"

/* Used by the CPU and by CUDA devices. */
#ifdef __CUDACC__
#define WHITEN_SHARED static __host__ __device__ inline
#else
#define WHITEN_SHARED static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct whiten_options {
    int size, work;     /* px of the micrograph's square, and of the map */
    int x0, y0, x1, y1; /* map px */
    double diameter;    /* of the particle, map px */
};

struct whiten;

enum status whiten_create(const struct whiten_options *options, struct whiten **ret_whiten, struct err *err);
void whiten_destroy(struct whiten **whiten);

/* map: [work][work]; weights: [work/2 + 1]. Allocates nothing. Only one thread at a time may use a plan. */
void whiten_weights(struct whiten *whiten, const float *map, float *weights);

/* Returns the ring of a coefficient; beyond work/2 the weight is 0. */
WHITEN_SHARED int whiten_ring(int kx, int ky) {
    return (int)(sqrtf((float)(kx * kx + ky * ky)) + 0.5f);
}
/* half: work × (work/2+1) complex, in place. */
void whiten_apply(const float *weights, int work, float *half);

/* Return T, and the number of tiles along an axis of `length` px. */
int whiten_tile(const struct whiten_options *options);
int whiten_tiles(int tile, int length);

/* A ring with less than this part of the greatest power holds rounding errors, not noise. */
#define WHITEN_POWER_LEAST 1e-7
/* Subtracting the mean of a tile removes a part of the power of its first ring. */
#define WHITEN_RING_LEAST 2.0

/* Returns the weight of ring r from the medians [tile/2 + 1] of the tiles' power. */
WHITEN_SHARED float whiten_weight(const struct whiten_options *o, const float *medians, int tile, int r) {
    int last = tile / 2;
    double scale = (double)o->size / o->work, greatest = 0;
    for (int i = 1; i <= last; i++)
        greatest = fmax(greatest, (double)medians[i]);
    double at = fmin(fmax((double)r * tile / o->work, WHITEN_RING_LEAST), (double)last);
    int low = (int)at, high = low < last ? low + 1 : last;
    double power = medians[low] + (at - low) * ((double)medians[high] - medians[low]);
    power = fmax(power, WHITEN_POWER_LEAST * greatest) * scale * scale * 64 / 9 / ((double)tile * tile);
    return power > 0 ? (float)(1 / sqrt(power)) : 0;
}

/* whiten_template_power computes the power of masked templates [count][box][box] in each ring of the micrograph
 * (work/2 + 1), on any scale. whiten_noise returns the factor by which weighting changes the standard deviation of
 * their scores on white noise of variance 1. */
enum status whiten_template_power(const struct whiten_options *options, const float *templates, int box, int count,
                                  double radius, double *ret_power, struct err *err);
float whiten_noise(const double *template_power, const float *weights, int work);

#ifdef __cplusplus
}
#endif
#endif
