/* Compares alignment_cuda_compare with sums in double over slices of the CPU's projector: 3D and 2D, several
 * references, with children and without, every kind of list. New random input from a printed seed, or from a given one:
 * test_alignment_compare_devices [SEED | time]; time: only times real sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/arena.h"
#include "common/memory.h"
#include "kernels/alignment/cuda/alignment.h"
#include "kernels/ctf/ctf.h"
#include "kernels/projector/projector.h"
#include "kernels/sampling/sampling.h"
#include "tests/kernels/devices.h"

enum { REFERENCES_MOST = 3, PARTICLES_MOST = 512, GUARD = 64 };

/* Parameters of a comparison; arrays are in host memory unless stated otherwise. */
struct setting {
    int dimensions, box, size, coarse_size, references, order, psi_count, particles;
    double shift_range, shift_step;
    bool children;
    int near; /* > 0: lists have only the rows near the particles' own */

    struct fourier_pixels pixels;
    struct sampling grid;
    struct projector *projectors[REFERENCES_MOST];
    struct sampling_cuda sampling;          /* in device memory */
    struct references_cuda references_cuda; /* in device memory */
    struct particles_cuda particles_cuda;   /* in device memory */
    int rows, rotations;
    size_t stride;
    float *masked, *ctf, *weight;
    int own[PARTICLES_MOST]; /* the rows that particles are made from */
};

/* A list of samples, on the host and on the device. */
struct list {
    struct row_cuda *rows;
    uint32_t *samples;
    struct samples_cuda device;
};

static void matrix_of(const struct setting *s, int row, int rotation, bool child, double m[9]) {
    if (s->dimensions == 3) {
        int orientation = row % sampling_orientation_count(&s->grid);
        if (child)
            sampling_child_matrix(&s->grid, orientation, rotation, m);
        else
            sampling_matrix(&s->grid, orientation, m);
        return;
    }
    double step = 360.0 / s->psi_count, psi = (row % s->psi_count) * step;
    if (child) psi += (rotation == 0 ? -0.25 : 0.25) * step;
    double c = cos(psi * M_PI / 180), n = sin(psi * M_PI / 180);
    const double turned[9] = {c, n, 0, -n, c, 0, 0, 0, 1};
    memcpy(m, turned, sizeof turned);
}

static float *floats(size_t count) {
    return host_new(count > 0 ? count : 1, sizeof(float));
}

static const float *put(const float *values, size_t count) {
    return on_device(values, count, sizeof *values);
}

static void make_frames(struct setting *s) {
    struct sampling_cuda *d = &s->sampling;
    size_t directions = (size_t)d->directions, children = directions * (size_t)d->direction_children;
    float *frames = floats(9 * children);
    for (size_t i = 0; i < directions; i++)
        for (int j = 0; j < 9; j++)
            frames[9 * i + (size_t)j] = s->dimensions == 3 ? (float)s->grid.frames[i][j] : j % 4 == 0;
    d->frames = d->child_frames = put(frames, 9 * directions);
    if (d->direction_children > 1) {
        for (size_t i = 0; i < children; i++) {
            double frame[9];
            sampling_child_frame(&s->grid, (int)(i / 4), (int)(i % 4), frame);
            for (int j = 0; j < 9; j++)
                frames[9 * i + (size_t)j] = (float)frame[j];
        }
        d->child_frames = put(frames, 9 * children);
    }
    free(frames);
}

static void make_sampling(struct setting *s) {
    struct err err = {0};
    struct sampling_cuda *d = &s->sampling;
    bool is_3d = s->dimensions == 3;
    must(sampling_create(s->order, NULL, s->shift_range, s->shift_step, &s->grid, &err), &err);
    sampling_perturb(&s->grid, 0.37);
    if (is_3d) s->psi_count = s->grid.psi_count;
    *d = (struct sampling_cuda){.references = s->references,
                                .directions = is_3d ? s->grid.direction_count : 1,
                                .psi_count = s->psi_count,
                                .shift_count = s->grid.shift_count,
                                .direction_children = is_3d && s->children ? 4 : 1,
                                .psi_children = s->children ? 2 : 1,
                                .shift_children = s->children ? 4 : 1};
    s->rotations = d->direction_children * d->psi_children;
    s->rows = d->directions * d->psi_count * s->references;
    make_frames(s);
    size_t psi = (size_t)s->psi_count, shifts = (size_t)d->shift_count;
    float *values = floats(8 * (psi + shifts));
    for (size_t i = 0; i < psi; i++) {
        double angle = (double)i * 2 * M_PI / (double)psi;
        values[2 * i] = (float)cos(angle), values[2 * i + 1] = (float)sin(angle);
    }
    d->psi = d->child_psi = put(values, 2 * psi);
    for (size_t i = 0; i < 2 * psi; i++) {
        double angle = ((double)(i / 2) + (i % 2 ? 0.25 : -0.25)) * 2 * M_PI / (double)psi;
        values[2 * i] = (float)cos(angle), values[2 * i + 1] = (float)sin(angle);
    }
    if (s->children) d->child_psi = put(values, 4 * psi);
    for (size_t t = 0; t < 4 * shifts; t++) {
        double shift[2];
        sampling_child_shift(&s->grid, (int)(t / 4), (int)(t % 4), shift);
        values[2 * t] = (float)shift[0], values[2 * t + 1] = (float)shift[1];
    }
    if (s->children) d->child_shifts = put(values, 8 * shifts);
    for (size_t t = 0; t < shifts; t++) {
        double shift[2];
        sampling_shift(&s->grid, (int)t, shift);
        values[2 * t] = (float)shift[0], values[2 * t + 1] = (float)shift[1];
    }
    d->shifts = put(values, 2 * shifts);
    if (!s->children) d->child_shifts = d->shifts;
    free(values);
}

/* Makes a reference of blobs. */
static void make_reference(struct setting *s, int which) {
    struct err err = {0};
    int box = s->box, depth = s->dimensions == 3 ? box : 1;
    float *map = floats((size_t)box * box * depth);
    memset(map, 0, (size_t)box * box * depth * sizeof *map);
    for (int blob = 0; blob < 25; blob++) {
        double at[3];
        for (int i = 0; i < 3; i++)
            at[i] = box / 2 + 0.12 * box * normal();
        if (depth == 1) at[2] = 0;
        for (int z = 0; z < depth; z++)
            for (int y = 0; y < box; y++)
                for (int x = 0; x < box; x++) {
                    double r2 = (x - at[0]) * (x - at[0]) + (y - at[1]) * (y - at[1]) + (z - at[2]) * (z - at[2]);
                    if (r2 < 40) map[((size_t)z * box + y) * box + x] += (float)exp(-r2 / 3);
                }
    }
    must(projector_create(s->dimensions, box, 2, &s->projectors[which], &err), &err);
    must(projector_set_map(s->projectors[which], map, s->size, &err), &err);
    free(map);
    struct projector_grid g = projector_grid(s->projectors[which]);
    s->references_cuda.grids[which] = (struct grid_cuda){.values = put(g.values, 2 * (size_t)g.nx * g.ny * g.nz),
                                                         .nx = g.nx,
                                                         .ny = g.ny,
                                                         .reach = g.reach,
                                                         .r_max = g.r_max,
                                                         .dimensions = g.dimensions};
}

static void make_references(struct setting *s) {
    struct err err = {0};
    must(fourier_pixels_create(s->box, s->size, &s->pixels, &err), &err);
    size_t n = (size_t)s->pixels.count;
    for (int k = 0; k < s->references; k++)
        make_reference(s, k);
    s->references_cuda.pixels = (struct pixels_cuda){.kx = on_device(s->pixels.kx, n, sizeof(short)),
                                                     .ky = on_device(s->pixels.ky, n, sizeof(short)),
                                                     .box = s->box,
                                                     .count = (int)n};
    s->references_cuda.shell = on_device(s->pixels.shell, n, sizeof(short));
    s->references_cuda.coarse_pixels = fourier_pixels_within(&s->pixels, s->coarse_size);
    s->references_cuda.fine_pixels = s->pixels.count;
}

static void slice_of(const struct setting *s, int row, int rotation, bool child, int n, float *slice) {
    double m[9];
    float matrix[9];
    matrix_of(s, row, rotation, child, m);
    for (int i = 0; i < 9; i++)
        matrix[i] = (float)m[i];
    projector_slices(s->projectors[row / (s->rows / s->references)], &s->pixels, n, 1, matrix, 1, slice);
}

/* Makes particles: slices with CTFs, shifted, in noise. */
static void make_particles(struct setting *s, double noise) {
    size_t n = (size_t)s->pixels.count, count = (size_t)s->particles;
    s->stride = n + 13; /* an arbitrary stride */
    s->masked = floats(count * 2 * s->stride), s->ctf = floats(count * s->stride),
    s->weight = floats(count * s->stride);
    memset(s->masked, 0xff, count * 2 * s->stride * sizeof(float));
    memset(s->ctf, 0xff, count * s->stride * sizeof(float));
    memset(s->weight, 0xff, count * s->stride * sizeof(float));
    float *slice = floats(2 * n);
    for (size_t p = 0; p < count; p++) {
        float *image = s->masked + p * 2 * s->stride, *c = s->ctf + p * s->stride, *w = s->weight + p * s->stride;
        struct ctf ctf = {.defocus_u = 12000 + 3000 * uniform(),
                          .defocus_v = 9000 + 2000 * uniform(),
                          .defocus_angle = 180 * uniform(),
                          .voltage = 300,
                          .spherical_aberration = 2.7,
                          .amplitude_contrast = 0.1,
                          .scale = 1};
        ctf_at(&ctf, s->box, 2.2, (int)n, s->pixels.kx, s->pixels.ky, c);
        s->own[p] = (int)(uniform() * s->rows);
        slice_of(s, s->own[p], 0, false, (int)n, slice);
        double power = 0;
        for (size_t i = 0; i < 2 * n; i++) {
            power += slice[i] * slice[i];
            slice[i] *= c[i / 2];
        }
        double sigma = noise * sqrt(power / (2.0 * (double)n));
        fourier_pixels_shift(&s->pixels, (int)n, slice, 3 * uniform(), -2 * uniform(), image);
        for (size_t i = 0; i < n; i++) {
            double here = sigma * sqrt(1 + 10.0 / s->pixels.shell[i]);
            w[i] = (float)(1 / (here * here));
            image[2 * i] += (float)(here * normal()), image[2 * i + 1] += (float)(here * normal());
        }
    }
    free(slice);
    s->particles_cuda = (struct particles_cuda){.count = s->particles,
                                                .stride = s->stride,
                                                .masked = on_device(s->masked, count * 2 * s->stride, sizeof(float)),
                                                .ctf = on_device(s->ctf, count * s->stride, sizeof(float)),
                                                .weight = on_device(s->weight, count * s->stride, sizeof(float))};
}

static void free_setting(struct setting *s) {
    for (int k = 0; k < REFERENCES_MOST; k++)
        projector_destroy(&s->projectors[k]);
    fourier_pixels_destroy(&s->pixels);
    sampling_destroy(&s->grid);
    free(s->masked);
    free(s->ctf);
    free(s->weight);
}

static void upload_list(struct list *l, int particles, uint32_t row_count) {
    struct samples_cuda *d = &l->device;
    uint32_t *begin = host_new((size_t)particles + 1, sizeof *begin), *row_begin = host_new((size_t)particles + 1, 4);
    uint32_t row = 0;
    for (int p = 0; p <= particles; p++) {
        while (row < row_count && l->rows[row].particle < p)
            row++;
        row_begin[p] = row, begin[p] = l->rows[row].first;
    }
    *d = (struct samples_cuda){.count = l->rows[row_count].first,
                               .row_count = row_count,
                               .rows = on_device(l->rows, row_count + 1, sizeof *l->rows),
                               .samples = on_device(l->samples, l->rows[row_count].first + 1, sizeof *l->samples),
                               .begin = on_device(begin, (size_t)particles + 1, sizeof *begin),
                               .row_begin = on_device(row_begin, (size_t)particles + 1, sizeof *row_begin)};
    free(begin);
    free(row_begin);
}

/* Lists each row with probability `rows`, each of its shifts with probability `shifts`, at least one; particle 1 has
 * none. */
static void make_list(const struct setting *s, double rows, double shifts, struct list *l) {
    size_t most = (size_t)s->particles * (size_t)s->rows, t = (size_t)s->sampling.shift_count;
    l->rows = host_new(most + 1, sizeof *l->rows);
    l->samples = host_new(most * t + 1, sizeof *l->samples);
    uint32_t row_count = 0, count = 0;
    for (int p = 0; p < s->particles; p++)
        for (int row = 0; row < s->rows; row++) {
            bool in = s->near > 0 ? abs(row - s->own[p]) <= s->near : uniform() < rows;
            if ((p == 1 && s->particles > 1) || !in) continue;
            l->rows[row_count++] = (struct row_cuda){.particle = p, .row = row, .first = count};
            size_t always = (size_t)(uniform() * (double)t);
            for (size_t shift = 0; shift < t; shift++)
                if (shift == always || uniform() < shifts) l->samples[count++] = (uint32_t)((size_t)row * t + shift);
        }
    l->rows[row_count] = (struct row_cuda){.particle = s->particles, .first = count};
    upload_list(l, s->particles, row_count);
}

static void free_list(struct list *l) {
    free(l->rows);
    free(l->samples);
}

/* Returns −Σ Re(P conj(c X_t/σ²)) + ½ Σ (c²/σ²)|P|². */
static double truth(const struct setting *s, int particle, const float *slice, int n, const double shift[2]) {
    const float *x = s->masked + (size_t)particle * 2 * s->stride, *c = s->ctf + (size_t)particle * s->stride;
    const float *w = s->weight + (size_t)particle * s->stride;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double angle = -2 * M_PI * (s->pixels.kx[i] * shift[0] + s->pixels.ky[i] * shift[1]) / s->box;
        double re = x[2 * i] * cos(angle) - x[2 * i + 1] * sin(angle);
        double im = x[2 * i] * sin(angle) + x[2 * i + 1] * cos(angle), cw = (double)c[i] * w[i];
        double pr = slice[2 * i], pi = slice[2 * i + 1];
        sum += cw * (0.5 * c[i] * (pr * pr + pi * pi) - pr * re - pi * im);
    }
    return sum;
}

/* Returns the allowed error of sums of so many terms. */
static double allowed_error(const struct setting *s) {
    return s->box > 128 ? 0.03 : 0.003;
}

/* Returns the largest error of values within 30 of the particle's best, relative to the best. */
static double check(const struct setting *s, const struct list *l, bool fine, const float *found) {
    int n = fine ? s->pixels.count : s->references_cuda.coarse_pixels, rotations = fine ? s->rotations : 1;
    int children = fine ? s->sampling.shift_children : 1, each = rotations * children, shifts = s->sampling.shift_count;
    size_t count = l->device.count;
    double *expected = host_new(count * (size_t)each + 1, sizeof *expected), worst = 0;
    float *slices = floats((size_t)rotations * 2 * (size_t)n);
    for (uint32_t r = 0; r < l->device.row_count; r++) {
        for (int rotation = 0; rotation < rotations; rotation++)
            slice_of(s, l->rows[r].row, rotation, fine && s->children, n, slices + (size_t)rotation * 2 * (size_t)n);
        for (uint32_t i = l->rows[r].first; i < l->rows[r + 1].first; i++)
            for (int k = 0; k < each; k++) {
                double shift[2];
                int t = (int)l->samples[i] - l->rows[r].row * shifts;
                if (children > 1)
                    sampling_child_shift(&s->grid, t, k % children, shift);
                else
                    sampling_shift(&s->grid, t, shift);
                expected[(size_t)i * each + k] =
                    truth(s, l->rows[r].particle, slices + (size_t)(k / children) * 2 * (size_t)n, n, shift);
            }
    }
    for (uint32_t first = 0, end; first < l->device.row_count; first = end) {
        for (end = first; end < l->device.row_count && l->rows[end].particle == l->rows[first].particle;)
            end++;
        size_t from = (size_t)l->rows[first].first * each, to = (size_t)l->rows[end].first * each, best = from;
        for (size_t i = from; i < to; i++)
            if (expected[i] < expected[best]) best = i;
        for (size_t i = from; i < to; i++) {
            double error = fabs((found[i] - (double)found[best]) - (expected[i] - expected[best]));
            double bound = allowed_error(s) + 1e-5 * fabs(expected[i]);
            if (!(error <= bound) || !(fabs(found[i] - expected[i]) <= bound))
                fail_msg("value %zu (%d a sample): %.9g, expected %.9g", i, each, found[i], expected[i]);
            if (expected[i] - expected[best] < 30 && error > worst) worst = error;
        }
    }
    free(expected);
    free(slices);
    return worst;
}

static float *run_once(const struct setting *s, const struct list *l, bool fine) {
    struct err err = {0};
    size_t each = fine ? (size_t)s->rotations * (size_t)s->sampling.shift_children : 1, count = l->device.count * each;
    float *values = on_device(NULL, count + GUARD, sizeof *values), *found = floats(count + GUARD);
    must(alignment_cuda_compare(&s->references_cuda, &s->sampling, &s->particles_cuda, &l->device, fine, values, NULL,
                                &err),
         &err);
    from_device(found, values, (count + GUARD) * sizeof *found);
    for (size_t i = 0; i < GUARD; i++) {
        uint32_t bits;
        memcpy(&bits, found + count + i, sizeof bits);
        assert_int_equal(bits, UINT32_MAX);
    }
    return found;
}

static void compare_list(struct setting *s, double rows, double shifts, bool fine, const char *what) {
    struct list list;
    make_list(s, rows, shifts, &list);
    float *found = run_once(s, &list, fine), *again = run_once(s, &list, fine);
    size_t bytes = list.device.count * (fine ? (size_t)s->rotations * (size_t)s->sampling.shift_children : 1) * 4;
    assert_memory_equal(found, again, bytes);
    double worst = check(s, &list, fine, found);
    double allowed = allowed_error(s);
    printf("%d-D, box %d, %d px, %s%s, %u rows, %u samples: off by %.2g at most (%g allowed)\n", s->dimensions, s->box,
           fine ? s->pixels.count : s->references_cuda.coarse_pixels, fine ? "fine" : "coarse", what,
           list.device.row_count, list.device.count, worst, allowed);
    assert_true(worst <= allowed);
    free(found);
    free(again);
    free_list(&list);
}

static void make_quads(struct setting *s) {
    struct err err = {0};
    for (int k = 0; k < s->references; k++) {
        struct grid_cuda *grid = &s->references_cuda.grids[k];
        float *quads = on_device(NULL, grid_quads_floats(grid), sizeof *quads);
        must(grid_quads_cuda(grid, quads, NULL, &err), &err);
        grid->quads = quads;
    }
}

static void trial(struct setting s, double noise, double rows) {
    struct err err = {0};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    make_sampling(&s);
    make_references(&s);
    make_particles(&s, noise);
    compare_list(&s, rows, 0.3, true, ", from grids");
    compare_list(&s, rows, 1, true, ", from grids");
    compare_list(&s, rows, 0, true, ", from grids");
    compare_list(&s, rows, 1, false, "");
    compare_list(&s, rows, 0.1, false, "");
    compare_list(&s, 0, 0, true, ", nothing");
    if (s.dimensions == 3) {
        make_quads(&s);
        compare_list(&s, rows, 0.3, true, ", from quads");
        compare_list(&s, rows, 0.2, false, ", from quads");
    }
    size_t row = 2 * alignment_cuda_fine_slice_row(&s.references_cuda) * (size_t)s.rotations;
    float *slices = on_device(NULL, (size_t)s.rows * row, sizeof *slices);
    int part = s.rows / 3;
    must(alignment_cuda_fine_slices(&s.references_cuda, &s.sampling, 0, part, slices, NULL, &err), &err);
    must(alignment_cuda_fine_slices(&s.references_cuda, &s.sampling, part, s.rows - part, slices + (size_t)part * row,
                                    NULL, &err),
         &err);
    s.references_cuda.slices = slices;
    compare_list(&s, rows, 0.3, true, ", from slices");
    compare_list(&s, rows, 1, true, ", from slices");
    compare_list(&s, rows, 0.2, false, " beside slices");
    free_setting(&s);
    arena_close(arena, ARENA_ITERATION);
}

static void volumes(void **state) {
    (void)state;
    trial((struct setting){.dimensions = 3,
                           .box = 32,
                           .size = 20,
                           .coarse_size = 12,
                           .references = 3,
                           .order = 0,
                           .particles = 4,
                           .shift_range = 4,
                           .shift_step = 2,
                           .children = true},
          10, 0.3);
    trial((struct setting){.dimensions = 3,
                           .box = 64,
                           .size = 64,
                           .coarse_size = 40,
                           .references = 1,
                           .order = 1,
                           .particles = 3,
                           .shift_range = 5,
                           .shift_step = 1,
                           .children = true},
          20, 0.006);
    trial((struct setting){.dimensions = 3,
                           .box = 48,
                           .size = 30,
                           .coarse_size = 30,
                           .references = 2,
                           .order = 1,
                           .particles = 5,
                           .shift_range = 3,
                           .shift_step = 1.5,
                           .children = false},
          10, 0.1);
    trial((struct setting){.dimensions = 3,
                           .box = 32,
                           .size = 32,
                           .coarse_size = 32,
                           .references = 1,
                           .order = 0,
                           .particles = 1,
                           .shift_range = 8.2,
                           .shift_step = 1,
                           .children = false},
          10, 0.3);
}

static void classes(void **state) {
    (void)state;
    trial((struct setting){.dimensions = 2,
                           .box = 48,
                           .size = 36,
                           .coarse_size = 20,
                           .references = 3,
                           .psi_count = 11,
                           .particles = 5,
                           .shift_range = 5,
                           .shift_step = 2,
                           .children = true},
          4, 0.6);
    trial((struct setting){.dimensions = 2,
                           .box = 64,
                           .size = 64,
                           .coarse_size = 64,
                           .references = 2,
                           .psi_count = 7,
                           .particles = 3,
                           .shift_range = 5.5,
                           .shift_step = 1,
                           .children = true},
          4, 0.5);
    trial((struct setting){.dimensions = 2,
                           .box = 32,
                           .size = 26,
                           .coarse_size = 14,
                           .references = 3,
                           .psi_count = 30,
                           .particles = 3,
                           .shift_range = 0,
                           .shift_step = 1,
                           .children = false},
          4, 0.5);
}

/* Sums over 51,000 pixels of realistic particles, with an SNR of 0.1: log weights reach thousands. */
static void images_of_360(void **state) {
    (void)state;
    struct err err = {0};
    struct setting s = {.dimensions = 2,
                        .box = 360,
                        .size = 360,
                        .coarse_size = 246,
                        .references = 1,
                        .psi_count = 1440,
                        .particles = 3,
                        .shift_range = 3.2,
                        .shift_step = 1,
                        .children = true,
                        .near = 5};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    make_sampling(&s);
    make_references(&s);
    make_particles(&s, 3.162);
    compare_list(&s, 0, 0.1, true, ", from grids");
    compare_list(&s, 0, 0.1, false, "");
    size_t row = 2 * alignment_cuda_fine_slice_row(&s.references_cuda) * (size_t)s.rotations;
    float *slices = on_device(NULL, (size_t)s.rows * row, sizeof *slices);
    must(alignment_cuda_fine_slices(&s.references_cuda, &s.sampling, 0, s.rows, slices, NULL, &err), &err);
    s.references_cuda.slices = slices;
    compare_list(&s, 0, 0.1, true, ", from slices");
    free_setting(&s);
    arena_close(arena, ARENA_ITERATION);
}

static void refuses_what_it_cannot_do(void **state) {
    (void)state;
    struct err err = {0};
    struct references_cuda r = {.pixels.count = 10};
    struct sampling_cuda s = {.direction_children = 3, .psi_children = 1, .shift_children = 1, .shift_count = 5};
    struct particles_cuda p = {.count = 1};
    struct samples_cuda l = {.row_count = 1};
    assert_int_equal(alignment_cuda_compare(&r, &s, &p, &l, 1, NULL, NULL, &err), STATUS_UNSUPPORTED);
    s.direction_children = 4, s.shift_children = 2;
    assert_int_equal(alignment_cuda_compare(&r, &s, &p, &l, 1, NULL, NULL, &err), STATUS_UNSUPPORTED);
    const struct grid_cuda grid = {.dimensions = 2};
    assert_int_equal(grid_quads_cuda(&grid, NULL, NULL, &err), STATUS_UNSUPPORTED);
    s.shift_children = 4, s.shift_count = 5000;
    assert_int_equal(alignment_cuda_compare(&r, &s, &p, &l, 1, NULL, NULL, &err), STATUS_UNSUPPORTED);
}

#include "tests/kernels/alignment_compare_times.h"

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    bool timed = argc > 1 && strcmp(argv[1], "time") == 0;
    choose_seed(argc > 1 && !timed ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(volumes),
        cmocka_unit_test(classes),
        cmocka_unit_test(images_of_360),
        cmocka_unit_test(refuses_what_it_cannot_do),
    };
    const struct CMUnitTest times[] = {cmocka_unit_test(times_of_real_work)};
    return timed ? cmocka_run_group_tests(times, open_arena, close_arena)
                 : cmocka_run_group_tests(tests, open_arena, close_arena);
}
