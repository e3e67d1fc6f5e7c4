/* Reconstructs a phantom from its exact slices; CTFs, symmetry against an explicit sum, halves, threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "common/arena.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/accumulator_private.h"
#include "kernels/reconstruct/reconstruct.h"
#include "tests/kernels/phantom.h"

enum { BOX = 40, MAP = BOX * BOX * BOX, SHELLS = BOX / 2 + 1 };

static uint64_t seed = 90125;

struct slices {
    struct fourier_pixels pixels;
    int n;
    float *matrices, *data, *weight;
};

/* Makes n views in random orientations. ctf: each image is multiplied by a cosine of its own, and weighted with it
 * again. noise: standard deviation of each component. */
static struct slices make_slices(int dimensions, int n, int size, int ctf, double noise) {
    struct slices s = {.n = n};
    assert_int_equal(fourier_pixels_create(BOX, size, &s.pixels, NULL), STATUS_OK);
    size_t count = (size_t)s.pixels.count;
    assert_int_equal(mem_new((size_t)n, 9 * sizeof(float), "test", &s.matrices, NULL), STATUS_OK);
    assert_int_equal(mem_new((size_t)n * count, 2 * sizeof(float), "test", &s.data, NULL), STATUS_OK);
    assert_int_equal(mem_new((size_t)n * count, sizeof(float), "test", &s.weight, NULL), STATUS_OK);
    for (int i = 0; i < n; i++) {
        double m[9], defocus = 0.02 + 0.02 * phantom_uniform(&seed);
        double tilt = dimensions == 3 ? acos(1 - 2 * phantom_uniform(&seed)) * 180 / M_PI : 0;
        euler_to_matrix(dimensions == 3 ? 360 * phantom_uniform(&seed) : 0, tilt, 360 * phantom_uniform(&seed), m);
        float *matrix = s.matrices + 9 * (size_t)i;
        for (int j = 0; j < 9; j++)
            matrix[j] = (float)m[j];
        for (size_t p = 0; p < count; p++) {
            int kx = s.pixels.kx[p], ky = s.pixels.ky[p];
            double re, im, c = ctf ? cos(defocus * (kx * kx + ky * ky)) : 1;
            phantom_slice(BOX, dimensions, matrix, kx, ky, &re, &im);
            re = c * re + noise * phantom_normal(&seed);
            im = c * im + noise * phantom_normal(&seed);
            s.data[2 * ((size_t)i * count + p)] = (float)(c * re);
            s.data[2 * ((size_t)i * count + p) + 1] = (float)(c * im);
            s.weight[(size_t)i * count + p] = (float)(c * c);
        }
    }
    return s;
}

static void slices_destroy(struct slices *s) {
    fourier_pixels_destroy(&s->pixels);
    mem_free(&s->matrices);
    mem_free(&s->data);
    mem_free(&s->weight);
}

static void add(struct accumulator *a, const struct slices *s, int first, int n, int threads) {
    size_t from = (size_t)first * (size_t)s->pixels.count;
    assert_int_equal(accumulator_add(a, &s->pixels, s->pixels.count, n, s->matrices + 9 * (size_t)first,
                                     s->data + 2 * from, s->weight + from, threads, NULL),
                     STATUS_OK);
}

static struct accumulator *accumulate(const struct slices *s, int dimensions, int size, int threads) {
    struct accumulator *a = NULL;
    assert_int_equal(accumulator_create(dimensions, BOX, size, &a, NULL), STATUS_OK);
    add(a, s, 0, s->n, threads);
    return a;
}

static size_t voxel_count(const struct accumulator *a) {
    return (size_t)a->nx * (size_t)a->ny * (size_t)a->nz;
}

/* Returns the error relative to the phantom with its mean over each shell, so that the scale counts too. */
static double relative_error(int n, const float *a, const float *truth) {
    double off = 0, power = 0;
    for (int i = 0; i < n; i++) {
        off += ((double)a[i] - (double)truth[i]) * ((double)a[i] - (double)truth[i]);
        power += (double)truth[i] * (double)truth[i];
    }
    return sqrt(off / power);
}

static void remove_mean(int n, float *map) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)map[i];
    for (int i = 0; i < n; i++)
        map[i] -= (float)(sum / n);
}

static void recover(int ctf, double tolerance) {
    struct slices s = make_slices(3, 900, BOX, ctf, 0);
    struct accumulator *a = accumulate(&s, 3, BOX, 2);
    assert_int_equal(accumulator_finish(a, NULL, 2, NULL), STATUS_OK);
    _cleanup_(mem_free) float *map = mem_aligned(MAP, sizeof *map);
    _cleanup_(mem_free) float *truth = mem_aligned(MAP, sizeof *truth);
    assert_true(map != NULL && truth != NULL);
    const struct reconstruct_options options = {.threads = 2};
    assert_int_equal(reconstruct_map(a, &options, map, NULL, NULL, NULL), STATUS_OK);
    phantom_map(BOX, truth);
    float fsc[SHELLS];
    assert_int_equal(fsc_maps(NULL, BOX, map, truth, fsc, NULL), STATUS_OK);
    for (int shell = 1; shell <= 8 * BOX / 20; shell++)
        if (!(fsc[shell] > 0.99f)) fail_msg("FSC with the phantom is %g in shell %d", (double)fsc[shell], shell);
    /* No slice holds the value at the origin (the pixel list leaves it out): compare maps without their means. */
    remove_mean(MAP, map);
    remove_mean(MAP, truth);
    double error = relative_error(MAP, map, truth);
    printf("map recovered to %.2f %%%s\n", 100 * error, ctf ? " through CTFs" : "");
    assert_true(error < tolerance);
    accumulator_destroy(&a);
    slices_destroy(&s);
}

static void phantom_comes_back(void **state) {
    (void)state;
    recover(0, 0.05);
}

static void phantom_comes_back_through_ctfs(void **state) {
    (void)state;
    recover(1, 0.08);
}

static void class_average_comes_back(void **state) {
    (void)state;
    struct slices s = make_slices(2, 200, BOX, 1, 0);
    struct accumulator *a = accumulate(&s, 2, BOX, 2);
    assert_int_equal(accumulator_finish(a, NULL, 1, NULL), STATUS_OK);
    float map[BOX * BOX], truth[BOX * BOX] = {0};
    const struct reconstruct_options options = {.threads = 1};
    assert_int_equal(reconstruct_map(a, &options, map, NULL, NULL, NULL), STATUS_OK);
    for (int i = 0; i < BOX * BOX; i++)
        for (int b = 0; b < PHANTOM_BLOBS; b++) {
            const struct phantom_blob *q = &phantom_blobs[b];
            double dx = i % BOX - BOX / 2 - q->x * BOX, dy = i / BOX - BOX / 2 - q->y * BOX;
            truth[i] += (float)(q->height * exp(-(dx * dx + dy * dy) / (2 * q->sigma * q->sigma)));
        }
    remove_mean(BOX * BOX, map);
    remove_mean(BOX * BOX, truth);
    double error = relative_error(BOX * BOX, map, truth);
    printf("class average recovered to %.2f %%\n", 100 * error);
    assert_true(error < 0.05);
    accumulator_destroy(&a);
    slices_destroy(&s);
}

static void threads_do_not_change_a_bit(void **state) {
    (void)state;
    struct slices s = make_slices(3, 60, 28, 1, 0.01);
    struct accumulator *one = accumulate(&s, 3, 28, 1);
    static const int threads[] = {2, 3, 7, 300};
    struct symmetry d3;
    assert_int_equal(symmetry_create("D3", &d3, NULL), STATUS_OK);
    for (int t = 0; t < 4; t++) {
        struct accumulator *many = accumulate(&s, 3, 28, threads[t]);
        assert_memory_equal(one->voxels, many->voxels, voxel_count(one) * sizeof *one->voxels);
        accumulator_destroy(&many);
    }
    struct accumulator *two = accumulate(&s, 3, 28, 2);
    assert_int_equal(accumulator_finish(one, &d3, 1, NULL), STATUS_OK);
    assert_int_equal(accumulator_finish(two, &d3, 3, NULL), STATUS_OK);
    assert_memory_equal(one->voxels, two->voxels, voxel_count(one) * sizeof *one->voxels);
    _cleanup_(mem_free) float *a = mem_aligned(MAP, sizeof *a);
    _cleanup_(mem_free) float *b = mem_aligned(MAP, sizeof *b);
    assert_true(a != NULL && b != NULL);
    float tau2[SHELLS];
    for (int i = 0; i < SHELLS; i++)
        tau2[i] = 1e-5f;
    struct reconstruct_options options = {.tau2 = tau2, .tau_fudge = 1, .minres_shell = 5, .threads = 1};
    float data_a[SHELLS], data_b[SHELLS];
    assert_int_equal(reconstruct_map(one, &options, a, data_a, NULL, NULL), STATUS_OK);
    options.threads = 2;
    assert_int_equal(reconstruct_map(two, &options, b, data_b, NULL, NULL), STATUS_OK);
    assert_memory_equal(data_a, data_b, sizeof data_a);
    /* FFTW may split its sums differently: equal except for rounding. */
    for (int i = 0; i < MAP; i++)
        assert_true(fabsf(a[i] - b[i]) < 1e-4f);
    symmetry_destroy(&d3);
    accumulator_destroy(&one);
    accumulator_destroy(&two);
    slices_destroy(&s);
}

static void symmetry_is_the_sum_over_mates(void **state) {
    (void)state;
    /* C4 maps grid points to grid points, so that both ways agree except for rounding: each view is added in four
     * poses. */
    enum { SIZE = 24 };
    struct slices s = make_slices(3, 40, SIZE, 0, 0.01);
    struct symmetry c4;
    assert_int_equal(symmetry_create("C4", &c4, NULL), STATUS_OK);
    struct accumulator *a = accumulate(&s, 3, SIZE, 1), *b = NULL;
    assert_int_equal(accumulator_create(3, BOX, SIZE, &b, NULL), STATUS_OK);
    assert_int_equal(accumulator_finish(a, &c4, 2, NULL), STATUS_OK);
    for (int o = 0; o < c4.count; o++) {
        struct slices mates = s;
        _cleanup_(mem_free) float *matrices = mem_aligned((size_t)s.n, 9 * sizeof *matrices);
        assert_non_null(matrices);
        for (int i = 0; i < s.n; i++)
            for (int r = 0; r < 3; r++)
                for (int c = 0; c < 3; c++) {
                    double sum = 0;
                    for (int k = 0; k < 3; k++)
                        sum += (double)s.matrices[9 * i + 3 * r + k] * c4.matrices[o][3 * k + c];
                    matrices[9 * i + 3 * r + c] = (float)sum;
                }
        mates.matrices = matrices;
        add(b, &mates, 0, s.n, 1);
    }
    assert_int_equal(accumulator_finish(b, NULL, 1, NULL), STATUS_OK);
    int limit = a->reach - 1, compared = 0;
    for (int z = -limit; z <= limit; z++)
        for (int y = -limit; y <= limit; y++)
            for (int x = 0; x * x + y * y + z * z <= limit * limit; x++) {
                const accumulator_voxel *p = accumulator_row(a, z, y) + x, *q = accumulator_row(b, z, y) + x;
                for (int c = 0; c < 3; c++)
                    assert_true(fabs((*p)[c] - (*q)[c]) < 1e-4 * (1 + fabs((*q)[c])));
                compared += (*q)[2] > 0;
            }
    assert_true(compared > 1000);
    symmetry_destroy(&c4);
    accumulator_destroy(&a);
    accumulator_destroy(&b);
    slices_destroy(&s);
}

static void octahedral_sum_is_octahedral(void **state) {
    (void)state;
    struct slices s = make_slices(3, 30, BOX, 0, 0);
    struct symmetry o;
    assert_int_equal(symmetry_create("O", &o, NULL), STATUS_OK);
    struct accumulator *a = accumulate(&s, 3, BOX, 2);
    assert_int_equal(accumulator_finish(a, &o, 2, NULL), STATUS_OK);
    _cleanup_(mem_free) float *map = mem_aligned(MAP, sizeof *map);
    _cleanup_(mem_free) float *mean = mem_aligned(MAP, sizeof *mean);
    assert_true(map != NULL && mean != NULL);
    const struct reconstruct_options options = {.threads = 2};
    assert_int_equal(reconstruct_map(a, &options, map, NULL, NULL, NULL), STATUS_OK);
    remove_mean(MAP, map);
    mask_sphere(3, BOX, map, BOX / 2 - 4, 3, 0); /* the first row of the box has no symmetry mate within it */
    memcpy(mean, map, MAP * sizeof *mean);
    assert_int_equal(symmetry_average_map(&o, BOX, mean, NULL), STATUS_OK);
    double asymmetry = relative_error(MAP, map, mean);
    printf("asymmetry %.3g\n", asymmetry);
    assert_true(asymmetry < 1e-3);
    symmetry_destroy(&o);
    accumulator_destroy(&a);
    slices_destroy(&s);
}

static void merging_is_adding(void **state) {
    (void)state;
    struct slices s = make_slices(3, 20, 20, 0, 0.1);
    struct accumulator *whole = accumulate(&s, 3, 20, 1), *a = NULL, *b = NULL;
    assert_int_equal(accumulator_create(3, BOX, BOX, &a, NULL), STATUS_OK);
    assert_int_equal(accumulator_clear(a, 20, NULL), STATUS_OK);
    assert_int_equal(accumulator_create(3, BOX, 20, &b, NULL), STATUS_OK);
    add(a, &s, 0, 10, 1);
    add(b, &s, 10, 10, 1);
    assert_int_equal(accumulator_merge(a, b, NULL), STATUS_OK);
    assert_int_equal(accumulator_scale(a, 2, NULL), STATUS_OK);
    for (size_t i = 0; i < voxel_count(whole); i++)
        for (int c = 0; c < 3; c++)
            assert_true(fabs(a->voxels[i][c] - 2 * whole->voxels[i][c]) < 1e-9 * (1 + fabs(whole->voxels[i][c])));
    accumulator_destroy(&whole);
    accumulator_destroy(&a);
    accumulator_destroy(&b);
    slices_destroy(&s);
}

/* Two halves with independent noise: the FSC of the sums is like that of the maps, joined shells correlate fully, and
 * tau² = σ² FSC/(1−FSC) gives data_vs_prior = FSC/(1−FSC). */
static void halves_correlate_as_their_maps(void **state) {
    (void)state;
    struct slices s = make_slices(3, 800, BOX, 0, 0.02);
    struct accumulator *half[2];
    _cleanup_(mem_free) float *map[2] = {NULL, NULL};
    assert_int_equal(mem_new(2 * MAP, sizeof(float), "test", &map[0], NULL), STATUS_OK);
    map[1] = map[0] + MAP;
    const struct reconstruct_options plain = {.threads = 1};
    for (int h = 0; h < 2; h++) {
        assert_int_equal(accumulator_create(3, BOX, BOX, &half[h], NULL), STATUS_OK);
        add(half[h], &s, 400 * h, 400, 2);
        assert_int_equal(accumulator_finish(half[h], NULL, 1, NULL), STATUS_OK);
        assert_int_equal(reconstruct_map(half[h], &plain, map[h], NULL, NULL, NULL), STATUS_OK);
    }
    float fsc[SHELLS], of_maps[SHELLS], sigma2[SHELLS], tau2[SHELLS], ratio[SHELLS], complete[SHELLS];
    assert_int_equal(accumulator_fsc(half[0], half[1], fsc, NULL), STATUS_OK);
    assert_int_equal(fsc_maps(NULL, BOX, map[0], map[1], of_maps, NULL), STATUS_OK);
    assert_true(fsc[0] == 1);
    int falls = 0;
    for (int i = 1; i < SHELLS - 1; i++) {
        assert_true(fabsf(fsc[i] - of_maps[i]) < 0.15f);
        falls += fsc[i] < 0.5f;
    }
    assert_true(fsc[2] > 0.98f && falls > 2);
    assert_int_equal(accumulator_sigma2(half[0], sigma2, NULL), STATUS_OK);
    for (int i = 0; i < SHELLS; i++) {
        float f = fsc[i] < 0.001f ? 0.001f : fsc[i] > 0.999f ? 0.999f : fsc[i];
        tau2[i] = sigma2[i] * f / (1 - f);
    }
    struct reconstruct_options wiener = {.tau2 = tau2, .tau_fudge = 1, .minres_shell = 5, .threads = 2};
    assert_int_equal(reconstruct_map(half[0], &wiener, map[0], ratio, complete, NULL), STATUS_OK);
    for (int i = 6; i < SHELLS - 1; i++) {
        float f = fsc[i] < 0.001f ? 0.001f : fsc[i] > 0.999f ? 0.999f : fsc[i];
        assert_true(fabsf(ratio[i] - f / (1 - f)) < 0.02f * f / (1 - f));
        assert_true(complete[i] >= 0 && complete[i] <= 1);
    }
    accumulator_voxel mine = accumulator_row(half[0], 3, -2)[5], other = accumulator_row(half[1], 3, -2)[5];
    assert_int_equal(accumulator_join_shells(half[0], half[1], 10, NULL), STATUS_OK);
    accumulator_voxel joined = accumulator_row(half[0], 3, -2)[5], same = accumulator_row(half[1], 3, -2)[5];
    for (int c = 0; c < 3; c++) {
        assert_true(fabs(joined[c] - 0.5 * (mine[c] + other[c])) < 1e-9 * (1 + fabs(mine[c])));
        assert_true(joined[c] == same[c]);
    }
    assert_int_equal(accumulator_fsc(half[0], half[1], fsc, NULL), STATUS_OK);
    for (int i = 0; i < 10; i++)
        assert_true(fsc[i] > 0.9999f);
    assert_true(fsc[SHELLS - 3] < 0.5f);
    accumulator_destroy(&half[0]);
    accumulator_destroy(&half[1]);
    slices_destroy(&s);
    map[1] = NULL;
}

/* W = weight + 1/(pad³ T tau²): a prior of one tenth of the data's SSNR damps as expected. */
static void prior_damps(void **state) {
    (void)state;
    struct slices s = make_slices(3, 900, BOX, 0, 0);
    struct accumulator *a = accumulate(&s, 3, BOX, 2);
    assert_int_equal(accumulator_finish(a, NULL, 1, NULL), STATUS_OK);
    _cleanup_(mem_free) float *map = mem_aligned(MAP, sizeof *map);
    _cleanup_(mem_free) float *full = mem_aligned(MAP, sizeof *full);
    assert_true(map != NULL && full != NULL);
    float sigma2[SHELLS];
    assert_int_equal(accumulator_sigma2(a, sigma2, NULL), STATUS_OK);
    const struct reconstruct_options plain = {.threads = 1};
    const struct reconstruct_options wiener = {.tau2 = sigma2, .tau_fudge = 3, .minres_shell = 0, .threads = 1};
    assert_int_equal(reconstruct_map(a, &plain, full, NULL, NULL, NULL), STATUS_OK);
    assert_int_equal(reconstruct_map(a, &wiener, map, NULL, NULL, NULL), STATUS_OK);
    double with = 0, without = 0;
    for (int i = 0; i < MAP; i++)
        with += (double)map[i] * (double)full[i], without += (double)full[i] * (double)full[i];
    assert_true(fabs(with / without - 0.75) < 0.05); /* SSNR 3: 3/4 remains, more where weights are above the mean */
    accumulator_destroy(&a);
    slices_destroy(&s);
}

/* Makes a map from the first shells of the sums. Slices that end before the limit lose nothing. Slices that begin
 * beyond it leave nothing. (A pixel is scattered up to 0.87 shells away.) */
static void maps_of_the_first_shells(void **state) {
    (void)state;
    enum { LAST = 8 };
    struct slices s = make_slices(3, 60, BOX, 0, 0.2);
    _cleanup_(mem_free) float *map = mem_aligned(MAP, sizeof *map);
    _cleanup_(mem_free) float *full = mem_aligned(MAP, sizeof *full);
    const struct reconstruct_options first = {.last_shell = LAST, .threads = 2}, all = {.threads = 2};
    assert_true(map != NULL && full != NULL);
    for (int beyond = 0; beyond < 2; beyond++) {
        struct slices part = make_slices(3, 60, BOX, 0, 0.2);
        for (size_t i = 0; i < (size_t)part.n * (size_t)part.pixels.count; i++) {
            int p = (int)(i % (size_t)part.pixels.count);
            double radius = hypot(part.pixels.kx[p], part.pixels.ky[p]);
            if (beyond ? radius < LAST + 1.9 : radius > LAST - 0.4) part.data[2 * i] = part.data[2 * i + 1] = 0;
        }
        struct accumulator *a = accumulate(&part, 3, BOX, 2);
        assert_int_equal(accumulator_finish(a, NULL, 1, NULL), STATUS_OK);
        assert_int_equal(reconstruct_map(a, &first, map, NULL, NULL, NULL), STATUS_OK);
        assert_int_equal(reconstruct_map(a, &all, full, NULL, NULL, NULL), STATUS_OK);
        if (!beyond) assert_memory_equal(map, full, MAP * sizeof *map);
        for (int i = 0; beyond && i < MAP; i++)
            assert_true(map[i] == 0);
        assert_true(relative_error(MAP, map, full) == beyond);
        accumulator_destroy(&a);
        slices_destroy(&part);
    }
    struct accumulator *a = accumulate(&s, 3, BOX, 2);
    const struct reconstruct_options more = {.last_shell = BOX, .threads = 1};
    assert_int_equal(accumulator_finish(a, NULL, 1, NULL), STATUS_OK);
    assert_int_equal(reconstruct_map(a, &more, map, NULL, NULL, NULL), STATUS_OK);
    assert_int_equal(reconstruct_map(a, &all, full, NULL, NULL, NULL), STATUS_OK);
    assert_memory_equal(map, full, MAP * sizeof *map);
    accumulator_destroy(&a);
    slices_destroy(&s);
}

/* The memory that a device needs is known without a device: that of the host's grids, while they exist; and the
 * formula's value if no grid exists. */
static void volumes_are_as_large_as_planned(void **state) {
    (void)state;
    struct err err = {0};
    for (int dimensions = 2; dimensions <= 3; dimensions++)
        for (int size = 4; size <= BOX; size += 6) {
            struct accumulator *a = NULL;
            struct projector *p = NULL;
            static float map[MAP];
            assert_int_equal(accumulator_create(dimensions, BOX, size, &a, &err), STATUS_OK);
            assert_int_equal(projector_create(dimensions, BOX, 1, &p, &err), STATUS_OK);
            assert_int_equal(projector_set_map(p, map, size, &err), STATUS_OK);
            struct projector_grid grid = projector_grid(p);
            size_t points = (size_t)grid.nx * (size_t)grid.ny * (size_t)grid.nz;
            assert_int_equal(accumulator_bytes(dimensions, size), arena_need(accumulator_grid(a).bytes, 1));
            assert_int_equal(projector_bytes(dimensions, size), arena_need(points, 2 * sizeof(float)));
            accumulator_destroy(&a);
            projector_destroy(&p);
        }
    /* 360 px: 362 × 723² points of four doubles, of two floats. */
    assert_int_equal(accumulator_bytes(3, 360), arena_need((size_t)362 * 723 * 723, 32));
    assert_int_equal(projector_bytes(3, 360), arena_need((size_t)362 * 723 * 723, 8));
}

/* The largest sums, of which only the pages in use take memory: a pixel at x = y = 0 and z = 2k, beyond the 2^31st
 * voxel. */
static void the_largest_sums_are_added_to_up_to_their_end(void **state) {
    (void)state;
    enum { K = 450, SIZE = FOURIER_SIZE_MOST_3D };
    struct accumulator *a = NULL;
    struct err err = {0};
    short kx = 0, ky = K, shell = K;
    const struct fourier_pixels pixels = {.box = SIZE, .size = SIZE, .count = 1, .kx = &kx, .ky = &ky, .shell = &shell};
    const float matrix[9] = {1, 0, 0, 0, 0, 1, 0, -1, 0}, data[2] = {3, 4}, weight = 5;
    assert_int_equal(accumulator_create(3, SIZE + 2, 16, &a, &err), STATUS_OK);
    assert_int_equal(accumulator_clear(a, SIZE + 2, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "1022"));
    a->r_max = SIZE / 2, a->reach = ACCUMULATOR_PAD * a->r_max + 1;
    a->nx = a->reach + 1, a->ny = a->nz = 2 * a->reach + 1;
    size_t bytes = accumulator_voxels(a) * sizeof *a->voxels;
    assert_true(accumulator_voxels(a) <= UINT32_MAX);
    accumulator_voxel *own = a->voxels;
    accumulator_voxel *voxels =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (voxels == MAP_FAILED) {
        accumulator_destroy(&a);
        print_message("no %zu GiB of addresses\n", bytes >> 30);
        skip();
    }
    size_t at = ((size_t)(a->reach + ACCUMULATOR_PAD * K) * (size_t)a->ny + (size_t)a->reach) * (size_t)a->nx;
    assert_true(at > INT32_MAX);
    a->voxels = voxels;
    enum status status = accumulator_add(a, &pixels, 1, 1, matrix, data, &weight, 1, &err);
    a->voxels = own;
    accumulator_voxel found = voxels[at];
    munmap(voxels, bytes);
    accumulator_destroy(&a);
    assert_int_equal(status, STATUS_OK);
    assert_true(found[0] == 3 && found[1] == 4 && found[2] == 5);
}

int main(void) {
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phantom_comes_back),
        cmocka_unit_test(phantom_comes_back_through_ctfs),
        cmocka_unit_test(class_average_comes_back),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(symmetry_is_the_sum_over_mates),
        cmocka_unit_test(octahedral_sum_is_octahedral),
        cmocka_unit_test(merging_is_adding),
        cmocka_unit_test(halves_correlate_as_their_maps),
        cmocka_unit_test(prior_damps),
        cmocka_unit_test(maps_of_the_first_shells),
        cmocka_unit_test(volumes_are_as_large_as_planned),
        cmocka_unit_test(the_largest_sums_are_added_to_up_to_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
