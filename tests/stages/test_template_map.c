/* Compares projections of a map of Gaussian blobs with the exact ones: place, handedness, grey scale, directions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/sampling/sampling.h"
#include "kernels/views/views.h"
#include "stages/lowpass-picker/template_map.h"

enum { BOX = 40, BLOBS = 3 };
static const double SIGMA = 2.5;
static const struct { double x, y, z, height; } blobs[BLOBS] = {{6, 1, -3, 1}, {-4, 5, 2, 0.6}, {0, -7, 5, -0.4}};

static void draw(struct image *map) {
    struct err err = {0};
    assert_int_equal(image_resize(map, BOX, BOX, BOX, &err), STATUS_OK);
    map->pixel_size = 3;
    for (int z = 0; z < BOX; z++)
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++) {
                double sum = 0;
                for (int b = 0; b < BLOBS; b++) {
                    double dx = x - BOX / 2 - blobs[b].x, dy = y - BOX / 2 - blobs[b].y, dz = z - BOX / 2 - blobs[b].z;
                    sum += blobs[b].height * exp(-(dx * dx + dy * dy + dz * dz) / (2 * SIGMA * SIGMA));
                }
                map->data[(z * BOX + y) * BOX + x] = (float)sum;
            }
}

/* Projects a map, as an image. */
static enum status project(const struct image *map, const char *symmetry, int threads, struct image *ret_templates) {
    struct err err = {0};
    float *views = NULL;
    int count = 0;
    TRY(views_project(map->data, map->nx, symmetry, threads, &views, &count, &err));
    *ret_templates = (struct image){.nx = map->nx, .ny = map->nx, .nz = count, .data = views};
    return STATUS_OK;
}

static void projections_are_exact(void **state) {
    (void)state;
    struct image map = {0}, templates = {0};
    struct err err = {0};
    struct sampling sampling = {0};
    draw(&map);
    assert_int_equal(project(&map, "C1", 2, &templates), STATUS_OK);
    assert_int_equal(sampling_create(1, NULL, 0, 1, &sampling, &err), STATUS_OK);
    assert_int_equal(templates.nz, 48);
    assert_int_equal(templates.nx, BOX);
    for (int d = 0; d < templates.nz; d++) {
        double m[9], off = 0, power = 0;
        sampling_matrix(&sampling, d * sampling.psi_count, m);
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++) {
                double exact = 0;
                for (int b = 0; b < BLOBS; b++) {
                    double u = m[0] * blobs[b].x + m[1] * blobs[b].y + m[2] * blobs[b].z;
                    double v = m[3] * blobs[b].x + m[4] * blobs[b].y + m[5] * blobs[b].z;
                    double i = x - BOX / 2 - u, j = y - BOX / 2 - v;
                    exact += blobs[b].height * sqrt(2 * M_PI) * SIGMA * exp(-(i * i + j * j) / (2 * SIGMA * SIGMA));
                }
                double difference = templates.data[(d * BOX + y) * BOX + x] - exact;
                off += difference * difference;
                power += exact * exact;
            }
        /* Trilinear interpolation of the transform leaves about a hundredth. */
        assert_true(sqrt(off / power) < 0.03);
    }
    sampling_destroy(&sampling);
    image_destroy(&templates);
    image_destroy(&map);
}

static void symmetry_spares_directions(void **state) {
    (void)state;
    struct image map = {0}, templates = {0};
    draw(&map);
    assert_int_equal(project(&map, "D2", 1, &templates), STATUS_OK);
    assert_true(templates.nz >= 12 && templates.nz <= 20);
    image_destroy(&templates);
    assert_int_not_equal(project(&map, "Q7", 1, &templates), STATUS_OK);
    assert_null(templates.data);
    image_destroy(&map);
}

static void maps_are_told_from_stacks(void **state) {
    (void)state;
    struct image cube = {.nx = 64, .ny = 64, .nz = 64}, stack = {.nx = 64, .ny = 64, .nz = 10};
    assert_true(template_map_is_one("reference.mrc", &cube));
    assert_true(template_map_is_one("emd_1.map.gz", &cube));
    assert_false(template_map_is_one("classes.mrcs", &cube));
    assert_false(template_map_is_one("classes.st", &cube));
    assert_false(template_map_is_one("classes.mrc", &stack));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(projections_are_exact),
        cmocka_unit_test(symmetry_spares_directions),
        cmocka_unit_test(maps_are_told_from_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
