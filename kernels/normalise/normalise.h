/* A micrograph on the scale that picking works on: z-score over the whole, outliers clipped, made square with noise.
 *
 * z = (I − mean)/standard deviation; |z| > clip, and pixels that are no numbers, become 0; a constant micrograph becomes
 * 0 everywhere. Mean and deviation are taken again without what is clipped, until that is no more or NORMALISE_PASSES
 * times: one hot column must not make dead ones look like the rest. The nx × ny pixels stand in the size × size square at (normalise_offset(size, nx), …(size, ny)); what is
 * new around them is N(0,1) noise from `seed`. The same input and seed give the same output for any number of threads. */
#ifndef ICESTREAM_KERNELS_NORMALISE_NORMALISE_H
#define ICESTREAM_KERNELS_NORMALISE_NORMALISE_H

#include <stddef.h>
#include <stdint.h>

static inline int normalise_offset(int size, int n) {
    return (size - n) / 2;
}

enum { NORMALISE_PASSES = 4, NORMALISE_SAMPLES = 9 };

/* Both devices sum about this. */
#ifdef __CUDACC__
#define NORMALISE_SHARED static __host__ __device__ inline
#else
#define NORMALISE_SHARED static inline
#endif

/* The middle one of a few pixels, so that neither a large offset nor a wild pixel eats the digits of the variance; what is
 * no number counts as 0. */
NORMALISE_SHARED float normalise_origin(const float *in, size_t count) {
    float sorted[NORMALISE_SAMPLES];
    for (int i = 0; i < NORMALISE_SAMPLES; i++) {
        float value = in[count * (size_t)i / NORMALISE_SAMPLES];
        int at = i;
        value = value - value == 0 ? value : 0;
        for (; at > 0 && sorted[at - 1] > value; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = value;
    }
    return sorted[NORMALISE_SAMPLES / 2];
}

/* in: [ny][nx]; out: [size][size], size ≥ nx and ny. Returns the standard deviation in the units of `in`; 0: constant. */
float normalise_micrograph(const float *in, int nx, int ny, double clip, int size, uint64_t seed, int threads,
                           float *out);

#endif
