/* Templates of a refined map: projections of what lies inside the particle, without anything finer than 20 Å. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/sampling/sampling.h"
#include "stages/refiner/map_templates.h"

enum { BOX = 80, BLOBS = 4, INSIDE = 3 };
static const double PIXEL = 2.5, RADIUS = 60, SIGMA = 12; /* Å */
/* Å from the middle; the last one is a neighbour. */
static const struct {
    double x, y, z, height;
} blobs[BLOBS] = {{22, 4, -12, 1}, {-18, 20, 8, 0.8}, {0, -28, 20, 0.6}, {0, 85, 0, 3}};

static struct err err;

/* Draws the map of a half: the blobs, and a pattern of 8 Å that both halves have. */
static float *draw(double fine) {
    float *map = NULL;
    assert_int_equal(mem_new((size_t)BOX * BOX * BOX, sizeof *map, "a map", &map, &err), STATUS_OK);
    for (int z = 0; z < BOX; z++)
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++) {
                double sum = fine * cos(2 * M_PI * (x + y) * PIXEL / 8);
                for (int b = 0; b < BLOBS; b++) {
                    double dx = (x - BOX / 2) * PIXEL - blobs[b].x, dy = (y - BOX / 2) * PIXEL - blobs[b].y,
                           dz = (z - BOX / 2) * PIXEL - blobs[b].z;
                    sum += blobs[b].height * exp(-(dx * dx + dy * dy + dz * dz) / (2 * SIGMA * SIGMA));
                }
                map[(z * BOX + y) * BOX + x] = (float)sum;
            }
    return map;
}

static struct image make(double fine, const char *symmetry) {
    struct image templates = {0};
    float *one = draw(fine), *two = draw(-0.5 * fine);
    const struct refiner_maps maps = {.box = BOX, .pixel_size = PIXEL, .half1 = one, .half2 = two};
    assert_int_equal(map_templates_make(&maps, RADIUS, symmetry, 2, &templates, &err), STATUS_OK);
    free(one);
    free(two);
    return templates;
}

/* Returns the correlation of a template with the exact projection, inside the circle. */
static double compare(const float *template, int box, double pixel, const double m[9]) {
    double s[6] = {0}, radius = 0.8 * RADIUS;
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++) {
            double u = (x - box / 2) * pixel, v = (y - box / 2) * pixel, exact = 0;
            if (hypot(u, v) > radius) continue;
            for (int b = 0; b < INSIDE; b++) {
                double i = u - (m[0] * blobs[b].x + m[1] * blobs[b].y + m[2] * blobs[b].z);
                double j = v - (m[3] * blobs[b].x + m[4] * blobs[b].y + m[5] * blobs[b].z);
                exact += blobs[b].height * exp(-(i * i + j * j) / (2 * SIGMA * SIGMA));
            }
            double value = template[y * box + x];
            const double terms[6] = {1, value, exact, value * value, exact * exact, value * exact};
            for (int k = 0; k < 6; k++)
                s[k] += terms[k];
        }
    double xy = s[5] - s[1] * s[2] / s[0], xx = s[3] - s[1] * s[1] / s[0], yy = s[4] - s[2] * s[2] / s[0];
    return xy / sqrt(xx * yy);
}

static void templates_are_projections_of_the_particle(void **state) {
    (void)state;
    struct image t = make(0, "C1");
    struct sampling sampling = {0};
    double pixel = (double)t.pixel_size;
    assert_int_equal(sampling_create(1, NULL, 0, 1, &sampling, &err), STATUS_OK);
    assert_int_equal(t.nz, 48);
    assert_true(t.nx == t.ny && fabs(t.nx * pixel - BOX * PIXEL) < 1e-3 && pixel > 4.5 && pixel < 6);
    for (int d = 0; d < t.nz; d++) {
        const float *one = t.data + (size_t)d * (size_t)t.nx * (size_t)t.nx;
        double m[9], sum = 0, squares = 0, count = 0;
        sampling_matrix(&sampling, d * sampling.psi_count, m);
        assert_true(compare(one, t.nx, pixel, m) > 0.97);
        for (int y = 0; y < t.nx; y++)
            for (int x = 0; x < t.nx; x++) {
                double r = hypot(x - t.nx / 2, y - t.nx / 2) * pixel, value = one[y * t.nx + x];
                if (r >= RADIUS + pixel) assert_true(value == 0);
                if (r > RADIUS - 2.5 * pixel) continue;
                sum += value;
                squares += value * value;
                count++;
            }
        assert_true(fabs(sum / count) < 0.25 && fabs(sqrt(squares / count) - 1) < 0.25);
    }
    sampling_destroy(&sampling);
    image_destroy(&t);
}

/* A pattern of 8 Å ten times as strong as the particle leaves templates as they are. */
static void nothing_fine_comes_through(void **state) {
    (void)state;
    struct image plain = make(0, "C1"), fine = make(10, "C1");
    double off = 0, power = 0;
    assert_int_equal(plain.nz, fine.nz);
    for (size_t i = 0; i < image_count(&plain); i++) {
        off += pow((double)plain.data[i] - (double)fine.data[i], 2);
        power += pow((double)plain.data[i], 2);
    }
    assert_true(sqrt(off / power) < 0.05);
    image_destroy(&plain);
    image_destroy(&fine);
}

static void symmetry_spares_templates(void **state) {
    (void)state;
    struct image t = make(0, "D2");
    assert_in_range(t.nz, 12, 20);
    image_destroy(&t);
}

static void an_empty_map_makes_none(void **state) {
    (void)state;
    float *map = NULL;
    struct image templates = {0};
    assert_int_equal(mem_new((size_t)BOX * BOX * BOX, sizeof *map, "a map", &map, &err), STATUS_OK);
    const struct refiner_maps maps = {.box = BOX, .pixel_size = PIXEL, .half1 = map, .half2 = map};
    assert_int_equal(map_templates_make(&maps, RADIUS, "C1", 1, &templates, &err), STATUS_BAD_FORMAT);
    assert_null(templates.data);
    free(map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_projections_of_the_particle),
        cmocka_unit_test(nothing_fine_comes_through),
        cmocka_unit_test(symmetry_spares_templates),
        cmocka_unit_test(an_empty_map_makes_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
