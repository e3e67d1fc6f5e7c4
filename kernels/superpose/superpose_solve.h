/* Computes λ of one pair from its 3 × 3 matrix R (kernels/superpose/superpose.h) in double, for the tiles of the CPU
 * and of CUDA devices.
 *
 * With t = |R|² (Frobenius), e = the sum of squares of R's 2 × 2 minors and d = det R, λ is the largest root of
 * λ⁴ − 2 t λ² − 8 d λ + t² − 4 e, whose four roots s1 + s2 + s3 (with two signs changed at a time, d < 0: with one) are
 * all real. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_SOLVE_H
#define ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_SOLVE_H

#include <math.h>

#include "kernels/superpose/superpose.h"

#ifdef __CUDACC__
#define SUPERPOSE_INLINE static __host__ __device__ inline
#else
#define SUPERPOSE_INLINE static inline
#endif
#ifdef __CUDA_ARCH__
#define SUPERPOSE_UNROLL _Pragma("unroll")
#else
#define SUPERPOSE_UNROLL
#endif

/* The least derivative (in units of |R|) at which Newton's λ is accurate enough. The coefficients are good to 1e-15, so
 * λ is good to 1e-15 / derivative. */
#define SUPERPOSE_STEEP 1e-4
/* |R|² below which R counts as 0, Å⁴. */
#define SUPERPOSE_NOTHING 1e-30
/* Pairs below this RMSD / Rg² (1/Å), summed in single precision, are computed again in double. */
#define SUPERPOSE_AGAIN 4e-4

enum { SUPERPOSE_SWEEPS = 6, SUPERPOSE_STEPS = 40 };

/* Does one rotation of cyclic Jacobi, which makes a[p][q] 0. turned: accumulates the rotations; may be NULL. */
SUPERPOSE_INLINE void superpose_turn(double a[4][4], double (*turned)[4], int p, int q) {
    double off = a[p][q];
    /* Too small to matter beside the diagonal. */
    if (fabs(off) <= 1e-17 * (fabs(a[p][p]) + fabs(a[q][q]))) return;
    double theta = (a[q][q] - a[p][p]) / (2 * off);
    double t = copysign(1.0, theta) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    a[p][p] -= t * off;
    a[q][q] += t * off;
    a[p][q] = a[q][p] = 0;
    SUPERPOSE_UNROLL
    for (int k = 0; k < 4; k++) {
        if (k != p && k != q) {
            double kp = a[k][p], kq = a[k][q];
            a[k][p] = a[p][k] = c * kp - s * kq;
            a[k][q] = a[q][k] = s * kp + c * kq;
        }
        if (turned) {
            double kp = turned[k][p], kq = turned[k][q];
            turned[k][p] = c * kp - s * kq;
            turned[k][q] = s * kp + c * kq;
        }
    }
}

/* Fills the symmetric matrix whose largest eigenvalue is λ (Coutsias, Seok & Dill 2004, equation 10). */
SUPERPOSE_INLINE void superpose_quaternion_matrix(const double *r, double a[4][4]) {
    a[0][0] = r[0] + r[4] + r[8];
    a[1][1] = r[0] - r[4] - r[8];
    a[2][2] = -r[0] + r[4] - r[8];
    a[3][3] = -r[0] - r[4] + r[8];
    a[0][1] = a[1][0] = r[5] - r[7];
    a[0][2] = a[2][0] = r[6] - r[2];
    a[0][3] = a[3][0] = r[1] - r[3];
    a[1][2] = a[2][1] = r[1] + r[3];
    a[1][3] = a[3][1] = r[6] + r[2];
    a[2][3] = a[3][2] = r[5] + r[7];
}

/* Returns λ by cyclic Jacobi. vector: also receives the eigenvector [4] of λ; may be NULL. */
SUPERPOSE_INLINE double superpose_jacobi(const double *r, double *vector) {
    double a[4][4], turned[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    superpose_quaternion_matrix(r, a);
    for (int sweep = 0; sweep < SUPERPOSE_SWEEPS; sweep++) {
        SUPERPOSE_UNROLL
        for (int p = 0; p < 3; p++)
            SUPERPOSE_UNROLL
        for (int q = p + 1; q < 4; q++)
            superpose_turn(a, vector ? turned : 0, p, q);
    }
    int best = 0;
    double most = a[0][0];
    SUPERPOSE_UNROLL
    for (int k = 1; k < 4; k++)
        if (a[k][k] > most) {
            most = a[k][k];
            best = k;
        }
    if (vector)
        for (int k = 0; k < 4; k++)
            vector[k] = turned[k][best];
    return most;
}

/* The coefficients t, d and e of the polynomial above. */
struct superpose_polynomial {
    double t, d, e;
};
SUPERPOSE_INLINE struct superpose_polynomial superpose_polynomial(const double *r) {
    double m0 = r[4] * r[8] - r[5] * r[7], m1 = r[5] * r[6] - r[3] * r[8], m2 = r[3] * r[7] - r[4] * r[6];
    double m3 = r[2] * r[7] - r[1] * r[8], m4 = r[0] * r[8] - r[2] * r[6], m5 = r[1] * r[6] - r[0] * r[7];
    double m6 = r[1] * r[5] - r[2] * r[4], m7 = r[2] * r[3] - r[0] * r[5], m8 = r[0] * r[4] - r[1] * r[3];
    struct superpose_polynomial p;
    p.t = r[0] * r[0] + r[1] * r[1] + r[2] * r[2] + r[3] * r[3] + r[4] * r[4] + r[5] * r[5] + r[6] * r[6] +
          r[7] * r[7] + r[8] * r[8];
    p.d = r[0] * m0 + r[1] * m1 + r[2] * m2;
    p.e = m0 * m0 + m1 * m1 + m2 * m2 + m3 * m3 + m4 * m4 + m5 * m5 + m6 * m6 + m7 * m7 + m8 * m8;
    return p;
}

/* Returns λ by Newton's iteration, or by Jacobi if that fails. bound: (G_p + G_q) / 2, which λ never exceeds. */
SUPERPOSE_INLINE double superpose_qcp(const double *r, double bound, int *ret_steep) {
    struct superpose_polynomial p = superpose_polynomial(r);
    *ret_steep = 1;
    if (!(p.t > SUPERPOSE_NOTHING)) return 0;
    /* In units of |R|: the largest root lies between 0.57 and √3. */
    double unit = sqrt(p.t), d8 = 8 * (p.d / (p.t * unit)), c = 1 - 4 * (p.e / (p.t * p.t));
    double x = fmin(bound / unit, 1.7320508075688774), slope = 0;
    for (int step = 0; step < SUPERPOSE_STEPS; step++) {
        double square = x * x, value = square * square - 2 * square - d8 * x + c;
        slope = 4 * x * square - 4 * x - d8;
        /* The division needs no more precision than the step. */
#ifdef __CUDA_ARCH__
        double change = value * (double)__frcp_rn((float)slope);
#else
        double change = value / slope;
#endif
        if (!(slope > 1e-6)) break;
        x -= change;
        /* From above λ only falls, apart from rounding. */
        if (change < 1e-14) break;
    }
    *ret_steep = slope > SUPERPOSE_STEEP;
    return x * unit;
}

/* Returns λ = s1 + s2 ± s3. Rotates R's columns in pairs until they are orthogonal (one-sided Jacobi); the lengths of
 * the columns are then the singular values. The rotations do not change det R. columns, turns: receive the columns and
 * the accumulated rotations, [9] each, for kernels/superpose/pair_cpu.c; or both NULL. */
SUPERPOSE_INLINE double superpose_kabsch(const double *r, double *columns, double *turns) {
    double u[9], v[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    for (int k = 0; k < 9; k++)
        u[k] = r[k];
    for (int sweep = 0; sweep < 2 * SUPERPOSE_SWEEPS; sweep++)
        for (int p = 0; p < 2; p++)
            for (int q = p + 1; q < 3; q++) {
                double pp = 0, qq = 0, pq = 0;
                for (int k = 0; k < 9; k += 3) {
                    pp += u[k + p] * u[k + p];
                    qq += u[k + q] * u[k + q];
                    pq += u[k + p] * u[k + q];
                }
                if (fabs(pq) <= 1e-17 * sqrt(pp) * sqrt(qq)) continue;
                double theta = (qq - pp) / (2 * pq);
                double t = copysign(1.0, theta) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int k = 0; k < 9; k += 3) {
                    double up = u[k + p], uq = u[k + q], vp = v[k + p], vq = v[k + q];
                    u[k + p] = c * up - s * uq;
                    u[k + q] = s * up + c * uq;
                    v[k + p] = c * vp - s * vq;
                    v[k + q] = s * vp + c * vq;
                }
            }
    double s[3], least = INFINITY, sum = 0;
    for (int k = 0; k < 3; k++) {
        s[k] = sqrt(u[k] * u[k] + u[k + 3] * u[k + 3] + u[k + 6] * u[k + 6]);
        least = fmin(least, s[k]);
        sum += s[k];
    }
    double det =
        u[0] * (u[4] * u[8] - u[5] * u[7]) - u[1] * (u[3] * u[8] - u[5] * u[6]) + u[2] * (u[3] * u[7] - u[4] * u[6]);
    if (columns)
        for (int k = 0; k < 9; k++) {
            columns[k] = u[k];
            turns[k] = v[k];
        }
    return det < 0 ? sum - 2 * least : sum;
}

/* Returns λ by a method. bound: (G_p + G_q) / 2. */
SUPERPOSE_INLINE double superpose_lambda(enum superpose_method method, const double *r, double bound) {
    int steep = 0;
    if (method == SUPERPOSE_KABSCH) return superpose_kabsch(r, 0, 0);
    double lambda = method == SUPERPOSE_QCP ? superpose_qcp(r, bound, &steep) : 0;
    return steep ? lambda : superpose_jacobi(r, 0);
}

/* Returns the RMSD in Å. norms: G_p + G_q; total: Σ w. */
SUPERPOSE_INLINE double superpose_rmsd(double norms, double lambda, double total) {
    return sqrt(fmax(0.0, (norms - 2 * lambda) / total));
}

/* Returns whether a pair with products summed in single precision must be computed again; norms: G_p + G_q. */
SUPERPOSE_INLINE int superpose_is_close(double norms, double rmsd, double total) {
    return rmsd < SUPERPOSE_AGAIN * norms / (2 * total);
}

#endif
