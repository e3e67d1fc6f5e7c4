/* Compares slices with the exact transforms of a phantom of Gaussian blobs: handedness, phase origin, grey scale;
 * quarter turns, 2D references, the border, threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/projector/projector.h"
#include "kernels/projector/projector_private.h"
#include "kernels/symmetry/symmetry.h"
#include "tests/kernels/phantom.h"

enum { BOX = 48, SLICES = 12 };

static uint64_t seed = 4711;

static void random_matrix(float matrix[9]) {
    double m[9];
    euler_to_matrix(360 * phantom_uniform(&seed), acos(1 - 2 * phantom_uniform(&seed)) * 180 / M_PI,
                    360 * phantom_uniform(&seed), m);
    for (int i = 0; i < 9; i++)
        matrix[i] = (float)m[i];
}

/* Returns the root mean square difference from the exact transform, relative to that of the transform, over shells
 * first .. last. */
static double slice_error(const struct fourier_pixels *pixels, int dimensions, const float *matrix, const float *slice,
                          int first, int last) {
    double off = 0, power = 0;
    for (int i = 0; i < pixels->count; i++) {
        int shell = pixels->shell[i];
        if (shell < first || shell > last ||
            4 * (pixels->kx[i] * pixels->kx[i] + pixels->ky[i] * pixels->ky[i]) > pixels->size * pixels->size)
            continue;
        double re, im;
        phantom_slice(BOX, dimensions, matrix, pixels->kx[i], pixels->ky[i], &re, &im);
        double dr = (double)slice[2 * i] - re, di = (double)slice[2 * i + 1] - im;
        off += dr * dr + di * di;
        power += re * re + im * im;
    }
    return sqrt(off / power);
}

static struct projector *projector_of_phantom(int dimensions, int size) {
    struct projector *p = NULL;
    assert_int_equal(projector_create(dimensions, BOX, 2, &p, NULL), STATUS_OK);
    _cleanup_(mem_free) float *map = mem_aligned((size_t)BOX * BOX * BOX, sizeof *map);
    assert_non_null(map);
    if (dimensions == 3)
        phantom_map(BOX, map);
    else
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++)
                for (int b = 0; b < PHANTOM_BLOBS; b++) {
                    const struct phantom_blob *q = &phantom_blobs[b];
                    double dx = x - BOX / 2 - q->x * BOX, dy = y - BOX / 2 - q->y * BOX;
                    map[y * BOX + x] += (float)(q->height * exp(-(dx * dx + dy * dy) / (2 * q->sigma * q->sigma)));
                }
    assert_int_equal(projector_set_map(p, map, size, NULL), STATUS_OK);
    return p;
}

static void slices_are_the_exact_transform(void **state) {
    (void)state;
    struct fourier_pixels pixels;
    assert_int_equal(fourier_pixels_create(BOX, BOX, &pixels, NULL), STATUS_OK);
    struct projector *p = projector_of_phantom(3, BOX);
    float matrices[SLICES][9];
    _cleanup_(mem_free) float *slices = mem_aligned((size_t)pixels.count * SLICES, 2 * sizeof *slices);
    assert_non_null(slices);
    for (int i = 0; i < SLICES; i++)
        random_matrix(matrices[i]);
    projector_slices(p, &pixels, pixels.count, SLICES, &matrices[0][0], 2, slices);
    double low = 0, all = 0;
    for (int i = 0; i < SLICES; i++) {
        const float *slice = slices + (size_t)i * 2 * (size_t)pixels.count;
        low = fmax(low, slice_error(&pixels, 3, matrices[i], slice, 1, BOX / 4));
        all = fmax(all, slice_error(&pixels, 3, matrices[i], slice, 1, BOX / 2));
    }
    printf("interpolation error: %.2f %% to half Nyquist, %.2f %% over all\n", 100 * low, 100 * all);
    /* Trilinear interpolation at padding 2 leaves copies of the density at the ends of the padded box, a few per cent
     * of its amplitude for blobs at 0.2 of the box. A wrong hand, origin or scale gives more than 50 %. */
    assert_true(low < 0.03);
    assert_true(all < 0.03);
    projector_destroy(&p);
    fourier_pixels_destroy(&pixels);
}

/* Grid points are not interpolated: a quarter turn only moves them, bit for bit. */
static void quarter_turns_are_exact(void **state) {
    (void)state;
    struct fourier_pixels pixels;
    assert_int_equal(fourier_pixels_create(BOX, BOX / 2, &pixels, NULL), STATUS_OK);
    struct projector *p = projector_of_phantom(3, BOX / 2);
    const float turns[2][9] = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 1, 0, -1, 0, 0, 0, 0, 1}};
    _cleanup_(mem_free) float *slices = mem_aligned((size_t)pixels.count * 2, 2 * sizeof *slices);
    assert_non_null(slices);
    projector_slices(p, &pixels, pixels.count, 2, &turns[0][0], 1, slices);
    const float *plain = slices, *turned = slices + 2 * pixels.count;
    int compared = 0;
    for (int i = 0; i < pixels.count; i++) {
        /* Image (kx, ky) of the turned view is plane point kx·row1 + ky·row2 = (−ky, kx). */
        int x = -pixels.ky[i], y = pixels.kx[i], conjugate = x < 0 || (x == 0 && y < 0);
        if (conjugate) x = -x, y = -y;
        for (int j = 0; j < pixels.count; j++)
            if (pixels.kx[j] == x && pixels.ky[j] == y) {
                assert_true(turned[2 * i] == plain[2 * j]);
                assert_true(turned[2 * i + 1] == (conjugate ? -plain[2 * j + 1] : plain[2 * j + 1]));
                compared++;
            }
    }
    assert_true(compared > pixels.count - BOX);
    projector_destroy(&p);
    fourier_pixels_destroy(&pixels);
}

static void classes_turn_in_their_plane(void **state) {
    (void)state;
    struct fourier_pixels pixels;
    assert_int_equal(fourier_pixels_create(BOX, BOX, &pixels, NULL), STATUS_OK);
    struct projector *p = projector_of_phantom(2, BOX);
    _cleanup_(mem_free) float *slice = mem_aligned((size_t)pixels.count, 2 * sizeof *slice);
    assert_non_null(slice);
    for (int psi = 0; psi < 360; psi += 25) {
        double m[9];
        float matrix[9];
        euler_to_matrix(0, 0, psi, m);
        for (int i = 0; i < 9; i++)
            matrix[i] = (float)m[i];
        projector_slices(p, &pixels, pixels.count, 1, matrix, 1, slice);
        assert_true(slice_error(&pixels, 2, matrix, slice, 1, BOX / 2) < 0.03);
    }
    projector_destroy(&p);
    fourier_pixels_destroy(&pixels);
}

/* The real-space projection along z is the inverse transform of the identity's slice, with scale box² and origin at
 * box/2. */
static void grey_scale_is_that_of_the_projection(void **state) {
    (void)state;
    struct fourier_pixels pixels;
    assert_int_equal(fourier_pixels_create(BOX, BOX, &pixels, NULL), STATUS_OK);
    struct projector *p = projector_of_phantom(3, BOX);
    _cleanup_(mem_free) float *map = mem_aligned((size_t)BOX * BOX * BOX, sizeof *map);
    _cleanup_(mem_free) float *slice = mem_aligned((size_t)pixels.count, 2 * sizeof *slice);
    assert_true(map != NULL && slice != NULL);
    phantom_map(BOX, map);
    projector_slices(p, &pixels, pixels.count, 1, (const float[9]){1, 0, 0, 0, 1, 0, 0, 0, 1}, 1, slice);
    double off = 0, power = 0;
    for (int i = 0; i < BOX * BOX; i += 7) {
        int x = i % BOX - BOX / 2, y = i / BOX - BOX / 2;
        double sum = 0, mean = 0, value = 0;
        for (int z = 0; z < BOX; z++)
            sum += (double)map[(size_t)z * BOX * BOX + (size_t)i];
        for (int b = 0; b < PHANTOM_BLOBS; b++)
            mean += phantom_blobs[b].height * pow(2 * M_PI * phantom_blobs[b].sigma * phantom_blobs[b].sigma, 1.5);
        for (int k = 0; k < pixels.count; k++) {
            double phase = 2 * M_PI * (pixels.kx[k] * x + pixels.ky[k] * y) / BOX;
            value += 2 * ((double)slice[2 * k] * cos(phase) - (double)slice[2 * k + 1] * sin(phase));
        }
        value += mean / (BOX * BOX);
        off += (value - sum) * (value - sum);
        power += sum * sum;
    }
    /* Points of the grid itself see the correction, but not the interpolation that it corrects: 4 % at 0.2 of the
     * box. */
    assert_true(sqrt(off / power) < 0.05);
    projector_destroy(&p);
    fourier_pixels_destroy(&pixels);
}

static void nothing_beyond_the_size(void **state) {
    (void)state;
    enum { SIZE = 20 };
    struct fourier_pixels pixels;
    assert_int_equal(fourier_pixels_create(BOX, BOX, &pixels, NULL), STATUS_OK);
    struct projector *p = projector_of_phantom(3, SIZE), *whole = projector_of_phantom(3, BOX);
    float matrices[SLICES][9];
    size_t floats = 2 * (size_t)pixels.count * SLICES;
    _cleanup_(mem_free) float *one = mem_aligned(floats, sizeof *one);
    _cleanup_(mem_free) float *two = mem_aligned(floats, sizeof *two);
    assert_true(one != NULL && two != NULL);
    for (int i = 0; i < SLICES; i++)
        random_matrix(matrices[i]);
    projector_slices(p, &pixels, pixels.count, SLICES, &matrices[0][0], 1, one);
    projector_slices(whole, &pixels, pixels.count, SLICES, &matrices[0][0], 2, two);
    for (size_t i = 0; i < floats; i++) {
        size_t k = i / 2 % (size_t)pixels.count;
        int inside = 4 * (pixels.kx[k] * pixels.kx[k] + pixels.ky[k] * pixels.ky[k]) <= SIZE * SIZE;
        /* Grid values within are the same; rounding of places differs with the offset. */
        assert_true(inside ? fabsf(one[i] - two[i]) < 1e-5f * fabsf(two[i]) + 1e-6f : one[i] == 0);
    }
    /* Fewer pixels, fewer threads: the same values. */
    int count = fourier_pixels_within(&pixels, SIZE);
    _cleanup_(mem_free) float *few = mem_aligned(floats, sizeof *few);
    assert_non_null(few);
    projector_slices(whole, &pixels, count, SLICES, &matrices[0][0], 1, few);
    for (int i = 0; i < SLICES; i++)
        assert_memory_equal(few + 2 * (size_t)(i * count), two + 2 * (size_t)(i * pixels.count),
                            2 * (size_t)count * sizeof *few);
    projector_destroy(&p);
    projector_destroy(&whole);
    fourier_pixels_destroy(&pixels);
}

/* Shells up to a limit come from one map, those beyond from another. A slice's pixel lies between grid points at most
 * √3 padded points away; farther than that from the limit it comes from one map, bit for bit. */
static void shells_come_from_two_maps(void **state) {
    (void)state;
    enum { SHELL = 5 };
    struct fourier_pixels pixels;
    struct projector *p[3]; /* of the first map, of the second, and of both */
    float matrix[9];
    assert_int_equal(fourier_pixels_create(BOX, BOX / 2, &pixels, NULL), STATUS_OK);
    _cleanup_(mem_free) float *map = mem_aligned((size_t)BOX * BOX * BOX, sizeof *map);
    _cleanup_(mem_free) float *slices = mem_aligned((size_t)pixels.count * 3, 2 * sizeof *slices);
    assert_true(map != NULL && slices != NULL);
    random_matrix(matrix);
    for (int i = 0; i < 3; i++)
        assert_int_equal(projector_create(3, BOX, 2, &p[i], NULL), STATUS_OK);
    assert_int_equal(projector_set_shells(p[2], map, SHELL, NULL), STATUS_BAD_ARGUMENT);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < BOX * BOX * BOX; k++)
            map[k] = (float)phantom_normal(&seed);
        assert_int_equal(projector_set_map(p[i], map, BOX / 2, NULL), STATUS_OK);
        if (i == 0)
            assert_int_equal(projector_set_map(p[2], map, BOX / 2, NULL), STATUS_OK);
        else
            assert_int_equal(projector_set_shells(p[2], map, SHELL, NULL), STATUS_OK);
    }
    for (int i = 0; i < 3; i++)
        projector_slices(p[i], &pixels, pixels.count, 1, matrix, 1, slices + 2 * (size_t)(i * pixels.count));
    const float *outer = slices, *inner = slices + 2 * pixels.count, *both = inner + 2 * pixels.count;
    int counts[3] = {0};
    for (int i = 0; i < pixels.count; i++) {
        double radius = hypot(pixels.kx[i], pixels.ky[i]), reach = sqrt(3) / 2;
        bool is_inner = memcmp(both + 2 * i, inner + 2 * i, 2 * sizeof *both) == 0;
        bool is_outer = memcmp(both + 2 * i, outer + 2 * i, 2 * sizeof *both) == 0;
        if (radius < SHELL - reach) assert_true(is_inner);
        if (radius > SHELL + reach && radius <= BOX / 4) assert_true(is_outer);
        counts[is_inner ? 0 : is_outer ? 1 : 2]++;
    }
    assert_true(counts[0] > 20 && counts[1] > 20 && counts[2] > 5);
    for (int i = 0; i < 3; i++)
        projector_destroy(&p[i]);
    fourier_pixels_destroy(&pixels);
}

static void power_is_that_of_the_transform(void **state) {
    (void)state;
    /* White noise of variance 1 has |F|²/2 = box³ · (1/box²)² / 2 = 1/(2 box), raised by the sinc correction. */
    struct projector *p = NULL;
    assert_int_equal(projector_create(3, BOX, 1, &p, NULL), STATUS_OK);
    _cleanup_(mem_free) float *map = mem_aligned((size_t)BOX * BOX * BOX, sizeof *map);
    assert_non_null(map);
    for (int z = 12; z < 36; z++)
        for (int y = 12; y < 36; y++)
            for (int x = 12; x < 36; x++)
                map[(z * BOX + y) * BOX + x] = (float)phantom_normal(&seed);
    assert_int_equal(projector_set_map(p, map, BOX, NULL), STATUS_OK);
    float power[BOX / 2 + 1];
    assert_int_equal(projector_power(p, power, NULL), STATUS_OK);
    for (int s = 6; s <= BOX / 2; s++) {
        double expected = 24.0 * 24 * 24 / pow(BOX, 4) / 2; /* noise in an eighth of the box, slightly raised */
        assert_true((double)power[s] > 0.85 * expected && (double)power[s] < 1.35 * expected);
    }
    projector_destroy(&p);
}

static void bad_sizes_are_refused(void **state) {
    (void)state;
    struct projector *p = NULL;
    struct err err = {0};
    assert_int_equal(projector_create(4, BOX, 1, &p, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(projector_create(3, 31, 1, &p, &err), STATUS_BAD_ARGUMENT);
    assert_null(p);
    assert_int_equal(projector_create(2, BOX, 1, &p, &err), STATUS_OK);
    float map[BOX * BOX] = {0};
    assert_int_equal(projector_set_map(p, map, BOX + 2, &err), STATUS_BAD_ARGUMENT);
    projector_destroy(&p);
    projector_destroy(&p);
}

/* The largest transform, of which only the pages in use take memory: a pixel at x = y = 0 and z = 2k, beyond the 2^31st
 * point. */
static void the_largest_grid_is_read_to_its_end(void **state) {
    (void)state;
    enum { K = 450, SIZE = FOURIER_SIZE_MOST_3D };
    struct projector *p = NULL;
    struct err err = {0};
    short kx = 0, ky = K, shell = K;
    const struct fourier_pixels pixels = {.box = SIZE, .size = SIZE, .count = 1, .kx = &kx, .ky = &ky, .shell = &shell};
    const float matrix[9] = {1, 0, 0, 0, 0, 1, 0, -1, 0};
    float found[2] = {0};
    assert_int_equal(projector_create(3, SIZE + 2, 1, &p, &err), STATUS_OK);
    assert_int_equal(projector_set_map(p, &found[0], SIZE + 2, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "1022"));
    projector_shape(p, SIZE);
    size_t bytes = projector_floats(p) * sizeof(float);
    assert_true(bytes / (2 * sizeof(float)) <= UINT32_MAX);
    float *grid = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (grid == MAP_FAILED) {
        projector_destroy(&p);
        print_message("no %zu GiB of addresses\n", bytes >> 30);
        skip();
    }
    size_t at = ((size_t)(p->reach + PROJECTOR_PAD * K) * (size_t)p->ny + (size_t)p->reach) * (size_t)p->nx;
    assert_true(at > INT32_MAX);
    grid[2 * at] = 3, grid[2 * at + 1] = 4;
    p->grid = grid;
    projector_slices(p, &pixels, 1, 1, matrix, 1, found);
    p->grid = NULL;
    munmap(grid, bytes);
    projector_destroy(&p);
    assert_true(found[0] == 3 && found[1] == 4);
}

int main(void) {
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_the_exact_transform),
        cmocka_unit_test(quarter_turns_are_exact),
        cmocka_unit_test(classes_turn_in_their_plane),
        cmocka_unit_test(grey_scale_is_that_of_the_projection),
        cmocka_unit_test(nothing_beyond_the_size),
        cmocka_unit_test(shells_come_from_two_maps),
        cmocka_unit_test(power_is_that_of_the_transform),
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(the_largest_grid_is_read_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
