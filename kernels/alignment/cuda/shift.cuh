/* Shifts of images as phases, for .cu files. A shift by x px turns frequency k by −k x / box of a full turn. Turns are
 * unsigned integers in units of 2^-32 of a turn, so that whole turns drop out: a shift is rounded once, and its
 * multiples are exact for any number of turns. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_SHIFT_CUH
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_SHIFT_CUH

#include <stdint.h>

/* Returns the turns at frequency 1. */
__device__ static inline uint32_t shift_turns(float shift, int box) {
    return (uint32_t)(unsigned long long)__double2ll_rn((double)shift * (-4294967296.0 / box));
}

/* Returns exp(2πi turns), with an error of at most 2e-7: reduces to a quarter turn, and uses polynomials (of Cephes'
 * sinf and cosf) for an eighth on either side of its middle. */
__device__ static inline float2 shift_phase(uint32_t turns) {
    uint32_t moved = turns + (1u << 29) + 64;
    /* The place within the quarter, 23 bits, becomes a float without a (slow) conversion. */
    float place = __uint_as_float(0x4b000000u | (moved >> 7 & 0x7fffffu)) - 12582912.0f;
    float t = place * 1.87253514e-7f, z = t * t; /* π 2^-24 */
    float sine = fmaf(fmaf(fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z, t, t);
    float cosine =
        fmaf(z, fmaf(z, fmaf(z, fmaf(z, 2.443315711809948e-5f, -1.388731625493765e-3f), 4.166664568298827e-2f), -0.5f),
             1.0f);
    bool odd = moved & 0x40000000u;
    float re = odd ? sine : cosine, im = odd ? cosine : sine;
    return make_float2(__uint_as_float(__float_as_uint(re) ^ ((moved + 0x40000000u) & 0x80000000u)),
                       __uint_as_float(__float_as_uint(im) ^ (moved & 0x80000000u)));
}

#endif
