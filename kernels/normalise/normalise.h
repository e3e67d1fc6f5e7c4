/* Normalises a micrograph for picking: z-scores over the whole micrograph, outliers clipped, made square with noise.
 *
 * z = (I − mean)/standard deviation; pixels with |z| > clip and NaN or infinite pixels become 0; a constant micrograph
 * becomes 0 everywhere. Mean and deviation are computed again without the clipped pixels, until no more pixels are
 * clipped or NORMALISE_PASSES times: a hot column must not make dead columns look like the rest. The nx × ny pixels lie
 * in the size × size square at (normalise_offset(size, nx), normalise_offset(size, ny)); the pixels around them are
 * N(0,1) noise from `seed`. The same input and seed give the same output for any number of threads. */
#ifndef ICESTREAM_KERNELS_NORMALISE_NORMALISE_H
#define ICESTREAM_KERNELS_NORMALISE_NORMALISE_H

#include <stddef.h>
#include <stdint.h>

static inline int normalise_offset(int size, int n) {
    return (size - n) / 2;
}

enum { NORMALISE_PASSES = 4, NORMALISE_SAMPLES = 9 };

/* Used by the CPU and by CUDA devices. */
#ifdef __CUDACC__
#define NORMALISE_SHARED static __host__ __device__ inline
#else
#define NORMALISE_SHARED static inline
#endif

/* Returns the median of a few pixels. Sums are taken about this value, so that neither a large offset nor an outlier
 * costs digits of the variance. NaN and infinite pixels count as 0. */
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

/* in: [ny][nx]; out: [size][size], size ≥ nx and ny. Returns the standard deviation in the units of `in`; 0 if the
 * micrograph is constant. */
float normalise_micrograph(const float *in, int nx, int ny, double clip, int size, uint64_t seed, int threads,
                           float *out);

#endif
