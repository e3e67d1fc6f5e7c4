/* Tests that drop_find finds drops of known position, whatever they contain, and refuses pictures without a drop. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "examples/drops/drops.h"
#include "kernels/drop_find/drop_find.h"

enum { SIZE = 320, EACH = 6 };
static const uint64_t SEED = 4711;

static void to_floats(const uint8_t *pixels, float *picture, int count) {
    for (int i = 0; i < count; i++)
        picture[i] = (float)pixels[i];
}

static void drops_are_found(void **state) {
    (void)state;
    struct drop_scene scene = {SIZE, SEED};
    struct drop_painter *painter = NULL;
    struct drop_find *find = NULL;
    uint8_t *pixels = malloc((size_t)SIZE * SIZE);
    float *picture = malloc(sizeof(float) * SIZE * SIZE);
    double worst = 0;
    printf("seed %llu\n", (unsigned long long)SEED);
    assert_int_equal(drop_painter_create(&scene, &painter, NULL), STATUS_OK);
    assert_int_equal(drop_find_create(&find, NULL), STATUS_OK);
    for (int kind = 0; kind < DROP_KINDS; kind++)
        for (int i = 0; i < EACH; i++) {
            struct drop_truth truth;
            struct drop_circle circle = {0};
            struct err err = {0};
            drop_paint(painter, (enum drop_kind)kind, (uint64_t)i, pixels, &truth);
            to_floats(pixels, picture, SIZE * SIZE);
            if (drop_find_run(find, picture, SIZE, SIZE, &circle, &err) != STATUS_OK) fail_msg("%s", err.message);
            double away = hypot(circle.x - (double)truth.x, circle.y - (double)truth.y);
            worst = fmax(worst, away);
            /* The allowed error is half a pixel of the reduced picture (at 320 px: of the picture itself) and the width
             * of the rim. */
            if (!(away < 2.5)) fail_msg("%s %d: %g px off", drop_kind_name((enum drop_kind)kind), i, away);
            /* The circle is the inner or outer edge of the rim, or the edge of the well, which is a quarter larger. */
            assert_false(circle.fills);
            assert_true(circle.radius > 0.93 * (double)truth.radius && circle.radius < 1.3 * (double)truth.radius);
        }
    printf("the worst is %.2f px off\n", worst);
    drop_find_destroy(&find);
    drop_painter_destroy(&painter);
    free(picture);
    free(pixels);
}

/* Finds a disc in a large picture that does not hold the whole disc. */
static void large_and_cut(void **state) {
    (void)state;
    enum { NX = 1280, NY = 960 };
    float *picture = malloc(sizeof(float) * NX * NY);
    struct drop_find *find = NULL;
    struct drop_circle circle = {0};
    assert_int_equal(drop_find_create(&find, NULL), STATUS_OK);
    for (int i = 0; i < NX * NY; i++)
        picture[i] = hypot(i % NX - 700.0, i / NX - 530.0) < 480 ? 50 : 10; /* 50 px lie below the picture */
    assert_int_equal(drop_find_run(find, picture, NX, NY, &circle, NULL), STATUS_OK);
    printf("%.2f, %.2f, radius %.2f, support %.2f\n", circle.x, circle.y, circle.radius, circle.support);
    /* drop_find works on a reduced picture: one of its pixels is four pixels here. Smoothing makes the edge about 4
     * reduced pixels wide. */
    assert_true(fabs(circle.x - 700) < 4 && fabs(circle.y - 530) < 4 && fabs(circle.radius - 480) < 16);
    assert_true(circle.support > 0.9);
    drop_find_destroy(&find);
    free(picture);
}

static void painted_polygon(float *picture, int nx, int ny, double x0, double y0, double size, double turn) {
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            double reach = 0;
            for (int k = 0; k < 6; k++)
                reach = fmax(reach, (x - x0) * cos(turn + k * M_PI / 3) + (y - y0) * sin(turn + k * M_PI / 3));
            if (reach < size) picture[y * nx + x] += reach > size - 4 ? -40 : 8;
        }
}

/* Draws crystals on uneven light without an edge of the drop: the drop is larger than the picture. drop_find returns
 * the middle of the picture. */
static void within_a_drop(void **state) {
    (void)state;
    enum { NX = 640, NY = 480 };
    float *picture = malloc(sizeof(float) * NX * NY);
    struct drop_find *find = NULL;
    struct random random = random_stream(SEED, 1, 0);
    assert_int_equal(drop_find_create(&find, NULL), STATUS_OK);
    for (int trial = 0; trial < 4; trial++) {
        struct drop_circle circle = {0};
        struct err err = {0};
        for (int i = 0; i < NX * NY; i++)
            picture[i] = 120 + 0.05F * (float)(i % NX) + 3 * (float)random_normal(&random);
        for (int k = 0; k < 20; k++)
            painted_polygon(picture, NX, NY, random_uniform(&random, 0, NX), random_uniform(&random, 0, NY),
                            random_uniform(&random, 10, 28), random_uniform(&random, 0, M_PI));
        if (drop_find_run(find, picture, NX, NY, &circle, &err) != STATUS_OK) fail_msg("%s", err.message);
        assert_true(circle.fills && circle.support < DROP_FIND_SUPPORT);
        assert_true(circle.x == (NX - 1) / 2.0 && circle.y == (NY - 1) / 2.0 && circle.radius == NY / 2.0);
    }
    drop_find_destroy(&find);
    free(picture);
}

static void no_drop(void **state) {
    (void)state;
    float *picture = calloc((size_t)SIZE * SIZE, sizeof(float));
    struct drop_find *find = NULL;
    struct drop_circle circle = {.x = -7};
    struct err err = {0};
    struct random random = random_stream(SEED, 0, 0);
    assert_int_equal(drop_find_create(&find, NULL), STATUS_OK);
    assert_int_equal(drop_find_run(find, picture, SIZE, SIZE, &circle, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "no drop found"));
    for (int trial = 0; trial < 8; trial++) {
        for (int i = 0; i < SIZE * SIZE; i++)
            picture[i] = (float)random_normal(&random) + (trial % 2 == 0 ? 0.1F * (float)(i % SIZE) : 0);
        assert_int_equal(drop_find_run(find, picture, SIZE, SIZE, &circle, &err), STATUS_NOT_FOUND);
    }
    for (int i = 0; i < SIZE * SIZE; i++) /* lines have no circle */
        picture[i] = i % SIZE % 40 < 20 ? 1 : 0;
    assert_int_equal(drop_find_run(find, picture, SIZE, SIZE, &circle, &err), STATUS_NOT_FOUND);
    for (int i = 0; i < SIZE * SIZE; i++) { /* an empty field: uneven light, and noise of the camera */
        double u = (i % SIZE - 100) / 160.0, v = (i / SIZE - 180) / 160.0;
        picture[i] = (float)floor(140 - 25 * (u * u + v * v) + 1.5 * random_normal(&random));
    }
    assert_int_equal(drop_find_run(find, picture, SIZE, SIZE, &circle, &err), STATUS_NOT_FOUND);
    assert_int_equal(drop_find_run(find, picture, 40, 300, &circle, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "40 × 300"));
    assert_true(circle.x == -7);
    drop_find_destroy(&find);
    free(picture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drops_are_found),
        cmocka_unit_test(large_and_cut),
        cmocka_unit_test(within_a_drop),
        cmocka_unit_test(no_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
