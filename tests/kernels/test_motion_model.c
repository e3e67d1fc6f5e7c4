/* The model of motion and the checks of its arguments, without any alignment. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/motion/motion_private.h"

enum { NX = 400, NY = 300, FRAMES = 7 };

static struct motion_task task(void) {
    return (struct motion_task){.nx = NX,
                                .ny = NY,
                                .frames = FRAMES,
                                .pixels = MOTION_U8,
                                .align = {.bfactor = 150,
                                          .patches_x = 1,
                                          .patches_y = 1,
                                          .group = 1,
                                          .search = 50,
                                          .iterations = 5,
                                          .tolerance = 0.5},
                                .threads = 1};
}

/* Coefficient i of an axis multiplies z^(1 + i mod 3) and spatial term i / 3: checked one by one. */
static void coefficients_stand_in_relions_order(void **state) {
    (void)state;
    struct err err = {0};
    struct motion_model model = {0};
    assert_int_equal(motion_model_resize(&model, NX, NY, FRAMES, &err), STATUS_OK);
    const double x = 130, y = 40, u = x / NX - 0.5, v = y / NY - 0.5;
    const double space[] = {1, u, u * u, v, v * v, u * v};
    model.x[5] = 1.5F;
    model.y[5] = -2.25F;
    model.local = true;
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < MOTION_COEFFICIENTS; i++) {
            double shift[2], expected[2] = {1.5, -2.25};
            memset(model.coefficients, 0, sizeof model.coefficients);
            model.coefficients[axis][i] = 0.125;
            expected[axis] += 0.125 * pow(5, 1 + i % 3) * space[i / 3];
            motion_model_at(&model, x, y, 5, shift);
            assert_true(fabs(shift[0] - expected[0]) < 1e-9 && fabs(shift[1] - expected[1]) < 1e-9);
            motion_model_at(&model, x, y, 0, shift);
            assert_true(shift[0] == 0 && shift[1] == 0);
        }
    model.local = false;
    double shift[2];
    motion_model_at(&model, x, y, 5, shift);
    assert_true(shift[0] == 1.5 && shift[1] == -2.25);
    motion_model_clear(&model);
    assert_null(model.x);
}

static void a_resized_model_is_zero(void **state) {
    (void)state;
    struct err err = {0};
    struct motion_model model = {0};
    assert_int_equal(motion_model_resize(&model, NX, NY, FRAMES, &err), STATUS_OK);
    model.x[3] = model.y[2] = 9;
    model.local = true;
    model.coefficients[1][4] = 9;
    assert_int_equal(motion_model_resize(&model, NX, NY, FRAMES, &err), STATUS_OK);
    for (int j = 0; j < FRAMES; j++) {
        double shift[2];
        motion_model_at(&model, 0, 0, j, shift);
        assert_true(shift[0] == 0 && shift[1] == 0);
    }
    assert_int_equal(motion_model_resize(&model, NX, NY, 2 * FRAMES, &err), STATUS_OK);
    assert_true(model.x[2 * FRAMES - 1] == 0);
    motion_model_clear(&model);
}

static void sides_of_a_sum_are_even(void **state) {
    (void)state;
    int nx, ny;
    motion_sum_size(5760, 4092, 1, &nx, &ny);
    assert_true(nx == 5760 && ny == 4092);
    motion_sum_size(11520, 8184, 2, &nx, &ny);
    assert_true(nx == 5760 && ny == 4092);
    motion_sum_size(4096, 4096, 1.5, &nx, &ny);
    assert_true(nx == 2730 && ny == 2730);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    struct err err = {0};
    struct motion *motion = NULL;
    struct motion_task wrong[] = {task(), task(), task(), task(), task(), task()};
    wrong[0].nx = 10;
    wrong[1].frames = 0;
    wrong[2].align.bfactor = NAN;
    wrong[3].align.group = 0;
    wrong[4].align.patches_x = 7;
    wrong[5].align.search = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(motion_create(&wrong[i], &motion, &err), STATUS_BAD_ARGUMENT);

    struct motion_task right = task();
    assert_int_equal(motion_create(&right, &motion, &err), STATUS_OK);
    struct motion_model model = {0};
    assert_int_equal(motion_align(motion, &model, NULL, &err), STATUS_BAD_STATE);
    struct motion_frames frames = {.nx = NY, .ny = NX, .count = FRAMES, .pixels = MOTION_U8};
    assert_int_equal(motion_take(motion, &frames, &err), STATUS_BAD_ARGUMENT);
    frames = (struct motion_frames){.nx = NX, .ny = NY, .count = FRAMES, .pixels = MOTION_U16};
    assert_int_equal(motion_take(motion, &frames, &err), STATUS_BAD_ARGUMENT);
    motion_model_clear(&model);
    motion_destroy(&motion);
    assert_null(motion);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coefficients_stand_in_relions_order),
        cmocka_unit_test(a_resized_model_is_zero),
        cmocka_unit_test(sides_of_a_sum_are_even),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
