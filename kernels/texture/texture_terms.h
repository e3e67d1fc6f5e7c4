/* Computes features from running sums, on the CPU and on CUDA devices.
 *
 * M pairs are counted once each. p is symmetric and sums to 1, so p(i, j) = u / 2M off the diagonal and 2u / 2M on the
 * diagonal, where u is the number of pairs that have the levels i and j in any order. With T(n) = n ln n:
 *
 *   2M HXY = 2M ln 2M − Σ_{i<j} 2 T(u) − Σ_{i=j} T(2u)    = 2 (T(M) + (M − equal) ln 2 − Σ T(u))
 *   M H(x+y) = T(M) − Σ T(pairs of a sum)                   M H(x−y) = T(M) − Σ T(pairs of a difference)
 *   2M HX = T(2M) − Σ T(pixels of a level, both of a pair)
 *
 * All other features follow from moments of i + j and of |i − j|: ij = ((i + j)² − (i − j)²) / 4. T is a table of int64
 * in units of 2^−44. Sums of T are exact, so the terms of an entropy that should be 0 cancel to exactly 0. */
#ifndef ICESTREAM_KERNELS_TEXTURE_TEXTURE_TERMS_H
#define ICESTREAM_KERNELS_TEXTURE_TEXTURE_TERMS_H

#include <math.h>
#include <stdint.h>

#include "kernels/texture/texture.h"

#ifdef __CUDACC__
#define TEXTURE_INLINE static __host__ __device__ inline
#else
#define TEXTURE_INLINE static inline
#endif

/* Units of the tables of n ln n and of 1 / (1 + d²). */
#define TEXTURE_LOG_UNIT 0x1p-44
#define TEXTURE_CLOSENESS_UNIT 0x1p-40

enum { TEXTURE_PAIRS = TEXTURE_WINDOW * (TEXTURE_WINDOW - 1) }; /* most pairs of a window */

struct texture_tables {
    int64_t log[2 * TEXTURE_PAIRS + 1];  /* T(n) */
    int64_t step[2 * TEXTURE_PAIRS];     /* T(n + 1) − T(n) */
    int64_t log_2;                       /* ln 2 */
    int64_t closeness[TEXTURE_LEVELS];   /* 1 / (1 + d²) */
    uint64_t powers[2 * TEXTURE_LEVELS]; /* k + 2^32 k²: moments of a sum or a difference in one addition */
};

/* Running sums of a matrix, from which all features follow. */
struct texture_sums {
    int64_t cells, sums, differences, marginals; /* Σ T over cells (u), values of i + j, of |i − j|, and levels */
    int64_t closeness;                           /* Σ 1 / (1 + (i − j)²) over pairs */
    uint64_t sum_powers, difference_powers;      /* Σ powers[i + j], Σ powers[|i − j|] over pairs */
    int64_t squares;                             /* Σ u² over cells; cells of the diagonal count twice */
    int64_t equal;                               /* number of pairs with i = j */
};

/* Terms of the features, exact in double or rounded once. A factor in a comment: the term is this factor times the
 * value that its name says. */
enum texture_term {
    TERM_SQUARES,
    TERM_DIFFERENCE_SQUARES,
    TERM_COVARIANCE, /* 4 M² */
    TERM_VARIANCE,   /* 4 M² */
    TERM_CLOSENESS,
    TERM_SUM,
    TERM_SUM_VARIANCE,        /* M² */
    TERM_DIFFERENCE_VARIANCE, /* M² */
    TERM_SUM_ENTROPY,         /* M; entropies are in units of the table */
    TERM_DIFFERENCE_ENTROPY,
    TERM_ENTROPY,
    TERM_MARGINAL_ENTROPY, /* 2M */
    TERM_INFORMATION,      /* M; 2 HX − HXY */
    TEXTURE_TERMS
};

/* Computes the terms: term k goes to to[k · stride]. pairs: M. */
TEXTURE_INLINE void texture_terms(const struct texture_sums *s, const struct texture_tables *t, int pairs, double *to,
                                  int stride) {
    int64_t m = pairs;
    int64_t sum = (int64_t)(s->sum_powers & 0xffffffffu), sum_squares = (int64_t)(s->sum_powers >> 32);
    int64_t apart = (int64_t)(s->difference_powers & 0xffffffffu);
    int64_t apart_squares = (int64_t)(s->difference_powers >> 32);
    int64_t entropy = t->log[pairs] + (m - s->equal) * t->log_2 - s->cells, marginal = t->log[2 * pairs] - s->marginals;
    to[TERM_SQUARES * stride] = (double)s->squares;
    to[TERM_DIFFERENCE_SQUARES * stride] = (double)apart_squares;
    to[TERM_COVARIANCE * stride] = (double)(m * (sum_squares - apart_squares) - sum * sum);
    to[TERM_VARIANCE * stride] = (double)(m * (sum_squares + apart_squares) - sum * sum);
    to[TERM_CLOSENESS * stride] = (double)s->closeness;
    to[TERM_SUM * stride] = (double)sum;
    to[TERM_SUM_VARIANCE * stride] = (double)(m * sum_squares - sum * sum);
    to[TERM_DIFFERENCE_VARIANCE * stride] = (double)(m * apart_squares - apart * apart);
    to[TERM_SUM_ENTROPY * stride] = (double)(t->log[pairs] - s->sums);
    to[TERM_DIFFERENCE_ENTROPY * stride] = (double)(t->log[pairs] - s->differences);
    to[TERM_ENTROPY * stride] = (double)entropy;
    to[TERM_MARGINAL_ENTROPY * stride] = (double)marginal;
    to[TERM_INFORMATION * stride] = (double)(marginal - entropy);
}

/* Returns 1 − exp(−x) for 0 ≤ x ≤ 2 ln 64, good to 3e-14, in operations that the compiler can vectorise: exp(−x / 256)
 * by its series, squared eight times. */
TEXTURE_INLINE double texture_one_minus_exp(double x) {
    double y = x * (-1.0 / 256);
    double e = 1 + y * (1 + y * (1.0 / 2 + y * (1.0 / 6 + y * (1.0 / 24 + y * (1.0 / 120 + y * (1.0 / 720))))));
    e *= e;
    e *= e;
    e *= e;
    e *= e;
    e *= e;
    e *= e;
    e *= e;
    e *= e;
    return 1 - e;
}

/* Computes the features from terms at from[k · stride]: feature k goes to to[k · to_stride]. pairs: M. */
TEXTURE_INLINE void texture_features_of(const double *from, int stride, int pairs, float *to, int to_stride) {
    double over = 1.0 / pairs, log_over = TEXTURE_LOG_UNIT * over;
    double variance = from[TERM_VARIANCE * stride], marginal = from[TERM_MARGINAL_ENTROPY * stride];
    double shared = from[TERM_INFORMATION * stride] > 0 ? from[TERM_INFORMATION * stride] : 0;
    to[TEXTURE_ANGULAR_SECOND_MOMENT * to_stride] = (float)(from[TERM_SQUARES * stride] * (0.5 * over * over));
    to[TEXTURE_CONTRAST * to_stride] = (float)(from[TERM_DIFFERENCE_SQUARES * stride] * over);
    to[TEXTURE_CORRELATION * to_stride] =
        (float)(variance > 0 ? from[TERM_COVARIANCE * stride] / (variance > 0 ? variance : 1) : 1);
    to[TEXTURE_VARIANCE * to_stride] = (float)(variance * (0.25 * over * over));
    to[TEXTURE_INVERSE_DIFFERENCE_MOMENT * to_stride] =
        (float)(from[TERM_CLOSENESS * stride] * (TEXTURE_CLOSENESS_UNIT * over));
    to[TEXTURE_SUM_AVERAGE * to_stride] = (float)(from[TERM_SUM * stride] * over);
    to[TEXTURE_SUM_VARIANCE * to_stride] = (float)(from[TERM_SUM_VARIANCE * stride] * (over * over));
    to[TEXTURE_SUM_ENTROPY * to_stride] = (float)(from[TERM_SUM_ENTROPY * stride] * log_over);
    to[TEXTURE_ENTROPY * to_stride] = (float)(from[TERM_ENTROPY * stride] * log_over);
    to[TEXTURE_DIFFERENCE_VARIANCE * to_stride] = (float)(from[TERM_DIFFERENCE_VARIANCE * stride] * (over * over));
    to[TEXTURE_DIFFERENCE_ENTROPY * to_stride] = (float)(from[TERM_DIFFERENCE_ENTROPY * stride] * log_over);
    /* HX = marginal / 2M. */
    to[TEXTURE_INFORMATION_1 * to_stride] = (float)(marginal > 0 ? 0 - 2 * shared / (marginal > 0 ? marginal : 1) : 0);
    to[TEXTURE_INFORMATION_2 * to_stride] = (float)sqrt(texture_one_minus_exp(2 * shared * log_over));
}

#endif
