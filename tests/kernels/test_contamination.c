/* Contamination: lumps, carbon and rough places are marked to where they end, particles are not, whatever the contrast;
 * and the data's area between filled borders. Pictures are drawn, so where things are is known. */
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
#include "kernels/contamination/contamination.h"

enum { WORK = 300, PIXELS = WORK * WORK };
static const double DIAMETER = 15;
static const struct contamination_area WHOLE = {0, 0, WORK, WORK};
static uint64_t lcg;

static float uniform(void) {
    lcg = lcg * 6364136223846793005u + 1442695040888963407u;
    return (float)(lcg >> 40) * 0x1p-24f;
}

static float normal(void) {
    return sqrtf(-2 * logf(uniform() + 1e-7f)) * cosf(6.2831853f * uniform());
}

/* Makes white noise on a slope and a bowl of illumination, both larger than its deviation. */
static void background(float *map) {
    for (int y = 0; y < WORK; y++)
        for (int x = 0; x < WORK; x++) {
            float u = (float)x / WORK - 0.5f, v = (float)y / WORK - 0.5f;
            map[y * WORK + x] = normal() + 2 * u - v + 3 * (u * u + v * v);
        }
}

static void disc(float *map, double x, double y, double radius, float value) {
    for (int j = 0; j < WORK; j++)
        for (int i = 0; i < WORK; i++)
            if (hypot(i - x, j - y) < radius) map[j * WORK + i] += value;
}

static double run(const float *map, double diameter, bool bright, const struct contamination_area *area,
                  uint8_t *mask) {
    struct contamination_options options = {
        .work = WORK, .diameter = diameter, .threshold = CONTAMINATION_THRESHOLD, .particles = 2.5, .bright = bright};
    struct contamination *c = NULL;
    struct err err = {0};
    assert_int_equal(contamination_create(&options, &c, &err), STATUS_OK);
    memset(mask, 7, PIXELS);
    double part = contamination_run(c, map, area, mask);
    uint8_t *again = mem_aligned(PIXELS, 1);
    assert_float_equal(contamination_run(c, map, area, again), part, 0);
    assert_memory_equal(mask, again, PIXELS);
    free(again);
    contamination_destroy(&c);
    assert_null(c);
    return part;
}

struct fixture {
    float *map;
    uint8_t *mask;
};

static int setup(void **state) {
    struct fixture *f = test_calloc(1, sizeof *f);
    f->map = mem_aligned(PIXELS, sizeof(float));
    f->mask = mem_aligned(PIXELS, 1);
    background(f->map);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    free(f->map);
    free(f->mask);
    test_free(f);
    return 0;
}

static void clean_stays_clean(void **state) {
    struct fixture *f = *state;
    const double diameters[] = {2, 5, 15, 40, 150};
    for (size_t i = 0; i < sizeof diameters / sizeof *diameters; i++)
        assert_true(run(f->map, diameters[i], false, &WHOLE, f->mask) == 0);
}

/* The mask must end within a quarter of a particle of where lumps end: dark and bright lumps, faint and opaque, at
 * every scale and sign of the contrast. */
static void lumps_are_marked(void **state) {
    struct fixture *f = *state;
    const double lumps[][4] = {
        {60, 70, 25, -2.5}, {200, 60, 40, -20}, {250, 240, 12, -5}, {90, 210, 18, 4}, {0, 290, 20, -4}};
    enum { LUMPS = sizeof lumps / sizeof *lumps };
    for (int k = 0; k < LUMPS; k++)
        disc(f->map, lumps[k][0], lumps[k][1], lumps[k][2], (float)lumps[k][3]);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; turn > 0 && i < PIXELS; i++)
            f->map[i] = turn == 1 ? -f->map[i] : 30 + 0.1f * f->map[i];
        run(f->map, DIAMETER, turn > 0, &WHOLE, f->mask);
        for (int y = 0; y < WORK; y++)
            for (int x = 0; x < WORK; x++) {
                double inside = -INFINITY;
                for (int k = 0; k < LUMPS; k++)
                    inside = fmax(inside, lumps[k][2] - hypot(x - lumps[k][0], y - lumps[k][1]));
                if (inside > DIAMETER / 4 + 1) assert_int_equal(f->mask[y * WORK + x], 1);
                if (inside < -DIAMETER / 4 - 1) assert_int_equal(f->mask[y * WORK + x], 0);
            }
    }
}

/* A carbon edge that covers less, and more, than half of the micrograph. The brighter side is ice. */
static void carbon_is_marked(void **state) {
    struct fixture *f = *state;
    float *map = mem_aligned(PIXELS, sizeof *map);
    for (int part = 1; part <= 6; part++) {
        int edge = part * WORK / 10;
        for (int i = 0; i < PIXELS; i++)
            map[i] = f->map[i] - (i % WORK + i / WORK / 5 < edge ? 3 : 0);
        run(map, DIAMETER, false, &WHOLE, f->mask);
        int missed = 0, taken = 0, carbon = 0;
        for (int i = 0; i < PIXELS; i++) {
            int inside = edge - i % WORK - i / WORK / 5;
            carbon += inside > 5;
            missed += inside > 5 && !f->mask[i];
            taken += inside < -5 && f->mask[i];
        }
        assert_true(missed <= carbon / 100);
        assert_int_equal(taken, 0);
    }
    free(map);
}

/* Rough regions with the same mean: crystalline ice, carbon of high contrast. */
static void roughness_is_marked(void **state) {
    struct fixture *f = *state;
    for (int y = 0; y < WORK; y++)
        for (int x = 200; x < WORK; x++)
            f->map[y * WORK + x] += 7 * normal();
    run(f->map, DIAMETER, false, &WHOLE, f->mask);
    int missed = 0;
    for (int y = 0; y < WORK; y++)
        for (int x = 0; x < WORK; x++) {
            if (x < 185) assert_int_equal(f->mask[y * WORK + x], 0);
            missed += x > 215 && !f->mask[y * WORK + x];
        }
    printf("%d of %d rough pixels are missed\n", missed, (WORK - 216) * WORK);
    assert_true(missed <= (WORK - 216) * WORK / 100);
}

/* Particles without a halo, stronger than those of any microscope, few and many, some touching. None may be marked, but
 * a lump among them must be. */
static void particles_are_not(void **state) {
    struct fixture *f = *state;
    const int counts[] = {6, 40, 250};
    float *map = mem_aligned(PIXELS, sizeof *map);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        double x[250], y[250];
        memcpy(map, f->map, PIXELS * sizeof *map);
        for (int k = 0; k < counts[c]; k++) {
            bool free_place;
            int tries = 0;
            do {
                x[k] = 8 + (WORK - 16) * uniform();
                y[k] = 8 + (WORK - 16) * uniform();
                free_place = hypot(x[k] - 150, y[k] - 150) > 50;
                for (int j = 0; j < k; j++)
                    free_place &= hypot(x[k] - x[j], y[k] - y[j]) > DIAMETER;
            } while (!free_place && ++tries < 1000);
            if (!free_place) x[k] = y[k] = 1e6;
            disc(map, x[k], y[k], DIAMETER / 2, -2);
        }
        disc(map, 150, 150, 30, -8);
        run(map, DIAMETER, false, &WHOLE, f->mask);
        int lost = 0;
        for (int k = 0; k < counts[c]; k++)
            lost += x[k] < WORK && f->mask[(int)y[k] * WORK + (int)x[k]];
        printf("%d of %d particles are taken for contamination\n", lost, counts[c]);
        assert_true(lost <= counts[c] * 3 / 100);
        assert_int_equal(f->mask[150 * WORK + 150], 1);
        assert_int_equal(f->mask[150 * WORK + 174], 1);
    }
    free(map);
}

/* Paints objects that are alike, far stronger than particles: `inner` up to 0.6 of their radius, `rim` beyond. Returns
 * the part whose centres are marked. */
static double marked_alike(struct fixture *f, float inner, float rim) {
    enum { COUNT = 8 };
    double x[COUNT], y[COUNT];
    int marked = 0;
    float *map = mem_aligned(PIXELS, sizeof *map);
    memcpy(map, f->map, PIXELS * sizeof *map);
    for (int k = 0; k < COUNT; k++) {
        x[k] = 40 + 70 * (k % 4) + 10 * uniform();
        y[k] = 80 + 130 * (k / 4) + 10 * uniform();
        disc(map, x[k], y[k], DIAMETER * 0.5, rim);
        disc(map, x[k], y[k], DIAMETER * 0.3, inner - rim);
    }
    run(map, DIAMETER, false, &WHOLE, f->mask);
    for (int k = 0; k < COUNT; k++)
        marked += f->mask[(int)y[k] * WORK + (int)x[k]];
    free(map);
    printf("%d of %d objects of %g with rims of %g are marked\n", marked, COUNT, inner, rim);
    return (double)marked / COUNT;
}

/* Crystals that are alike are marked, as they only absorb. Equally strong particles have halos, and are not. */
static void crystals_are_marked(void **state) {
    struct fixture *f = *state;
    assert_true(marked_alike(f, -6, 0) == 1);
    assert_true(marked_alike(f, -6, 1.8) == 0);
}

/* A region that a lump cuts off is marked as well; nothing outside the area is looked at. */
static void islands_and_areas(void **state) {
    struct fixture *f = *state;
    for (int i = 0; i < PIXELS; i++) {
        int x = i % WORK, y = i / WORK;
        if (x + y > 40 && x + y < 80) f->map[i] -= 6;
        if (x < 10 || y >= 290) f->map[i] = 1e6f;
    }
    struct contamination_area area = {10, 0, WORK, 290};
    double part = run(f->map, DIAMETER, false, &area, f->mask);
    assert_int_equal(f->mask[5 * WORK + 15], 1);
    assert_int_equal(f->mask[5 * WORK + 5], 0);
    assert_int_equal(f->mask[295 * WORK + 100], 0);
    assert_int_equal(f->mask[200 * WORK + 200], 0);
    assert_true(part > 0.02 && part < 0.05);
}

static void strange_maps(void **state) {
    struct fixture *f = *state;
    for (int i = 0; i < PIXELS; i++)
        f->map[i] = 3;
    assert_true(run(f->map, DIAMETER, false, &WHOLE, f->mask) == 0);
    for (int i = 0; i < PIXELS; i++)
        f->map[i] = i % 3 ? NAN : INFINITY;
    assert_true(run(f->map, DIAMETER, false, &WHOLE, f->mask) == 0);
    background(f->map);
    for (int side = 0; side < 40; side++) {
        struct contamination_area area = {3, 5, 3 + side, 5 + (side + 1) / 2};
        assert_true(run(f->map, DIAMETER, false, &area, f->mask) <= 1);
    }
    struct contamination_options options = {.work = WORK, .diameter = 0, .threshold = 10, .particles = 1};
    struct contamination *c = NULL;
    struct err err = {0};
    assert_int_equal(contamination_create(&options, &c, &err), STATUS_BAD_ARGUMENT);
    assert_null(c);
    contamination_destroy(&c);
}

static void check_area(const float *map, int x0, int y0, int x1, int y1) {
    struct contamination_area a = contamination_data_area(map, WORK, WORK);
    assert_int_equal(a.x0, x0);
    assert_int_equal(a.y0, y0);
    assert_int_equal(a.x1, x1);
    assert_int_equal(a.y1, y1);
}

/* Edges that repeat a line, nearly repeat one, are constant or NaN, and lines outside of them that a filter made. */
static void filled_borders(void **state) {
    struct fixture *f = *state;
    float *map = f->map;
    check_area(map, 0, 0, WORK, WORK);
    for (int y = 0; y < 40; y++)
        memcpy(map + y * WORK, map + 40 * WORK, WORK * sizeof *map);
    check_area(map, 0, 40, WORK, WORK);
    for (int x = 0; x < WORK; x++)
        for (int y = 0; y < 10; y++)
            map[y * WORK + x] += 0.5f * normal();
    check_area(map, 0, 40, WORK, WORK);
    for (int y = 0; y < WORK; y++) {
        for (int x = 0; x < 3; x++)
            map[y * WORK + x] = 0;
        for (int x = WORK - 100; x < WORK; x++)
            map[y * WORK + x] = map[y * WORK + WORK - 101] + 0.01f * normal();
    }
    check_area(map, 2, 40, WORK - 100, WORK);
    for (int i = (WORK - 7) * WORK; i < PIXELS; i++)
        map[i] = NAN;
    check_area(map, 2, 40, WORK - 100, WORK - 7);
    for (int i = 0; i < PIXELS; i++)
        map[i] = 5;
    struct contamination_area none = contamination_data_area(map, WORK, WORK);
    assert_int_equal(none.x0, none.x1);
    assert_int_equal(contamination_data_area(map, 1, 1).x1, 1);
}

int main(void) {
    const char *seed = getenv("ICESTREAM_SEED");
    lcg = seed ? strtoull(seed, NULL, 10) : 20261121;
    printf("ICESTREAM_SEED=%llu\n", (unsigned long long)lcg);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clean_stays_clean, setup, teardown),
        cmocka_unit_test_setup_teardown(lumps_are_marked, setup, teardown),
        cmocka_unit_test_setup_teardown(carbon_is_marked, setup, teardown),
        cmocka_unit_test_setup_teardown(roughness_is_marked, setup, teardown),
        cmocka_unit_test_setup_teardown(particles_are_not, setup, teardown),
        cmocka_unit_test_setup_teardown(crystals_are_marked, setup, teardown),
        cmocka_unit_test_setup_teardown(islands_and_areas, setup, teardown),
        cmocka_unit_test_setup_teardown(strange_maps, setup, teardown),
        cmocka_unit_test_setup_teardown(filled_borders, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
