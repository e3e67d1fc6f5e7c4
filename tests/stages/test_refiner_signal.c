/* Tests that the refiner calls noise noise, whatever reference and seed, and no particles, however few or poor; also
 * once particles have come, and in all that a run writes. test_refiner_signal [FIRST LAST]: seeds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/few_blobs.h"
#include "tests/stages/refiner_runs.h"

enum { BLOBS = 14, VOXELS = BOX * BOX * BOX };
static struct object object, foreign;
static const struct object nothing;
static int first_seed = 1, last_seed = 1;

struct world {
    char scratch[PATH_SIZE], reference[PATH_SIZE], foreign[PATH_SIZE];
};

static void prepare(struct world *w, const char *name, int seed) {
    static float map[VOXELS];
    scratch_path(name, w->scratch);
    assert_int_equal(file_make_folders(w->scratch, 0755, NULL), STATUS_OK);
    srand((unsigned)seed);
    make_object(&object, BLOBS);
    make_object(&foreign, BLOBS);
    make_map(&object, map, SIGMA);
    write_map(w->scratch, "reference.mrc", map, w->reference);
    make_map(&foreign, map, SIGMA);
    write_map(w->scratch, "foreign.mrc", map, w->foreign);
}

/* Returns the noise that gives images this ratio of the signal's variance inside the particle to the noise's. */
static double noise_of(double snr) {
    enum { IMAGES = 8 };
    double sum = 0, squares = 0, pixels = 0;
    for (int i = 0; i < IMAGES; i++) {
        static float image[BOX * BOX];
        memset(image, 0, sizeof image);
        make_image(&object, image, 0, 0, 0);
        for (int y = -11; y <= 11; y++)
            for (int x = -11; x <= 11; x++) {
                double value = image[(y + BOX / 2) * BOX + x + BOX / 2];
                if (x * x + y * y <= 121) sum += value, squares += value * value, pixels++;
            }
    }
    return sqrt((squares / pixels - sum / pixels * sum / pixels) / snr);
}

struct trial {
    const char *reference;
    double lowpass;
    int particles, classes;
    double noise; /* 0: noise alone */
};

/* Returns what the first iteration says. */
static struct refiner_state state_of(const struct world *w, const struct trial *t, int seed) {
    struct refiner *refiner = NULL;
    struct star_file *file = NULL;
    struct err err = {0};
    char path[PATH_SIZE];
    struct refiner_options options = few_blobs_options();
    options.reference = (char *)(uintptr_t)t->reference;
    options.diameter = 140;
    options.initial_lowpass = t->lowpass;
    options.classes = t->classes;
    options.healpix_order = 1;
    options.seed = seed;
    write_particles(w->scratch, "a", t->noise > 0 ? &object : &nothing, 1, t->particles, t->noise > 0 ? t->noise : 1);
    assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 2}, &refiner, NULL), STATUS_OK);
    assert_int_equal(path_join(w->scratch, "a.star", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    assert_int_equal(refiner_merge(refiner, &file, path, false, NULL, NULL), STATUS_OK);
    if (refiner_begin(refiner, &(struct refiner_iteration){.max_order = 1}, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    const struct refiner_state s = refiner_state(refiner);
    print_message("seed %d: %d particles, noise %.3g, low-pass %g Å, %d classes: %.2f\n", seed, t->particles, t->noise,
                  t->lowpass, t->classes, s.signal);
    refiner_destroy(&refiner);
    return s;
}

static void noise_is_noise(void **state) {
    (void)state;
    for (int seed = first_seed; seed <= last_seed; seed++) {
        struct world w;
        prepare(&w, "noise", seed);
        const struct trial trials[] = {{w.reference, 60, 150, 1, 0}, {w.reference, 40, 300, 1, 0},
                                       {w.reference, 13, 150, 1, 0}, {w.reference, 20, 150, 3, 0},
                                       {w.reference, 60, 10, 1, 0},  {w.reference, 50, 2000, 1, 0}};
        for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
            if (trials[i].particles > 300 && seed == first_seed) continue; /* takes long: with more seeds only */
            const struct refiner_state s = state_of(&w, &trials[i], seed);
            if (!s.noise) fail_msg("seed %d: noise is taken for particles by %.2f deviations", seed, s.signal);
        }
    }
}

static void poor_particles_are_no_noise(void **state) {
    (void)state;
    for (int seed = first_seed; seed <= last_seed; seed++) {
        struct world w;
        prepare(&w, "poor", seed);
        const struct trial trials[] = {
            {w.reference, 60, 20, 1, noise_of(0.3)},   {w.reference, 40, 100, 1, noise_of(0.3)},
            {w.reference, 60, 150, 1, noise_of(0.05)}, {w.foreign, 60, 150, 1, noise_of(0.05)},
            {w.foreign, 40, 50, 1, noise_of(0.3)},     {w.reference, 20, 150, 3, noise_of(0.05)}};
        for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
            const struct refiner_state s = state_of(&w, &trials[i], seed);
            if (s.noise || !(s.signal > 0)) fail_msg("seed %d: particles are taken for noise: %.2f", seed, s.signal);
        }
    }
}

/* Returns the last line of the history. */
static void last_line(const char *folder, char **ret_text, const char **ret_line) {
    char path[PATH_SIZE];
    size_t length;
    assert_int_equal(path_join(folder, "history.jsonl", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(file_read_whole(path, 1 << 20, ret_text, &length, NULL), STATUS_OK);
    *ret_line = *ret_text;
    for (const char *at = *ret_text; (at = strstr(at, "{\"time\"")) != NULL; at++)
        *ret_line = at;
}

/* 60 images of noise, and in a second run 140 of particles beside them. */
static void particles_that_come_later_count(void **state) {
    (void)state;
    struct world w;
    char folder[PATH_SIZE + 16], *text = NULL;
    const char *line;
    prepare(&w, "later", 1);
    snprintf(folder, sizeof folder, "%s/refiner", w.scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    write_particles(w.scratch, "noise", &nothing, 1, 60, 1);
    struct item *first[] = {particles_item("noise", "particles", w.scratch)};
    run_within(w.scratch, w.reference, "140", "1", "10", first, 1);
    last_line(folder, &text, &line);
    assert_non_null(strstr(line, "\"final\": true"));
    assert_non_null(strstr(line, "\"noise\": true"));
    free(text);
    write_particles(w.scratch, "more", &object, 1, 140, 1);
    struct item *both[] = {particles_item("noise", "particles", w.scratch),
                           particles_item("more", "particles", w.scratch)};
    run_within(w.scratch, w.reference, "140", "1", "10", both, 2);
    last_line(folder, &text, &line);
    assert_non_null(strstr(line, "\"particles\": 200"));
    assert_non_null(strstr(line, "\"noise\": false"));
    free(text);
}

int main(int argc, char **argv) {
    if (argc == 3) first_seed = atoi(argv[1]), last_seed = atoi(argv[2]);
    print_message("seeds %d to %d\n", first_seed, last_seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_noise),
        cmocka_unit_test(poor_particles_are_no_noise),
        cmocka_unit_test(particles_that_come_later_count),
    };
    return scratch_run("refiner-signal", tests, sizeof tests / sizeof *tests);
}
