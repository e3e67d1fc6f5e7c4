#include <stdint.h>
#include <string.h>

#include "common/multiversion.h"
#include "kernels/expectation/expectation.h"

/* Non-negative floats have the same order as their bits. Therefore the buckets that count weights are digits of these
 * bits: logarithmic spacing, exact edges, and always at most three rounds, however peaked the weights (uniform buckets
 * would need a round for every factor of their number). */
enum { DIGIT_BITS = 11, BUCKETS = 1 << DIGIT_BITS };
static const int DIGIT_SHIFT[3] = {21, 10, 0};

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

MULTIVERSION static double sum_of(const float *weights, size_t count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += (double)weights[i];
    return sum;
}

void expectation_top_sum(const float *weights, size_t count, double fraction, float *ret_threshold, size_t *ret_count) {
    double total = sum_of(weights, count);
    double wanted = fraction * total, above = 0;
    size_t counted = 0;
    uint32_t prefix = 0, mask = 0;
    for (int round = 0; round < 3; round++) {
        double sum[BUCKETS] = {0};
        size_t members[BUCKETS] = {0};
        int shift = DIGIT_SHIFT[round];
        for (size_t i = 0; i < count; i++) {
            uint32_t bits = bits_of(weights[i]);
            /* Zeros never count: they would only crowd the first bucket. */
            if (bits != 0 && (bits & mask) == prefix) {
                sum[bits >> shift & (BUCKETS - 1)] += weights[i];
                members[bits >> shift & (BUCKETS - 1)]++;
            }
        }
        /* Go from the high end to the bucket in which the sum crosses. Rounding may end at the last non-empty
         * bucket. */
        int bucket = BUCKETS, last = -1;
        while (--bucket >= 0) {
            if (members[bucket] == 0) continue;
            last = bucket;
            if (above + sum[bucket] > wanted) break;
            above += sum[bucket];
            counted += members[bucket];
        }
        if (last < 0) { /* only zeros */
            *ret_threshold = 0;
            *ret_count = count;
            return;
        }
        if (bucket < 0) { /* went past the last non-empty bucket: return to it */
            above -= sum[last];
            counted -= members[last];
        }
        prefix |= (uint32_t)last << shift;
        mask |= (uint32_t)(BUCKETS - 1) << shift;
        if (round == 2) counted += members[last];
    }
    memcpy(ret_threshold, &prefix, sizeof prefix);
    *ret_count = counted;
}

MULTIVERSION static float greatest_of(const float *weights, size_t count) {
    float greatest = 0;
#pragma omp simd reduction(max : greatest)
    for (size_t i = 0; i < count; i++)
        greatest = weights[i] > greatest ? weights[i] : greatest;
    return greatest;
}

/* Counts the weights from `least` on by one digit, for those whose higher digits are those of `prefix`. Most blocks
 * have none. */
static void count_digits(const float *weights, size_t count, float least, int shift, uint32_t prefix, uint32_t mask,
                         size_t members[BUCKETS]) {
    enum { BLOCK = 64 };
    memset(members, 0, BUCKETS * sizeof *members);
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = count - begin < BLOCK ? count : begin + BLOCK;
        if (greatest_of(weights + begin, end - begin) < least) continue;
        for (size_t i = begin; i < end; i++) {
            uint32_t bits = bits_of(weights[i]);
            if (bits != 0 && weights[i] >= least && (bits & mask) == prefix) members[bits >> shift & (BUCKETS - 1)]++;
        }
    }
}

void expectation_largest(const float *weights, size_t count, float least, size_t most, float *ret_threshold,
                         size_t *ret_count) {
    size_t members[BUCKETS], above = 0;
    uint32_t prefix = 0, mask = 0;
    for (int round = 0; round < 3; round++) {
        count_digits(weights, count, least, DIGIT_SHIFT[round], prefix, mask, members);
        int last = -1;
        for (int bucket = BUCKETS - 1; bucket >= 0 && (last < 0 || above + members[last] < most); bucket--) {
            if (members[bucket] == 0) continue;
            if (last >= 0) above += members[last];
            last = bucket;
        }
        if (last < 0) { /* only zeros */
            *ret_threshold = 0;
            *ret_count = count;
            return;
        }
        prefix |= (uint32_t)last << DIGIT_SHIFT[round];
        mask |= (uint32_t)(BUCKETS - 1) << DIGIT_SHIFT[round];
        if (round == 2) above += members[last];
        float lowest; /* smallest weight with this prefix */
        memcpy(&lowest, &prefix, sizeof lowest);
        least = lowest > least ? lowest : least;
    }
    memcpy(ret_threshold, &prefix, sizeof prefix);
    *ret_count = above;
}
