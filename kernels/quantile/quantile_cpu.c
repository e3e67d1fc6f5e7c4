#include "kernels/quantile/quantile.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BITS = 11, BINS = 1 << BITS };

/* Maps floats to unsigned integers of the same order. */
static uint32_t ordered(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float unordered(uint32_t key) {
    uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Finds the value digit by digit from the top: a histogram of one digit among the values that share the digits found so
 * far. */
float quantile_rank(const float *values, size_t count, size_t rank) {
    uint32_t prefix = 0, mask = 0;
    for (int shift = 32 - BITS; mask != 0xffffffffu; shift = shift > BITS ? shift - BITS : 0) {
        size_t bins[BINS] = {0}, bin = 0;
        uint32_t digit = (BINS - 1) & ~(mask >> shift);
        for (size_t i = 0; i < count; i++) {
            uint32_t key = ordered(values[i]);
            if ((key & mask) == prefix) bins[key >> shift & digit]++;
        }
        while (bin < BINS - 1 && rank >= bins[bin])
            rank -= bins[bin++];
        prefix |= (uint32_t)bin << shift;
        mask |= digit << shift;
    }
    return unordered(prefix);
}

void quantile_robust(float *values, size_t count, float *ret_median, float *ret_deviation) {
    *ret_median = *ret_deviation = 0;
    if (count == 0) return;
    float median = quantile_rank(values, count, count / 2);
    for (size_t i = 0; i < count; i++)
        values[i] = fabsf(values[i] - median);
    *ret_median = median;
    *ret_deviation = 1.4826f * quantile_rank(values, count, count / 2);
}
