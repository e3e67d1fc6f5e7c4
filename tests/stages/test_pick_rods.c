/* Tests that a range of diameters finds long particles without templates: an ellipse finds rods that round shapes miss. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stages/lowpass-picker/lowpass_picker.h"

enum { SIDE = 500, PIXELS = SIDE * SIDE, CELL = 83, RODS = (SIDE / CELL) * (SIDE / CELL) };
/* Å, and Å/px; a pick lies so near to the middle of its rod. */
static const double LENGTH = 240, WIDTH = 60, PIXEL = 4, REACH = 0.2 * 240;
/* Of the projection's middle, in deviations of the noise. */
static const float CONTRAST = 0.65f;

static uint64_t seed = 4711;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static float gauss(void) {
    double u = uniform(), v = uniform();
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

struct rod {
    double x, y; /* px */
};

/* Draws dark cylinders in random directions, one in each cell of a grid. */
static void draw(float *micrograph, struct rod *rods) {
    for (int i = 0; i < PIXELS; i++)
        micrograph[i] = gauss();
    for (int r = 0; r < RODS; r++) {
        double angle = M_PI * uniform(), c = cos(angle), s = sin(angle);
        rods[r].x = CELL * (r % (SIDE / CELL) + 0.5) + 10 * uniform();
        rods[r].y = CELL * (r / (SIDE / CELL) + 0.5) + 10 * uniform();
        for (int i = 0; i < PIXELS; i++) {
            double x = (i % SIDE - rods[r].x) * PIXEL, y = (i / SIDE - rods[r].y) * PIXEL;
            double along = c * x + s * y, across = 2 * (c * y - s * x) / WIDTH;
            if (fabs(along) < LENGTH / 2 && fabs(across) < 1)
                micrograph[i] -= CONTRAST * (float)sqrt(1 - across * across);
        }
    }
}

/* Returns F1 of the picks with the automatic threshold. */
static double f1_of(const struct lowpass_picker_options *options, const float *micrograph, const struct rod *rods) {
    struct lowpass_picker_task task = {.options = options,
                                       .method = PICKER_LOG,
                                       .nx = SIDE,
                                       .ny = SIDE,
                                       .pixel_size = PIXEL,
                                       .threads = 1,
                                       .device = {.kind = DEVICE_CPU}};
    struct search_input input = {.host = micrograph};
    struct lowpass_picker *picker = NULL;
    struct pick_maps maps = {0};
    struct pick_scratch scratch = {0};
    struct pick_list picks = {0};
    struct err err = {0};
    assert_int_equal(lowpass_picker_create(&task, NULL, &picker, &err), STATUS_OK);
    assert_int_equal(lowpass_picker_search(picker, &input, NULL, 1, &maps, &err), STATUS_OK);
    assert_int_equal(pick_choose(&maps, &options->rules, &scratch, &picks, &err), STATUS_OK);
    int found = 0;
    for (int r = 0; r < RODS; r++) {
        bool near = false;
        for (size_t i = 0; i < picks.count; i++)
            near |= hypot(picks.items[i].x - rods[r].x, picks.items[i].y - rods[r].y) * PIXEL < REACH;
        found += near;
    }
    double f1 = 2.0 * found / ((double)picks.count + RODS);
    print_message("%zu picks, %d of %d rods: F1 %.3f\n", picks.count, found, RODS, f1);
    pick_list_destroy(&picks);
    pick_scratch_destroy(&scratch);
    search_maps_clear(&maps.maps);
    lowpass_picker_destroy(&picker);
    return f1;
}

static void ellipses_find_rods(void **state) {
    (void)state;
    static float micrograph[PIXELS];
    struct rod rods[RODS];
    const struct pick_rules rules = {.prune = PICK_PRUNE_GREEDY,
                                     .threshold = NAN,
                                     .min_distance = NAN,
                                     .max_stddev_noise = NAN,
                                     .mask_contamination = true,
                                     .contamination_threshold = CONTAMINATION_THRESHOLD};
    struct lowpass_picker_options options = {
        .diameter = 120, .lowpass = 20, .angle_step = 5, .invert = true, .rules = rules};
    draw(micrograph, rods);
    double round = f1_of(&options, micrograph, rods);
    options.diameter = NAN;
    options.log_diameter = (struct param_floats){.count = 2, .values = {60, 240}};
    double elongated = f1_of(&options, micrograph, rods);
    assert_true(elongated > 0.85);
    assert_true(round < elongated - 0.2);
}

int main(void) {
    print_message("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(ellipses_find_rods)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
