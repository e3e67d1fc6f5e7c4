/* Frames of a simulated movie: what a pixel shows, how many electrons it counts, and that threads change nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/exposure/exposure.h"
#include "tests/kernels/chance.h"

enum { NX = 250, NY = 186, MARGIN = 24, WIDTH = NX + 2 * MARGIN, HEIGHT = NY + 2 * MARGIN };

static const struct exposure_task TASK = {.nx = NX, .ny = NY, .margin_x = MARGIN, .margin_y = MARGIN, .threads = 1};

/* A wave of 3.1 px along x and 4.3 px along y, which bilinear interpolation would flatten, at pixel (x, y) of the
 * corrected frame. The period in x is 0.65 of the Nyquist frequency. */
static double wave(double x, double y) {
    return 30000 + 20000 * cos(2 * M_PI * x / 3.1 + 0.3) * cos(2 * M_PI * y / 4.3);
}

static float *new_canvas(double scale) {
    float *canvas = host_new((size_t)WIDTH * HEIGHT, sizeof *canvas);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            canvas[y * WIDTH + x] = (float)(scale * wave(x - MARGIN, y - MARGIN));
    return canvas;
}

static float *new_response(float value) {
    float *response = host_new((size_t)NX * NY, sizeof *response);
    for (int i = 0; i < NX * NY; i++)
        response[i] = value;
    return response;
}

static void run(const struct exposure_task *task, const float *canvas, const float *response,
                const struct exposure_shift *shift, uint64_t key, uint16_t *counts) {
    struct err err = {0};
    struct exposure *exposure = NULL;
    must(exposure_create(task, &exposure, &err), &err);
    must(exposure_take(exposure, canvas, response, &err), &err);
    must(exposure_run(exposure, shift, key, counts, &err), &err);
    exposure_destroy(&exposure);
}

/* Returns a shift of several pixels whose local part changes by 2 px over the frame. */
static struct exposure_shift some_shift(void) {
    struct exposure_shift shift = {.x = 8 * uniform() - 4, .y = 8 * uniform() - 4};
    for (int axis = 0; axis < 2; axis++)
        for (int i = 1; i < EXPOSURE_TERMS; i++)
            shift.local[axis][i] = 2 * uniform() - 1;
    return shift;
}

/* Counts of some 30,000 electrons have noise of 0.6 %: the error of the image is averaged over all pixels. */
static void frames_show_the_moved_specimen(void **state) {
    (void)state;
    _cleanup_(mem_free) float *canvas = new_canvas(1), *response = new_response(1);
    _cleanup_(mem_free) uint16_t *counts = host_new((size_t)NX * NY, sizeof *counts);
    for (int round = 0; round < 3; round++) {
        struct exposure_shift shift = some_shift();
        double signal = 0, product = 0, error = 0;
        run(&TASK, canvas, response, &shift, 11, counts);
        for (int y = 0; y < NY; y++)
            for (int x = 0; x < NX; x++) {
                double place[2], back[2];
                exposure_place_at(&shift, NX, NY, x, y, place);
                exposure_shift_at(&shift, NX, NY, place[0], place[1], back);
                assert_true(hypot(place[0] - back[0] - x, place[1] - back[1] - y) < 1e-4); /* X − d(X) = Y */
                double expected = wave(place[0], place[1]) - 30000, found = counts[y * NX + x] - 30000.0;
                signal += expected * expected;
                product += expected * found;
                error += (found - expected) * (found - expected) - 30000;
            }
        /* Tiles of 4 px and a gradient of up to 0.03 px a pixel: 0.03 px off, 0.05 rad of the wave, at most. */
        print_message("amplitude %.4f of the true one, error %.4f of it\n", product / signal,
                      sqrt(fmax(error, 0) / signal));
        assert_true(fabs(product / signal - 1) < 0.01);
        assert_true(sqrt(fmax(error, 0) / signal) < 0.05);
    }
}

/* Mean, variance and the chance of none, for expectations on both sides of the switch to a normal distribution. */
static void counts_follow_poisson(void **state) {
    (void)state;
    static const double means[] = {0.02, 0.9, 7, 40, 63, 70, 900};
    const struct exposure_shift still = {0};
    _cleanup_(mem_free) float *canvas = host_new((size_t)WIDTH * HEIGHT, sizeof *canvas);
    _cleanup_(mem_free) float *response = new_response(0.5f);
    _cleanup_(mem_free) uint16_t *counts = host_new((size_t)NX * NY, sizeof *counts);
    for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
        double mean = means[m], sum = 0, squares = 0, none = 0, pixels = (double)NX * NY;
        for (int i = 0; i < WIDTH * HEIGHT; i++)
            canvas[i] = (float)(2 * mean);
        run(&TASK, canvas, response, &still, (uint64_t)(1e18 * uniform()), counts);
        for (int i = 0; i < NX * NY; i++) {
            sum += counts[i];
            squares += (counts[i] - mean) * (counts[i] - mean);
            none += counts[i] == 0;
        }
        /* Five standard errors; the variance of the squared deviation is 2 m² + m. */
        assert_true(fabs(sum / pixels - mean) < 5 * sqrt(mean / pixels));
        assert_true(fabs(squares / pixels - mean) < 5 * sqrt((2 * mean * mean + mean) / pixels));
        assert_true(fabs(none / pixels - exp(-mean)) < 5 * sqrt(exp(-mean) / pixels) + 1e-9);
    }
}

static void dead_pixels_count_nothing(void **state) {
    (void)state;
    const struct exposure_shift still = {0};
    _cleanup_(mem_free) float *canvas = new_canvas(1), *response = new_response(0);
    _cleanup_(mem_free) uint16_t *counts = host_new((size_t)NX * NY, sizeof *counts);
    memset(counts, 0xff, (size_t)NX * NY * sizeof *counts);
    run(&TASK, canvas, response, &still, 3, counts);
    for (int i = 0; i < NX * NY; i++)
        assert_int_equal(counts[i], 0);
}

static void threads_change_nothing_and_keys_change_all(void **state) {
    (void)state;
    struct exposure_task many = TASK;
    many.threads = 3;
    const struct exposure_shift shift = some_shift();
    _cleanup_(mem_free) float *canvas = new_canvas(1e-4), *response = new_response(1);
    _cleanup_(mem_free) uint16_t *one = host_new((size_t)NX * NY, sizeof *one);
    _cleanup_(mem_free) uint16_t *three = host_new((size_t)NX * NY, sizeof *three);
    run(&TASK, canvas, response, &shift, 5, one);
    run(&many, canvas, response, &shift, 5, three);
    assert_memory_equal(one, three, (size_t)NX * NY * sizeof *one);
    run(&TASK, canvas, response, &shift, 6, three);
    double products = 0;
    for (int i = 0; i < NX * NY; i++) /* the wave itself correlates: take it away */ {
        double place[2];
        exposure_place_at(&shift, NX, NY, i % NX, i / NX, place);
        double mean = 1e-4 * wave(place[0], place[1]);
        products += (one[i] - mean) * (three[i] - mean) / mean;
    }
    assert_true(fabs(products) < 5 * sqrt((double)NX * NY));
}

static void a_shift_out_of_the_image_is_refused(void **state) {
    (void)state;
    struct err err = {0};
    struct exposure *exposure = NULL;
    const struct exposure_shift far = {.x = MARGIN - 2};
    _cleanup_(mem_free) float *canvas = new_canvas(1), *response = new_response(1);
    _cleanup_(mem_free) uint16_t *counts = host_new((size_t)NX * NY, sizeof *counts);
    must(exposure_create(&TASK, &exposure, &err), &err);
    must(exposure_take(exposure, canvas, response, &err), &err);
    assert_int_equal(exposure_run(exposure, &far, 1, counts, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "leads out of the image"));
    exposure_destroy(&exposure);
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : "1");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_show_the_moved_specimen),
        cmocka_unit_test(counts_follow_poisson),
        cmocka_unit_test(dead_pixels_count_nothing),
        cmocka_unit_test(threads_change_nothing_and_keys_change_all),
        cmocka_unit_test(a_shift_out_of_the_image_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
