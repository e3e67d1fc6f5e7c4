/* Prepares what all devices need: angles, weights by fraction, pairs ±θ, WBP's filter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/tomography/blob.h"
#include "kernels/tomography/tomography_private.h"

static void unnormalised(enum tomography_basis basis, double f, double *q) {
    for (int k = 0; k < 4; k++) {
        double s = fabs(f - (k - 1));
        q[k] = basis == TOMOGRAPHY_BLOB     ? blob_footprint(s)
               : basis == TOMOGRAPHY_LINEAR ? fmax(0, 2 - s)
                                            : fmax(0, 1 - s);
        q[4 + k] = basis == TOMOGRAPHY_BLOB ? blob_footprint(sqrt(s * s + 1)) : 0;
    }
}

static void make_weights(enum tomography_basis basis, float *weights) {
    for (int step = 0; step <= TOMOGRAPHY_STEPS; step++) {
        double q[8], sum = 0;
        unnormalised(basis, (double)step / TOMOGRAPHY_STEPS, q);
        for (int k = 0; k < 4; k++)
            sum += q[k] + 2 * q[4 + k];
        for (int k = 0; k < 8; k++)
            weights[8 * step + k] = (float)(q[k] / sum);
    }
}

static void make_stencil(enum tomography_basis basis, double *stencil) {
    static const int count[4] = {1, 6, 12, 8};
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        stencil[k] = basis == TOMOGRAPHY_BLOB ? blob_value(sqrt(k)) : k == 0;
        sum += count[k] * stencil[k];
    }
    for (int k = 0; k < 4; k++)
        stencil[k] /= sum;
}

bool tomography_is_pair(const struct tomography_geometry *g, int a, int b) {
    return llrint(fabs(g->angles[a]) * 0x1p20) == llrint(fabs(g->angles[b]) * 0x1p20);
}

static void make_pairs(struct tomography_setup *s) {
    for (int t = 0; t < s->tilts; t++) {
        int p = 0;
        while (p < s->pairs && !tomography_is_pair(&s->options.geometry, s->pair_tilt[p], t))
            p++;
        if (p == s->pairs) s->pair_tilt[s->pairs++] = t;
        s->pair[t] = p;
        s->mirror[t] = s->angles[s->pair_tilt[p]] * s->angles[t] < 0;
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the angle that a tilt stands for: half the way to either neighbour, round the circle of 180°. At an end
 * without a neighbour within four times the mean step it takes the half way of the other side: a missing wedge belongs
 * to no tilt. Equal angles share. */
static double share_of(const double *sorted, int tilts, double angle) {
    if (tilts == 1) return M_PI;
    int first = 0, last;
    while (sorted[first] < angle)
        first++;
    for (last = first; last + 1 < tilts && sorted[last + 1] <= angle;)
        last++;
    double round = sorted[0] + 180 - sorted[tilts - 1];
    double below = first > 0 ? angle - sorted[first - 1] : round;
    double above = last + 1 < tilts ? sorted[last + 1] - angle : round;
    double most = 4 * (sorted[tilts - 1] - sorted[0]) / (tilts - 1);
    if (first == 0 && below > most) below = above;
    if (last + 1 == tilts && above > most) above = below;
    return 0.5 * (below + above) * (M_PI / 180) / (last - first + 1);
}

static enum status make_shares(struct tomography_setup *s, struct err *err) {
    _cleanup_(mem_free) double *sorted = NULL;
    const double *angles = s->options.geometry.angles;
    TRY(mem_new((size_t)s->tilts, sizeof *sorted, "angles", &sorted, err));
    memcpy(sorted, angles, (size_t)s->tilts * sizeof *sorted);
    qsort(sorted, (size_t)s->tilts, sizeof *sorted, by_value);
    for (int t = 0; t < s->tilts; t++)
        s->shares[t] = share_of(sorted, s->tilts, angles[t]);
    return STATUS_OK;
}

static double roll_off(const struct tomography_options *o, double frequency) {
    double part = frequency / (0.5 * o->cutoff);
    if (part > 1 + 1e-9) return 0;
    switch (o->roll_off) {
    case TOMOGRAPHY_COSINE:
        return cos(0.5 * M_PI * fmin(part, 1));
    case TOMOGRAPHY_HAMMING:
        return 0.54 + 0.46 * cos(M_PI * part);
    default:
        return 1;
    }
}

/* The ramp is the transform of its own samples, 1/4 at 0 and −1/(πn)² at odd n (Kak & Slaney 1988, eq. 3.61), not |k|
 * itself: |k| would remove the mean of projections that are not periodic over 2 nx. */
static void make_filter(struct tomography_setup *s) {
    int n = s->padded;
    for (int k = 0; k <= n / 2; k++) {
        double ramp = 0.25;
        for (int i = 1; i < n / 2; i += 2)
            ramp -= 2 / (M_PI * M_PI * i * i) * cos(2 * M_PI * (double)((long)k * i % n) / n);
        s->filter[k] = (float)(ramp * roll_off(&s->options, (double)k / n) / n);
    }
}

static enum status copy_doubles(const double *from, int count, const double **ret_copy, double **ret_owned,
                                struct err *err) {
    double *copy = NULL;
    TRY(mem_new((size_t)count, sizeof *copy, "tilts", &copy, err));
    if (from) memcpy(copy, from, (size_t)count * sizeof *copy);
    *ret_copy = *ret_owned = copy;
    return STATUS_OK;
}

static enum status allocate(struct tomography_setup *s, struct err *err) {
    struct tomography_geometry *g = &s->options.geometry;
    size_t tilts = (size_t)s->tilts;
    TRY(copy_doubles(g->angles, s->tilts, &g->angles, &s->angles, err));
    TRY(copy_doubles(g->shifts, s->tilts, &g->shifts, &s->shifts, err));
    TRY(mem_new((size_t)s->options.device_count, sizeof *s->devices, "devices", &s->devices, err));
    memcpy(s->devices, s->options.devices, (size_t)s->options.device_count * sizeof *s->devices);
    s->options.devices = s->devices;
    double **doubles[] = {&s->cosines, &s->sines, &s->offsets, &s->shares};
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        TRY(mem_new(tilts, sizeof(double), "tilts", doubles[i], err));
    TRY(mem_new((size_t)s->options.iterations + 1, sizeof *s->residuals, "residuals", &s->residuals, err));
    TRY(mem_new(8 * (TOMOGRAPHY_STEPS + 1), sizeof *s->weights, "weights", &s->weights, err));
    TRY(mem_new(tilts, sizeof *s->pair, "tilts", &s->pair, err));
    TRY(mem_new(tilts, sizeof *s->pair_tilt, "tilts", &s->pair_tilt, err));
    TRY(mem_new(tilts, sizeof *s->mirror, "tilts", &s->mirror, err));
    return mem_new((size_t)s->padded / 2 + 1, sizeof *s->filter, "a filter", &s->filter, err);
}

enum status tomography_setup_make(const struct tomography_options *options, struct tomography_setup *s,
                                  struct err *err) {
    s->options = *options;
    s->tilts = options->geometry.tilts;
    s->nx = options->geometry.nx, s->ny = options->geometry.ny, s->nz = options->geometry.nz;
    s->padded = fft_good_size(2 * s->nx);
    /* WBP interpolates linearly between the two nearest rays. */
    if (options->method == TOMOGRAPHY_WBP) s->options.basis = TOMOGRAPHY_VOXEL;
    s->halo = s->options.basis == TOMOGRAPHY_BLOB;
    TRY(allocate(s, err));
    for (int t = 0; t < s->tilts; t++) {
        double angle = s->angles[t] * (M_PI / 180);
        s->cosines[t] = cos(angle);
        s->sines[t] = sin(angle);
        s->offsets[t] = s->shifts[t] + 0.5 * (s->nx - 1);
    }
    make_weights(s->options.basis, s->weights);
    make_stencil(s->options.basis, s->stencil);
    make_pairs(s);
    if (options->method == TOMOGRAPHY_WBP) {
        make_filter(s);
        TRY(make_shares(s, err));
    }
    return STATUS_OK;
}

void tomography_setup_clear(struct tomography_setup *s) {
    void *owned[] = {s->angles,  s->shifts,    s->devices, s->cosines, s->sines,     s->offsets, s->shares,
                     s->weights, s->residuals, s->pair,    s->mirror,  s->pair_tilt, s->filter};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    *s = (struct tomography_setup){0};
}
