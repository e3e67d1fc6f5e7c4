/* Makes random ensembles that are hard to superpose, or easy to get wrong, at a given radius of gyration. Numbers come
 * from a seed. */
#ifndef ICESTREAM_TESTS_KERNELS_SUPERPOSE_CASES_H
#define ICESTREAM_TESTS_KERNELS_SUPERPOSE_CASES_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/superpose/superpose.h"

/* The allowed error of an RMSD, Å. */
static const double ALLOWED = 0.005;

static uint64_t seed = 20261121;

static inline double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static inline double normal(void) {
    double u = uniform(), v = uniform();
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static inline void must(enum status status, const struct err *err) {
    if (status != STATUS_OK) fail_msg("%s", err->message);
}

static inline void *host_new(size_t count, size_t size) {
    void *memory = mem_aligned(count + 1, size);
    assert_non_null(memory);
    return memory;
}

/* ALIKE: 1e-3 Å apart. NEAR: 0.3 Å apart. MIRRORED: every other structure is a mirror image. LINE, PLANE: atoms on a
 * line or plane, except for rounding. ROD: one line of atoms, whose two largest eigenvalues are equal. ROUND: equal
 * singular values, so that mirror images have three equal eigenvalues. POINT: all atoms of every other structure are in
 * one place. MIXED: two unrelated halves of the ensemble. */
enum shape { RANDOM, ALIKE, NEAR, MIRRORED, PLANE, LINE, ROD, ROUND, POINT, MIXED, SHAPES };
static const char *const SHAPE_NAMES[] = {"random", "alike", "near",  "mirrored", "plane",
                                          "line",   "rod",   "round", "point",    "mixed"};

static inline void random_rotation(double m[3][3]) {
    double q[4], length = 0;
    for (int k = 0; k < 4; k++) {
        q[k] = normal();
        length += q[k] * q[k];
    }
    length = sqrt(length);
    double w = q[0] / length, x = q[1] / length, y = q[2] / length, z = q[3] / length;
    double r[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                      {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                      {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
    memcpy(m, r, sizeof r);
}

/* Draws the atoms of one structure before it is turned: about the origin, with a radius of gyration of about 1. */
static inline void draw(enum shape shape, int atoms, double *x) {
    for (int k = 0; k < atoms; k++)
        for (int a = 0; a < 3; a++) {
            double v = normal() / sqrt(3);
            if (shape == ROUND) v = (k / 2 % 3 == a) * (k % 2 ? 1.0 : -1.0);
            if ((shape == PLANE && a == 2) || ((shape == LINE || shape == ROD) && a > 0)) v = 0;
            x[3 * k + a] = v;
        }
}

/* Returns [count][atoms][3], each structure turned and moved at random. The caller frees it. */
static inline float *make_ensemble(enum shape shape, int count, int atoms, double radius) {
    size_t floats = (size_t)atoms * 3;
    float *xyz = host_new((size_t)count * floats, sizeof *xyz);
    double *base = host_new(floats, sizeof *base), *other = host_new(floats, sizeof *other),
           *x = host_new(floats, sizeof *x);
    draw(shape, atoms, base);
    draw(shape, atoms, other);
    for (int n = 0; n < count; n++) {
        double m[3][3], shift[3], apart = shape == ALIKE ? 1e-3 : shape == NEAR || shape == MIXED ? 0.3 : 0;
        bool fresh = shape == RANDOM || shape == PLANE || shape == LINE;
        if (fresh)
            draw(shape, atoms, x);
        else
            memcpy(x, shape == MIXED && n % 2 ? other : base, floats * sizeof *x);
        for (size_t k = 0; k < floats; k++) {
            x[k] = x[k] * radius + apart * normal() / sqrt(3);
            if (shape == POINT && n % 2) x[k] = 0;
            if ((shape == MIRRORED || shape == ROUND) && n % 2 && k % 3 == 0) x[k] = -x[k];
        }
        random_rotation(m);
        for (int a = 0; a < 3; a++)
            shift[a] = 30 * normal();
        for (int k = 0; k < atoms; k++)
            for (int a = 0; a < 3; a++)
                xyz[(size_t)n * floats + 3 * k + a] =
                    (float)(m[a][0] * x[3 * k] + m[a][1] * x[3 * k + 1] + m[a][2] * x[3 * k + 2] + shift[a]);
    }
    free(base);
    free(other);
    free(x);
    return xyz;
}

/* Returns memory of NaNs with a guard behind it. */
static inline float *poisoned(size_t count) {
    float *memory = host_new(count, sizeof *memory);
    memset(memory, 0xff, (count + 1) * sizeof *memory);
    return memory;
}
static inline void check_guard(const float *memory, size_t count) {
    uint32_t guard = 0;
    memcpy(&guard, memory + count, sizeof guard);
    assert_int_equal(guard, 0xffffffffu);
}

/* Returns the matrix of RMSDs. The caller frees it. */
static inline float *matrix_of(struct superpose *s) {
    struct err err = {0};
    size_t pairs = superpose_pairs(superpose_count(s));
    float *rmsd = poisoned(pairs);
    must(superpose_matrix(s, rmsd, &err), &err);
    check_guard(rmsd, pairs);
    return rmsd;
}

static inline double worse(double worst, double difference) {
    return difference <= worst ? worst : difference; /* NaN is worst */
}
static inline double differ(const float *a, const float *b, size_t count) {
    double worst = 0;
    for (size_t k = 0; k < count; k++)
        worst = worse(worst, fabs((double)a[k] - b[k]));
    return worst;
}

static inline double kabsch(const float *xyz, int atoms, const float *weights, int i, int j) {
    struct err err = {0};
    struct superpose_fit fit;
    must(superpose_pair(SUPERPOSE_KABSCH, xyz + (size_t)i * atoms * 3, xyz + (size_t)j * atoms * 3, atoms, weights,
                        &fit, &err),
         &err);
    return fit.rmsd;
}

#endif
