/* Particles beside slices of a map, and the logarithms of their weights, from sums in double over slices interpolated
 * in double. The E-step's product on either device is compared with them. Random numbers come from `seed`. */
#ifndef ICESTREAM_TESTS_KERNELS_COMPARISON_H
#define ICESTREAM_TESTS_KERNELS_COMPARISON_H

#include <stdbool.h>

#include "kernels/ctf/ctf.h"
#include "kernels/expectation/expectation.h"
#include "kernels/projector/projector.h"
#include "tests/kernels/chance.h"

/* Ratio of noise to signal: an SNR of 0.1 before the CTF. */
static const double REAL_NOISE = 3.162;

struct comparison {
    int dimensions, box, particles, shifts, slices;
    bool near; /* slices and shifts near the particles' own; otherwise random */
    int n;
    struct fourier_pixels pixels;
    float *map, *matrices, *images, *ctf, *weight, *shift, *host_slices, *slice_prior, *shift_prior;
    double (*shifts_double)[2];
    struct projector *projector;
};

static inline void random_axis(int dimensions, double axis[3]) {
    double norm = 0;
    for (int i = 0; i < 3; i++) {
        axis[i] = dimensions == 3 ? normal() : i == 2;
        norm += axis[i] * axis[i];
    }
    for (int i = 0; i < 3; i++)
        axis[i] /= sqrt(norm);
}

/* Turns about an axis, in addition to earlier turns (Rodrigues' formula). */
static inline void turn_about(const double axis[3], double angle, const double before[9], double ret[9]) {
    double c = cos(angle), s = sin(angle);
    const double x = axis[0], y = axis[1], z = axis[2];
    const double r[9] = {c + x * x * (1 - c),     x * y * (1 - c) - z * s, x * z * (1 - c) + y * s,
                         y * x * (1 - c) + z * s, c + y * y * (1 - c),     y * z * (1 - c) - x * s,
                         z * x * (1 - c) - y * s, z * y * (1 - c) + x * s, c + z * z * (1 - c)};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            ret[3 * i + j] = r[3 * i] * before[j] + r[3 * i + 1] * before[3 + j] + r[3 * i + 2] * before[6 + j];
}

/* Makes poses: slice p has the pose of particle p; other slices are random, or turned from one of these by 0.01 to
 * 5°. */
static inline void make_poses(struct comparison *c) {
    static const double none[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    double pose[9], axis[3], (*own)[9] = host_new((size_t)c->particles, sizeof *own);
    c->matrices = host_new((size_t)c->slices * 9, sizeof(float));
    for (int i = 0; i < c->slices; i++) {
        bool is_own = i < c->particles;
        random_axis(c->dimensions, axis);
        if (is_own || !c->near)
            turn_about(axis, 2 * M_PI * uniform(), none, pose);
        else
            turn_about(axis, M_PI / 180 * 0.01 * pow(500, uniform()), own[i % c->particles], pose);
        if (is_own) memcpy(own[i], pose, sizeof pose);
        for (int j = 0; j < 9; j++)
            c->matrices[9 * i + j] = (float)pose[j];
    }
    free(own);
}

/* Makes a map of blobs. */
static inline void make_blobs(struct comparison *c) {
    enum { REACH = 7 };
    int box = c->box, depth = c->dimensions == 3 ? box : 1;
    c->map = host_new((size_t)box * (size_t)box * (size_t)depth, sizeof(float));
    memset(c->map, 0, (size_t)box * (size_t)box * (size_t)depth * sizeof(float));
    for (int blob = 0; blob < 30; blob++) {
        double at[3];
        int first[3], last[3];
        for (int i = 0; i < 3; i++) {
            at[i] = i < c->dimensions ? box / 2 + 0.12 * box * normal() : 0;
            first[i] = fmax(0, ceil(at[i] - REACH)), last[i] = fmin(i < c->dimensions ? box - 1 : 0, at[i] + REACH);
        }
        for (int z = first[2]; z <= last[2]; z++)
            for (int y = first[1]; y <= last[1]; y++)
                for (int x = first[0]; x <= last[0]; x++) {
                    double r2 = (x - at[0]) * (x - at[0]) + (y - at[1]) * (y - at[1]) + (z - at[2]) * (z - at[2]);
                    c->map[((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x] += (float)exp(-r2 / 4);
                }
    }
}

/* Makes images: slices with their CTF, shifted, in noise that is stronger in low shells. */
static inline void make_images(struct comparison *c, double sigma, const double own_shift[2]) {
    size_t n = (size_t)c->n;
    float *clean = host_new(2 * n, sizeof *clean);
    c->images = host_new((size_t)c->particles * 2 * n, sizeof(float));
    c->ctf = host_new((size_t)c->particles * n, sizeof(float));
    c->weight = host_new((size_t)c->particles * n, sizeof(float));
    for (int p = 0; p < c->particles; p++) {
        struct ctf ctf = {.defocus_u = 12000 + 3000 * uniform(),
                          .defocus_v = 9000 + 2000 * uniform(),
                          .defocus_angle = 180 * uniform(),
                          .voltage = 300,
                          .spherical_aberration = 2.7,
                          .amplitude_contrast = 0.1,
                          .scale = 1};
        float *image = c->images + (size_t)p * 2 * n, *contrast = c->ctf + (size_t)p * n;
        const float *slice = c->host_slices + (size_t)(p % c->slices) * 2 * n;
        ctf_at(&ctf, c->box, 2.2, c->n, c->pixels.kx, c->pixels.ky, contrast);
        for (size_t i = 0; i < 2 * n; i++)
            clean[i] = contrast[i / 2] * slice[i];
        fourier_pixels_shift(&c->pixels, c->n, clean, own_shift[0], own_shift[1], image);
        for (size_t i = 0; i < 2 * n; i++) {
            double here = sigma * sqrt(1 + 10.0 / c->pixels.shell[i / 2]);
            c->weight[(size_t)p * n + i / 2] = (float)(1 / (here * here));
            image[i] += (float)(here * normal());
        }
    }
    free(clean);
}

/* Makes a comparison. noise: deviation relative to that of the signal, over all pixels of the box where the particles
 * really are. */
static inline void make_comparison(struct comparison *c, int size, double noise) {
    struct err err = {0};
    const double own_shift[2] = {3 * uniform(), -2 * uniform()};
    must(fourier_pixels_create(c->box, size, &c->pixels, &err), &err);
    c->n = c->pixels.count;
    size_t n = (size_t)c->n;
    make_blobs(c);
    must(projector_create(c->dimensions, c->box, 2, &c->projector, &err), &err);
    must(projector_set_map(c->projector, c->map, size, &err), &err);
    make_poses(c);
    c->host_slices = host_new((size_t)c->slices * 2 * n, sizeof(float));
    projector_slices(c->projector, &c->pixels, c->n, c->slices, c->matrices, 2, c->host_slices);
    c->shift = host_new((size_t)c->shifts * 2, sizeof(float));
    c->shifts_double = host_new((size_t)c->shifts, sizeof *c->shifts_double);
    for (int t = 0; t < c->shifts; t++)
        for (int i = 0; i < 2; i++) {
            double near = (t ? 0.2 * normal() : 0) - own_shift[i], far = t ? 8 * uniform() - 4 : 0;
            c->shift[2 * t + i] = (float)(c->near ? near : far);
            c->shifts_double[t][i] = c->shift[2 * t + i];
        }
    double power = 0, pixels = (double)c->slices * (c->near ? M_PI / 8 * c->box * c->box : c->n);
    for (size_t i = 0; i < (size_t)c->slices * 2 * n; i++)
        power += (double)c->host_slices[i] * c->host_slices[i];
    make_images(c, noise * sqrt(power / (2 * pixels)), own_shift);
    c->slice_prior = host_new((size_t)c->slices, sizeof(float));
    c->shift_prior = host_new((size_t)c->particles * (size_t)c->shifts, sizeof(float));
    for (int i = 0; i < c->slices; i++)
        c->slice_prior[i] = (float)(2 * uniform());
    for (int i = 0; i < c->particles * c->shifts; i++)
        c->shift_prior[i] = (float)(-3 * uniform());
}

static inline void free_comparison(struct comparison *c) {
    projector_destroy(&c->projector);
    fourier_pixels_destroy(&c->pixels);
    free(c->map);
    free(c->matrices);
    free(c->images);
    free(c->ctf);
    free(c->weight);
    free(c->shift);
    free(c->shifts_double);
    free(c->host_slices);
    free(c->slice_prior);
    free(c->shift_prior);
}

/* Returns one pixel of a slice, interpolated in double at pad · Aᵀ k, or the conjugate at its negative. */
static inline void true_value(const struct projector_grid *g, const float *matrix, int kx, int ky, double ret[2]) {
    double at[3], part[3], sign = 1;
    int cell[3];
    ret[0] = ret[1] = 0;
    if (kx * kx + ky * ky > g->r_max * g->r_max) return;
    for (int i = 0; i < 3; i++)
        at[i] = i < g->dimensions ? 2 * ((double)matrix[i] * kx + (double)matrix[3 + i] * ky) : 0;
    if (at[0] < 0) sign = -1, at[0] = -at[0], at[1] = -at[1], at[2] = -at[2];
    for (int i = 0; i < 3; i++)
        cell[i] = (int)floor(at[i]), part[i] = at[i] - cell[i];
    for (int corner = 0; corner < 1 << g->dimensions; corner++) {
        int x = cell[0] + (corner & 1), y = cell[1] + (corner >> 1 & 1) + g->reach;
        int z = g->dimensions == 3 ? cell[2] + (corner >> 2) + g->reach : 0;
        double w = 1;
        for (int i = 0; i < g->dimensions; i++)
            w *= corner >> i & 1 ? part[i] : 1 - part[i];
        const float *value = g->values + 2 * (((size_t)z * (size_t)g->ny + (size_t)y) * (size_t)g->nx + (size_t)x);
        ret[0] += w * (double)value[0], ret[1] += w * sign * (double)value[1];
    }
}

/* Returns c X_t/σ² of all particles and shifts. */
static inline double *true_columns(const struct comparison *c) {
    size_t n = (size_t)c->n, columns = (size_t)c->particles * (size_t)c->shifts;
    double *all = host_new(columns * 2 * n, sizeof *all);
#pragma omp parallel for
    for (size_t column = 0; column < columns; column++) {
        size_t p = column / (size_t)c->shifts;
        const double *shift = c->shifts_double[column % (size_t)c->shifts];
        for (size_t i = 0; i < n; i++) {
            double phase = -2 * M_PI * (c->pixels.kx[i] * shift[0] + c->pixels.ky[i] * shift[1]) / c->box;
            double re = c->images[2 * (p * n + i)], im = c->images[2 * (p * n + i) + 1];
            double factor = (double)c->ctf[p * n + i] * (double)c->weight[p * n + i];
            all[2 * (column * n + i)] = factor * (re * cos(phase) - im * sin(phase));
            all[2 * (column * n + i) + 1] = factor * (re * sin(phase) + im * cos(phase));
        }
    }
    return all;
}

/* Returns −ln of the weights without the part that all poses share: [particles][slices][shifts]. */
static inline double *true_log_weights(const struct comparison *c) {
    size_t n = (size_t)c->n, shifts = (size_t)c->shifts, slices = (size_t)c->slices, particles = (size_t)c->particles;
    double *truth = host_new(particles * slices * shifts, sizeof *truth), *columns = true_columns(c);
    struct projector_grid grid = projector_grid(c->projector);
#pragma omp parallel
    {
        double *slice = host_new(2 * n, sizeof *slice);
#pragma omp for
        for (size_t o = 0; o < slices; o++) {
            for (size_t i = 0; i < n; i++)
                true_value(&grid, c->matrices + 9 * o, c->pixels.kx[i], c->pixels.ky[i], slice + 2 * i);
            for (size_t p = 0; p < particles; p++) {
                double half = 0;
                for (size_t i = 0; i < n; i++)
                    half += 0.5 * (double)c->weight[p * n + i] * (double)c->ctf[p * n + i] * (double)c->ctf[p * n + i] *
                            (slice[2 * i] * slice[2 * i] + slice[2 * i + 1] * slice[2 * i + 1]);
                for (size_t t = 0; t < shifts; t++) {
                    const double *column = columns + (p * shifts + t) * 2 * n;
                    double dot = 0;
                    for (size_t i = 0; i < 2 * n; i++)
                        dot += slice[i] * column[i];
                    truth[(p * slices + o) * shifts + t] = half - dot;
                }
            }
        }
        free(slice);
    }
    free(columns);
    return truth;
}

static inline size_t best_of(const double *values, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] < values[best]) best = i;
    return best;
}

/* Returns the error of a particle's log weights relative to its best. Weights of nearly impossible poses need not be as
 * accurate. */
static const double POSSIBLE = 20;
static inline double log_weights_off(const struct comparison *c, int particle, const double *found,
                                     const double *truth) {
    size_t count = (size_t)c->slices * (size_t)c->shifts, best = best_of(truth, count);
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs(found[i] - found[best] - (truth[i] - truth[best]));
        if (truth[i] - truth[best] < POSSIBLE && !(error <= worst)) worst = error;
        if (!(error < 1 + 1e-3 * fabs(truth[i]))) fail_msg("particle %d, sample %zu: off by %g", particle, i, error);
    }
    return worst;
}

/* Prints the errors, and checks that there was something to compare. */
static inline void tell_comparison(const struct comparison *c, const char *what, const double *truth, double worst,
                                   double bound) {
    size_t each = (size_t)c->slices * (size_t)c->shifts, possible = 0;
    double least = 0;
    for (int p = 0; p < c->particles; p++) {
        const double *own = truth + (size_t)p * each;
        double best = own[best_of(own, each)];
        least = fmin(least, best);
        for (size_t i = 0; i < each; i++)
            possible += own[i] - best < POSSIBLE;
    }
    printf(
        "%d-D, box %d, size %d, %s: log-weights are off by %.2g at most (%.2g allowed); %zu of %zu possible, the best "
        "%.0f\n",
        c->dimensions, c->box, c->pixels.size, what, worst, bound, possible, each * (size_t)c->particles, -least);
    assert_true(possible >= 10 * (size_t)c->particles);
}

#endif
