/* Computes weights that give a micrograph the same power at all resolutions, as white noise of variance 1 has.
 *
 * The matched filter for a particle in noise is the particle's image divided by the power of the noise. The detector's
 * transfer, the summing of frames and denoising change the spectra of noise and particle by the same factor; denoising
 * may leave a thousandth of the power at 30 Å. If the noise was white before, dividing the micrograph by the root of
 * its power restores both spectra, and the template needs no change.
 *
 * The power is the median over tiles of the micrograph. In the power of the whole micrograph, lumps of ice, edges of
 * carbon and gradients of thickness would dominate the lowest frequencies. The input is the low-passed micrograph as a
 * map of z-scores, work × work px, of which px (x0, y0) ≤ (x, y) < (x1, y1) show the micrograph.
 *
 * Tiles: T × T px, T = fft_good_size(3 diameters, at least 16), no larger than the micrograph. The first tile begins at
 * (x0, y0), another one every T/2 px; tiles that would leave the micrograph are not used.
 *
 * Window: t ← (t − Σ t v / Σ v) v for the pixels t of a tile, v = h(x) h(y), h(i) = 1/2 − 1/2 cos(2πi/T).
 *
 * Power of ring r ≤ T/2 of a tile: mean of |FFT(t)|² over the coefficients with int(|k| + 1/2) = r in the half plane
 * kx ≥ 0, both signs of ky; each coefficient counts once.
 *
 * Power of the noise: P(r) = median over the tiles (value of rank tiles/2) · (size/work)² / (9/64 T²), P(0) = P(1) =
 * P(2), at least 1e-7 of its greatest value.
 *
 * Weight of ring r = 0 … work/2 of the map's transform: P(r · T/work)^(−1/2), P interpolated linearly. */
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
    int size, work;     /* side of the micrograph's square, px of the micrograph; side of the map, px */
    int x0, y0, x1, y1; /* the part of the map that shows the micrograph, map px */
    double diameter;    /* of the particle, map px */
};

struct whiten;

/* Makes a plan. STATUS_BAD_ARGUMENT: x0 … y1 leave the map, or show less than 4 px. */
enum status whiten_create(const struct whiten_options *options, struct whiten **ret_whiten, struct err *err);
void whiten_destroy(struct whiten **whiten);

/* Computes the weights of all rings: map[work][work], weights[work/2 + 1]. Allocates nothing. Only one thread at a time
 * may use a plan. */
void whiten_weights(struct whiten *whiten, const float *map, float *weights);

/* Returns the ring of a coefficient; beyond work/2 the weight is 0. */
WHITEN_SHARED int whiten_ring(int kx, int ky) {
    return (int)(sqrtf((float)(kx * kx + ky * ky)) + 0.5f);
}
/* Multiplies the map's transform by the weights of its rings in place: half[work][work/2 + 1] complex. */
void whiten_apply(const float *weights, int work, float *half);

/* Returns T, the side of a tile in px. */
int whiten_tile(const struct whiten_options *options);
/* Returns the number of tiles of `tile` px along an axis of `length` px. */
int whiten_tiles(int tile, int length);

/* Least power of a ring, as a part of the greatest power: below it a ring contains rounding errors, not noise. */
#define WHITEN_POWER_LEAST 1e-7
/* The first ring whose power is used: subtracting the mean of a tile removes a part of the power of ring 1. */
#define WHITEN_RING_LEAST 2.0

/* Returns the weight of ring r of the map. medians[tile/2 + 1]: of the tiles' power in each ring. 0: no power at
 * all. */
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

/* Computes the power of masked templates [count][box][box] in each ring of the map: ret_power[work/2 + 1], on an
 * arbitrary scale. radius: of the mask, px of the templates. */
enum status whiten_template_power(const struct whiten_options *options, const float *templates, int box, int count,
                                  double radius, double *ret_power, struct err *err);
/* Returns the factor by which weighting changes the standard deviation of the templates' scores on white noise of
 * variance 1. template_power: from whiten_template_power. */
float whiten_noise(const double *template_power, const float *weights, int work);

#ifdef __cplusplus
}
#endif
#endif
