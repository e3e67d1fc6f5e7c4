#include "kernels/expectation/posterior.h"

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/multiversion.h"

/* Computes exp(x) for x ≤ 0 with operations that vectorise: 2^k · 2^f with f in [−½, ½], by its Taylor polynomial
 * (relative error below 2e-7). Returns 0 below −87, where floats underflow. */
static inline float exp_negative(float x) {
    float t = x * 1.44269504f;
    float k = (float)(int)(t - 0.5f);
    float f = (t - k) * 0.693147181f;
    float p =
        1 + f * (1 + f * (0.5f + f * (0.166666667f + f * (0.0416666667f + f * (0.00833333333f + f * 0.00138888889f)))));
    int32_t bits = ((int32_t)k + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x > -87 ? p * scale : 0;
}

/* Subtracts the log priors and returns the smallest value. */
MULTIVERSION static float add_priors(float *row, int count, float row_prior, const float *column_prior) {
    float least = FLT_MAX;
    if (column_prior != NULL) {
#pragma omp simd reduction(min : least)
        for (int i = 0; i < count; i++) {
            float value = row[i] - row_prior - column_prior[i];
            row[i] = value;
            least = value < least ? value : least;
        }
    } else {
#pragma omp simd reduction(min : least)
        for (int i = 0; i < count; i++) {
            float value = row[i] - row_prior;
            row[i] = value;
            least = value < least ? value : least;
        }
    }
    return least;
}

MULTIVERSION static float exponentiate(float *values, size_t count, float least) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++) {
        float x = least - values[i];
        float w = exp_negative(x > -88 ? x : -88);
        values[i] = w;
        sum += w;
    }
    return sum;
}

void posterior_weights(float *diff2, int n_rows, int n_columns, const float *row_log_prior,
                       const float *column_log_prior, double *ret_least, double *ret_sum) {
    enum { BLOCK = 4096 };
    float least = FLT_MAX;
    for (int r = 0; r < n_rows; r++) {
        float row = add_priors(diff2 + (size_t)r * (size_t)n_columns, n_columns,
                               row_log_prior != NULL ? row_log_prior[r] : 0, column_log_prior);
        least = row < least ? row : least;
    }
    size_t count = (size_t)n_rows * (size_t)n_columns;
    double sum = 0;
    for (size_t i = 0; i < count; i += BLOCK)
        sum += exponentiate(diff2 + i, count - i < BLOCK ? count - i : BLOCK, least);
    if (ret_least != NULL) *ret_least = least;
    if (ret_sum != NULL) *ret_sum = sum;
}
