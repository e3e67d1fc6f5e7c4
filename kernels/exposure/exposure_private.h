/* Shared by the devices that expose frames. */
#ifndef ICESTREAM_KERNELS_EXPOSURE_EXPOSURE_PRIVATE_H
#define ICESTREAM_KERNELS_EXPOSURE_EXPOSURE_PRIVATE_H

#include "kernels/exposure/exposure.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EXPOSURE_TAPS = 12, EXPOSURE_BEFORE = 5, EXPOSURE_PHASES = 1024, EXPOSURE_TILE_MAX = 32 };

/* Place of a tile of the frame on the canvas: its first pixel is interpolated between pixels x and x + 1, y and y + 1
 * of the canvas, at the parts phase_x and phase_y of EXPOSURE_PHASES. */
struct exposure_place {
    int x, y;
    int phase_x, phase_y;
};

/* A frame's tiles, row by row. */
struct exposure_tiles {
    int side, columns, rows;
    const struct exposure_place *place;
};

/* The two words that make the electrons of a frame its own. */
struct exposure_key {
    uint32_t first, second;
};

/* The operations of a device. weights: [EXPOSURE_PHASES][EXPOSURE_TAPS], which outlive the state. */
struct exposure_work {
    enum status (*create)(const struct exposure_task *task, const float *weights, void **ret_state, struct err *err);
    void (*destroy)(void *state); /* also of a state that is half made; never NULL */
    enum status (*take)(void *state, const float *canvas, const float *response, struct err *err);
    enum status (*run)(void *state, const struct exposure_tiles *tiles, struct exposure_key key, uint16_t *counts,
                       struct err *err);
};
extern const struct exposure_work exposure_cpu_work, exposure_cuda_work; /* cuda: in builds with CUDA */

#ifdef __CUDACC__
#define EXPOSURE_INLINE static __device__ __forceinline__
#else
#define EXPOSURE_INLINE static inline __attribute__((always_inline))
#endif

/* Scrambles a word (lowbias32, C. Wellons 2018). */
EXPOSURE_INLINE uint32_t exposure_scramble(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

/* Returns 32 random bits of a pixel. */
EXPOSURE_INLINE uint32_t exposure_bits(struct exposure_key key, uint32_t pixel) {
    return exposure_scramble(exposure_scramble(pixel + key.first) ^ key.second);
}

/* Returns e^−x for 0 ≤ x ≤ 80, in operations that all devices and vector units have: 2^n · e^r. */
EXPOSURE_INLINE float exposure_decay(float x) {
    const float shifter = 12582912; /* 1.5 · 2^23: adding it rounds to whole numbers */
    float n = (-1.44269504f * x + shifter) - shifter;
    float r = (-x - n * 0.693359375f) + n * 2.12194440e-4f;
    float e = 1.9875691500e-4f;
    e = e * r + 1.3981999507e-3f;
    e = e * r + 8.3334519073e-3f;
    e = e * r + 4.1665795894e-2f;
    e = e * r + 1.6666665459e-1f;
    e = e * r + 5.0000001201e-1f;
    e = e * r * r + r + 1;
    union {
        uint32_t word;
        float value;
    } scale;
    scale.word = (uint32_t)((int)n + 127) << 23;
    return e * scale.value;
}

/* The probability that is too small for 24 random bits. */
#define EXPOSURE_TINY 3e-8f
/* Above this expectation counts come from a normal distribution of the same mean and variance. */
#define EXPOSURE_MANY 64.0f

#ifdef __cplusplus
}
#endif
#endif
