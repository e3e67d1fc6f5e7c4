/* Shifts of images as phases, for .cu files. An image moved by x px turns at frequency k by −k x / box of a full turn.
 * Turns are counted in units of 2^-32 of one in unsigned numbers, where whole turns drop out by themselves: a shift is
 * rounded once, and its multiples are exact however many turns they are. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_SHIFT_CUH
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_SHIFT_CUH

#include <stdint.h>

/* At frequency 1. */
__device__ static inline uint32_t shift_turns(float shift, int box) {
    return (uint32_t)(unsigned long long)__double2ll_rn((double)shift * (-4294967296.0 / box));
}

/* exp(2πi turns), off by 2e-7 at most: a quarter of a turn and polynomials (those of Cephes' sinf and cosf) for the
 * eighth on either side of it. */
__device__ static inline float2 shift_phase(uint32_t turns) {
    uint32_t moved = turns + (1u << 29) + 64;
    /* The place within the quarter to 23 bits becomes a float without a conversion, which would be slow. */
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
