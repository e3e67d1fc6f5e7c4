/* Tests that scores without templates are comparable all over a micrograph: a tilt of the illumination and gold beside
 * the ice leave them as they are, and rough carbon has no higher ones than ice. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stages/lowpass-picker/lowpass_picker.h"

enum { SIDE = 400, PIXELS = SIDE * SIDE, FILM = 320, CLEAR = 240, MARGIN = 20 };

/* Deviation of the grains of carbon, in that of the noise. */
static const float GRAIN = 0.17f;

static const uint64_t SEED = 4711;
static uint64_t seed;
static struct lowpass_picker *picker;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static float gauss(void) {
    double u = uniform(), v = uniform();
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

static int create(void **state) {
    (void)state;
    static const struct lowpass_picker_options options = {
        .diameter = 100, .lowpass = 20, .angle_step = 5, .invert = true};
    struct lowpass_picker_task task = {.options = &options,
                                       .method = PICKER_LOG,
                                       .nx = SIDE,
                                       .ny = SIDE,
                                       .pixel_size = 4,
                                       .threads = 1,
                                       .device = {.kind = DEVICE_CPU}};
    struct err err = {0};
    enum status status = lowpass_picker_create(&task, NULL, &picker, &err);
    if (status != STATUS_OK) print_message("%s\n", err.message);
    return status != STATUS_OK;
}

static int destroy(void **state) {
    (void)state;
    lowpass_picker_destroy(&picker);
    return 0;
}

static void search(const float *micrograph, struct pick_maps *maps) {
    struct err err = {0};
    struct search_input input = {.host = micrograph};
    assert_int_equal(lowpass_picker_search(picker, &input, NULL, 1, maps, &err), STATUS_OK);
}

/* Mean square of the scores, less `other` ones unless NULL, where the micrograph's x lies from x0 to x1. */
static double squares(const struct pick_maps *maps, const struct pick_maps *other, int x0, int x1) {
    int work = maps->geometry.work, count = 0, margin = MARGIN * work / SIDE;
    double sum = 0;
    for (int y = margin; y < work - margin; y++)
        for (int x = x0 * work / SIDE; x < x1 * work / SIDE; x++) {
            double off = maps->maps.score[y * work + x] - (other ? other->maps.score[y * work + x] : 0);
            sum += off * off;
            count++;
        }
    return sum / count;
}

static void draw_ice(float *micrograph) {
    seed = SEED;
    for (int i = 0; i < PIXELS; i++)
        micrograph[i] = 100 + gauss();
}

/* Gold of `depth` deviations begins at x = film. Returns the changed part of the scores' power from x0 to x1. */
static double changed_by_gold(float depth, int film, int x0, int x1) {
    static float micrograph[PIXELS];
    struct pick_maps flat = {0}, tilted = {0};
    draw_ice(micrograph);
    search(micrograph, &flat);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            micrograph[y * SIDE + x] += (x > film ? -depth : 0) + 0.01f * (float)y;
    search(micrograph, &tilted);
    double changed = squares(&tilted, &flat, x0, x1) / squares(&flat, NULL, x0, x1);
    print_message("gold from %d px on: %.4f of the scores' power has changed\n", film, changed);
    search_maps_clear(&flat.maps);
    search_maps_clear(&tilted.maps);
    return changed;
}

static void gold_and_light_change_no_scores(void **state) {
    (void)state;
    /* The deviation of the noise is measured again, and low-passed gold has ripples. */
    assert_true(changed_by_gold(20, FILM, MARGIN, CLEAR) < 0.1);
}

/* Taken for the ice, gold would make scores there thousands of times as great. What is left are its ripples. */
static void most_of_a_micrograph_may_be_gold(void **state) {
    (void)state;
    assert_true(changed_by_gold(80, 180, 70, 110) < 2);
}

static void scores_of_carbon_are_those_of_ice(void **state) {
    (void)state;
    static float micrograph[PIXELS], grains[PIXELS];
    struct pick_maps maps = {0};
    draw_ice(micrograph);
    for (int i = 0; i < PIXELS; i++)
        grains[i] = GRAIN * gauss();
    /* A grain has 3² px. */
    for (int y = 1; y < SIDE - 1; y++)
        for (int x = FILM - MARGIN; x < SIDE - 1; x++)
            for (int i = 0; i < 9; i++)
                micrograph[y * SIDE + x] += grains[(y + i / 3 - 1) * SIDE + x + i % 3 - 1];
    search(micrograph, &maps);
    double ratio = sqrt(squares(&maps, NULL, FILM, SIDE - MARGIN) / squares(&maps, NULL, MARGIN, CLEAR));
    print_message("scores on carbon: %.2f of those on ice\n", ratio);
    assert_true(ratio > 0.7 && ratio < 1.3);
    search_maps_clear(&maps.maps);
}

int main(void) {
    print_message("seed %llu\n", (unsigned long long)SEED);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gold_and_light_change_no_scores),
        cmocka_unit_test(most_of_a_micrograph_may_be_gold),
        cmocka_unit_test(scores_of_carbon_are_those_of_ice),
    };
    return cmocka_run_group_tests(tests, create, destroy);
}
