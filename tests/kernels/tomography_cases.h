/* Helpers for tests of tomography: makes series of tilts, runs and compares. */
#ifndef ICESTREAM_TESTS_KERNELS_TOMOGRAPHY_CASES_H
#define ICESTREAM_TESTS_KERNELS_TOMOGRAPHY_CASES_H

#include "kernels/tomography/tomography.h"
#include "tests/kernels/chance.h"

enum { MOST_CASE_TILTS = 200 };

/* Geometry of a series. Options point to its angles, so a copy needs options of its own (options_of). */
struct series {
    int tilts, nx, ny, nz;
    double angles[MOST_CASE_TILTS], shifts[MOST_CASE_TILTS];
    bool shifted;
};

/* Makes angles −most .. most in equal steps. Opposite angles are equal to the last bit. */
static inline struct series even_series(int tilts, double most, int nx, int ny, int nz) {
    struct series s = {.tilts = tilts, .nx = nx, .ny = ny, .nz = nz};
    for (int t = 0; t < tilts; t++)
        s.angles[t] = tilts > 1 ? most * (2 * t - (tilts - 1)) / (tilts - 1) : 0;
    return s;
}

static inline void shift_randomly(struct series *s, double most) {
    s->shifted = true;
    for (int t = 0; t < s->tilts; t++)
        s->shifts[t] = most * (2 * uniform() - 1);
}

static const struct device CPU = {DEVICE_CPU, 0};

static inline struct tomography_options options_of(const struct series *s) {
    struct tomography_options o = tomography_defaults();
    o.geometry = (struct tomography_geometry){.tilts = s->tilts,
                                              .angles = s->angles,
                                              .shifts = s->shifted ? s->shifts : NULL,
                                              .nx = s->nx,
                                              .ny = s->ny,
                                              .nz = s->nz};
    o.devices = &CPU;
    o.device_count = 1;
    o.threads = 2;
    return o;
}

static inline size_t ray_count(const struct series *s) {
    return (size_t)s->tilts * (size_t)s->ny * (size_t)s->nx;
}
static inline size_t voxel_count(const struct series *s) {
    return (size_t)s->nz * (size_t)s->ny * (size_t)s->nx;
}

/* Runs once and returns the volume, which was poisoned before. The caller frees it. */
static inline float *run_once(const struct tomography_options *o, const float *projections,
                              struct tomography_report *ret_report, double *ret_residuals) {
    struct err err = {0};
    struct tomography *plan = NULL;
    struct tomography_report report;
    const struct tomography_geometry *g = &o->geometry;
    size_t voxels = (size_t)g->nz * (size_t)g->ny * (size_t)g->nx;
    float *volume = host_new(voxels, sizeof *volume);
    memset(volume, 0xff, voxels * sizeof *volume);
    must(tomography_create(o, &plan, &err), &err);
    must(tomography_run(plan, projections, volume, &report, &err), &err);
    if (ret_residuals) memcpy(ret_residuals, report.residuals, (size_t)report.iterations * sizeof *ret_residuals);
    if (ret_report) *ret_report = report;
    tomography_destroy(&plan);
    return volume;
}

static inline float *random_floats(size_t count) {
    float *values = host_new(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)normal();
    return values;
}

/* Returns √(Σ (a − b)² / Σ b²). NaN in the input gives NaN, which no comparison with < accepts. */
static inline double difference(const float *a, const double *b, size_t count) {
    double squares = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        squares += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(squares / norm);
}

static inline double difference_of_floats(const float *a, const float *b, size_t count) {
    double squares = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        squares += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(squares / norm);
}

static inline void assert_below(double value, double limit, const char *what) {
    if (!(value < limit)) fail_msg("%s is %.3g; it must be below %.3g", what, value, limit);
}

#endif
