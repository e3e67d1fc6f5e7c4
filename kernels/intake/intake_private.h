/* Connects intake.c with the work of each kind of device. */
#ifndef ICESTREAM_KERNELS_INTAKE_INTAKE_PRIVATE_H
#define ICESTREAM_KERNELS_INTAKE_INTAKE_PRIVATE_H

#include <stdint.h>
#include <string.h>

#include "kernels/intake/intake.h"

#ifdef __CUDACC__
#define INTAKE_SHARED static __host__ __device__ inline
#else
#define INTAKE_SHARED static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The work of one kind of device on its own state. */
struct intake_work {
    enum status (*create)(const struct device *device, void **ret_state, struct err *err);
    /* Takes a state, never NULL. */
    void (*destroy)(void *state);
    enum status (*run)(void *state, const struct intake_input *input, struct intake_result *ret_result,
                       struct err *err);
};
extern const struct intake_work intake_cpu_work;
extern const struct intake_work intake_cuda_work; /* only in builds with CUDA */

/* The range of pixels in keys: whole numbers in the order of the floats. Starts as INTAKE_NOTHING. */
struct intake_range {
    int32_t least, most;
    uint32_t beyond;
};
#define INTAKE_NOTHING                                                                                                 \
    { INT32_MAX, INT32_MIN, 0 }

INTAKE_SHARED uint32_t intake_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Turns a float into its key, and a key into its float: the bits of a negative number without its sign are turned. */
INTAKE_SHARED int32_t intake_key(uint32_t bits) {
    return (int32_t)(bits ^ ((uint32_t)((int32_t)bits >> 31) >> 1));
}

static inline float intake_value(int32_t key) {
    uint32_t bits = (uint32_t)intake_key((uint32_t)key);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Adds a pixel to a range. limit: the bits of the greatest magnitude. NaN and infinity change nothing. */
INTAKE_SHARED void intake_see(float pixel, uint32_t limit, struct intake_range *range) {
    uint32_t bits = intake_bits(pixel), size = bits & 0x7fffffffu;
    int finite = size < 0x7f800000u;
    int32_t key = intake_key(bits), low = finite ? key : INT32_MAX, high = finite ? key : INT32_MIN;
    range->least = low < range->least ? low : range->least;
    range->most = high > range->most ? high : range->most;
    range->beyond += (uint32_t)(finite & (size > limit));
}

#ifdef __cplusplus
}
#endif
#endif
