/* Tests the refiner as a stage. A small asymmetric object, projected here by sums over Gaussians (without code under
 * test), comes back from noisy images, with its handedness and origins. Particles arrive and leave in groups. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/formats/star.h"
#include "common/harness/stage.h"
#include "common/harness/stage_private.h"
#include "kernels/fsc/fsc.h"
#include "stages/refiner/refiner.h"
#include "stages/refiner/refiner_private.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/refiner_runs.h"

enum { BLOBS = 14 };
static struct object object;

/* Writes empty images, for tests that do not refine them. */
static void write_plain(const char *folder, const char *name, int box, double pixel_size, int count,
                        const char *image) {
    char path[PATH_SIZE + 64];
    float *stack = calloc((size_t)(count * box * box), sizeof *stack);
    const struct image images = {.nx = box, .ny = box, .nz = count, .pixel_size = (float)pixel_size, .data = stack};
    snprintf(path, sizeof path, "%s/%s.mrcs", folder, name);
    assert_int_equal(mrc_write(path, &images, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
    free(stack);
    snprintf(path, sizeof path, "%s/%s.star", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "data_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnImagePixelSize #2\n1 %g\n\n"
            "data_particles\n\nloop_\n_%s #1\n_rlnOpticsGroup #2\n_rlnDefocusU #3\n",
            pixel_size, image);
    for (int i = 0; i < count; i++)
        fprintf(f, "%06d@%s.mrcs 1 12000\n", i + 1, name);
    assert_int_equal(fclose(f), 0);
}

static void run(const char *folder, const char *reference, const char *iterations, struct item **items, size_t count) {
    run_within(folder, reference, "150", iterations, "50", items, count);
}

static size_t rows_of(const char *folder, const char *name) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    struct star_table *t = star_table_find(file, "particles");
    assert_non_null(t);
    size_t rows = star_row_count(t);
    assert_true(star_column_find(t, "ownColumn") >= 0 && star_column_find(t, "rlnAngleTilt") >= 0);
    star_destroy(&file);
    return rows;
}

static void an_object_comes_back_from_its_images(void **state) {
    (void)state;
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE];
    static float truth[BOX * BOX * BOX], map[BOX * BOX * BOX], half[BOX * BOX * BOX];
    float fsc[BOX / 2 + 1];
    scratch_path("object", scratch);
    snprintf(folder, sizeof folder, "%s/refiner", scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    srand(5);
    make_object(&object, BLOBS);
    make_map(&object, truth, SIGMA);
    for (int i = 0; i < BOX * BOX * BOX; i++)
        map[i] = 37 * truth[i]; /* another grey scale */
    write_map(scratch, "reference.mrc", map, reference);
    write_particles(scratch, "a", &object, 1, 150, 1.0);
    write_particles(scratch, "b", &object, 1, 150, 1.0);
    for (int i = 0; i < 2 * BOX * BOX; i++) /* two images far stronger than the others, of finite values */
        put_float(scratch, "b.mrcs", 1024 + 4 * (5 * BOX * BOX + i), 1e9f * (float)(i % 7 - 3));
    struct item *items[2] = {particles_item("a", "particles", scratch), particles_item("b", "particles", scratch)};
    run_within(scratch, reference, "150", "4", "300", items, 2); /* with all particles from the first iteration on */
    assert_int_equal(rows_of(folder, "run_data.star"), 300);

    read_map(folder, "run_class001.mrc", map);
    assert_int_equal(fsc_maps(NULL, BOX, truth, map, fsc, NULL), STATUS_OK);
    for (int s = 1; s <= 6; s++) /* up to 32 Å; a mirrored or shifted map fails from shell 3 on */
        if (!(fsc[s] > 0.8)) fail_msg("FSC with the truth is %.3f in shell %d", (double)fsc[s], s);
    read_map(folder, "run_half1_class001_unfil.mrc", half);
    read_map(folder, "run_half2_class001_unfil.mrc", map);
    assert_int_equal(fsc_maps(NULL, BOX, half, map, fsc, NULL), STATUS_OK);
    assert_true(fsc_resolution(fsc, BOX, PIXEL, 0.143) < 32);

    /* A selection replaces the particles; the run continues from the last iteration. */
    write_plain(scratch, "other", 24, PIXEL, 20, "rlnImageName");
    struct item *selection[2] = {particles_item("other", "particles", scratch),
                                 particles_item("a", "selection", scratch)};
    run(scratch, reference, "1", selection, 2);
    assert_int_equal(rows_of(folder, "run_data.star"), 150);
}

static void replace_in_file(const char *folder, const char *name, const char *old, const char *new) {
    char path[PATH_SIZE + 64], *text = NULL, *at;
    size_t length;
    snprintf(path, sizeof path, "%s/%s.star", folder, name);
    assert_int_equal(file_read_whole(path, 1 << 20, &text, &length, NULL), STATUS_OK);
    assert_non_null(at = strstr(text, old));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    assert_int_equal(fclose(f), 0);
    free(text);
}

static void scratch_session(const char *name, char scratch[PATH_SIZE], char reference[PATH_SIZE],
                            char ledger[PATH_SIZE + 16]) {
    static float map[BOX * BOX * BOX];
    char folder[PATH_SIZE + 16];
    scratch_path(name, scratch);
    snprintf(folder, sizeof folder, "%s/refiner", scratch);
    snprintf(ledger, PATH_SIZE + 16, "%s/refiner.sqlite", scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    write_map(scratch, "reference.mrc", map, reference);
}

/* The expected outcome of each item: a part of the reason why it fails; NULL: it is done. */
struct expected {
    const char *name, *reason;
};

static void expect(const char *folder, const char *ledger, const char *reference, const struct expected *expected,
                   size_t count) {
    const char *parameters[] = {"reference", reference, "diameter", "60", NULL};
    struct item *items[16];
    struct stage_results results = {0};
    struct err err = {0};
    for (size_t i = 0; i < count; i++)
        items[i] = particles_item(expected[i].name, "particles", folder);
    if (stage_run_results(&refiner_stage, folder, ledger, parameters, items, count, &results, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(results.outcome_count, count);
    for (size_t i = 0; i < count; i++) {
        const struct stage_outcome *outcome = &results.outcomes[i];
        assert_string_equal(outcome->id, expected[i].name);
        if (outcome->state != (expected[i].reason != NULL ? LEDGER_FAILED : LEDGER_DONE))
            fail_msg("%s is %s: %s", outcome->id, ledger_state_name(outcome->state), outcome->reason);
        if (expected[i].reason != NULL && strstr(outcome->reason, expected[i].reason) == NULL)
            fail_msg("%s failed with '%s', not '%s'", outcome->id, outcome->reason, expected[i].reason);
        item_destroy(&items[i]);
    }
    stage_results_clear(&results);
}

/* Each item fails by itself. Items of another box or pixel size join: their images are resampled. */
static void particles_that_cannot_join_fail_as_items(void **state) {
    (void)state;
    char scratch[PATH_SIZE], reference[PATH_SIZE], ledger[PATH_SIZE + 16], path[PATH_SIZE + 64];
    scratch_session("join", scratch, reference, ledger);
    write_plain(scratch, "odd_box", 17, 6, 3, "rlnImageName");
    write_plain(scratch, "small_box", 8, 6, 3, "rlnImageName");
    write_plain(scratch, "no_number", 24, 6, 3, "rlnImageName");
    write_plain(scratch, "good", 24, 6, 3, "rlnImageName");
    write_plain(scratch, "larger", 32, 6, 1, "rlnImageName");
    write_plain(scratch, "finer", 24, 5, 1, "rlnImageName");
    write_plain(scratch, "no_images", 24, 6, 3, "rlnSomething");
    write_plain(scratch, "no_group", 24, 6, 3, "rlnImageName");
    write_plain(scratch, "no_voltage", 24, 6, 3, "rlnImageName");
    write_plain(scratch, "cut", 24, 6, 3, "rlnImageName");
    write_plain(scratch, "last", 24, 6, 3, "rlnImageName");
    replace_in_file(scratch, "no_number", "12000", "inf");
    replace_in_file(scratch, "no_group", "cs 1 12", "cs 2 12");
    replace_in_file(scratch, "no_voltage", "Size #2\n1 6", "Size #2\n_rlnVoltage #3\n1 6 0");
    snprintf(path, sizeof path, "%s/cut.mrcs", scratch);
    assert_int_equal(truncate(path, 2000), 0);
    const struct expected first[] = {{"odd_box", "box must be even"},
                                     {"small_box", "at least 16 px"},
                                     {"no_number", "rlnDefocusU is \"inf\""},
                                     {"good", NULL},
                                     {"larger", NULL},
                                     {"finer", NULL},
                                     {"no_images", "rlnImageName"},
                                     {"no_group", "optics group 2"},
                                     {"no_voltage", "row 1: its CTF"},
                                     {"cut", "cut.mrcs"},
                                     {"last", NULL}};
    expect(scratch, ledger, reference, first, sizeof first / sizeof *first);
    write_plain(scratch, "later", 33, 6, 3, "rlnImageName");
    const struct expected second[] = {{"later", "box must be even"}};
    expect(scratch, ledger, reference, second, 1);
}

static enum ledger_state state_of(const char *path, const char *id) {
    struct ledger *ledger = NULL;
    bool known = false;
    enum ledger_state state = LEDGER_IN_FLIGHT;
    assert_int_equal(ledger_open(path, NULL, true, &ledger, NULL), STATUS_OK);
    assert_int_equal(ledger_lookup(ledger, (struct ledger_key){"", id}, &known, &state, NULL), STATUS_OK);
    assert_true(known);
    ledger_close(&ledger);
    return state;
}

/* A table that has broken since fails its item; selections that the classifier has removed are not missed. */
static void a_restart_takes_what_is_still_there(void **state) {
    (void)state;
    char scratch[PATH_SIZE], reference[PATH_SIZE], ledger[PATH_SIZE + 16], path[PATH_SIZE + 64];
    static const char *const names[] = {"broken", "whole", "removed", "kept"};
    struct stage_results results = {0};
    struct item *items[4];
    struct err err = {0};
    scratch_session("restart", scratch, reference, ledger);
    for (int i = 0; i < 4; i++) {
        write_plain(scratch, names[i], 24, 6, 3, "rlnImageName");
        items[i] = particles_item(names[i], i < 2 ? "particles" : "selection", scratch);
    }
    const char *parameters[] = {"reference", reference, "diameter", "60", NULL};
    for (int again = 0; again < 2; again++) {
        if (stage_run_results(&refiner_stage, scratch, ledger, parameters, items, 4, &results, &err) != STATUS_OK)
            fail_msg("%s", err.message);
        assert_int_equal(results.outcome_count, again ? 0 : 4);
        stage_results_clear(&results);
        snprintf(path, sizeof path, "%s/broken.star", scratch);
        assert_int_equal(truncate(path, 150), 0);
        snprintf(path, sizeof path, "%s/removed.star", scratch);
        if (!again) assert_int_equal(unlink(path), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(state_of(ledger, names[i]), i == 0 ? LEDGER_FAILED : LEDGER_DONE);
        item_destroy(&items[i]);
    }
}

static void damage(const char *path, const char *text, size_t length, int how) {
    char *copy = malloc(length);
    memcpy(copy, text, length);
    size_t kept = how < 5 ? length * (size_t)how / 5 : length;
    for (int i = 0; how >= 5 && i < 3; i++)
        copy[(size_t)(uniform() * (double)length)] ^= (char)(1 << (int)(8 * uniform()));
    assert_int_equal(file_write_whole(path, copy, kept, NULL), STATUS_OK);
    free(copy);
}

/* Replaces a number in a table that has one row. */
static void put_number(const char *path, const char *column, const char *number) {
    char *text, *at;
    size_t length;
    assert_int_equal(file_read_whole(path, 1 << 24, &text, &length, NULL), STATUS_OK);
    assert_non_null(at = strstr(text, column));
    at += strlen(column);
    while (*at == ' ')
        at++;
    assert_true(strcspn(at, " \n") >= strlen(number));
    memset(at, ' ', strcspn(at, " \n"));
    memcpy(at, number, strlen(number));
    assert_int_equal(file_write_whole(path, text, length, NULL), STATUS_OK);
    free(text);
}

/* The files keep what decides about local searches and about the end. Uses the session of
 * an_object_comes_back_from_its_images. */
static void a_restart_knows_how_certain_poses_were(void **state) {
    (void)state;
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE + 16], path[PATH_SIZE + 64];
    scratch_path("object", scratch);
    snprintf(folder, sizeof folder, "%s/refiner", scratch);
    snprintf(reference, sizeof reference, "%s/reference.mrc", scratch);
    const struct refiner_options options = {.reference = reference,
                                            .diameter = 150,
                                            .initial_lowpass = 50,
                                            .healpix_order = 1,
                                            .memory = 0.25,
                                            .symmetry = "C1",
                                            .offset_step = 1,
                                            .max_significant = 300};
    struct err err = {0};
    int last = refiner_last(folder, 1000);
    snprintf(path, sizeof path, "%s/run_it%03d_optimiser.star", folder, last);
    for (int sharp = 0; sharp < 2; sharp++) {
        struct refiner *refiner = NULL;
        put_number(path, "_icestreamBestPmax", sharp ? "0.75" : "0.25");
        put_number(path, "_icestreamPosesAreSharp", sharp ? "1" : "0");
        put_number(path, "_icestreamComparesAll", sharp ? "0" : "1");
        assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 1}, &refiner, &err), STATUS_OK);
        if (refiner_resume(refiner, folder, last, &err) != STATUS_OK) fail_msg("%s", err.message);
        assert_true(refiner->schedule.sharp == (sharp == 1));
        assert_true(refiner->schedule.whole == (sharp == 0));
        assert_true(refiner->schedule.best_pmax == (sharp ? 0.75 : 0.25));
        refiner_destroy(&refiner);
    }
}

/* Runs an iteration; returns how many particles it has compared, and adds 1 to times[] of each. */
static size_t compare_once(struct refiner *r, int *times) {
    struct err err = {0};
    bool complete = false;
    size_t count = 0;
    if (refiner_begin(r, &(struct refiner_iteration){.max_order = -1}, &err) != STATUS_OK) fail_msg("%s", err.message);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < r->sides[side].member_count; i++, count++)
            times[r->sides[side].members[i]]++;
    while (!complete)
        if (refiner_work(r, &complete, &err) != STATUS_OK) fail_msg("%s", err.message);
    assert_int_equal(refiner_state(r).particles, count);
    return count;
}

/* Once all particles have a pose, each iteration compares another third of both halves, until all have had their turn.
 * Uses the particles of an_object_comes_back_from_its_images. */
static void parts_of_the_particles_take_turns(void **state) {
    (void)state;
    enum { ALL = 150, PARTS = 3 };
    char scratch[PATH_SIZE], reference[PATH_SIZE + 16], path[PATH_SIZE + 16];
    int times[ALL] = {0};
    scratch_path("object", scratch);
    snprintf(reference, sizeof reference, "%s/reference.mrc", scratch);
    snprintf(path, sizeof path, "%s/a.star", scratch);
    const struct refiner_options options = {.reference = reference,
                                            .classes = 1,
                                            .diameter = 150,
                                            .initial_lowpass = 50,
                                            .join_resolution = 50,
                                            .healpix_order = 1,
                                            .local_order = 4,
                                            .memory = 0.25,
                                            .symmetry = "C1",
                                            .tau_fudge = NAN,
                                            .offset_range = 3,
                                            .offset_step = 1,
                                            .seed = 1,
                                            .part_particles = ALL / PARTS,
                                            .max_significant = 300};
    struct refiner *refiner = NULL;
    struct star_file *file = NULL;
    struct err err = {0};
    size_t new;
    assert_int_equal(
        refiner_create(&options, &(struct refiner_context){.threads = 2, .fallback_pixel_size = NAN}, &refiner, &err),
        STATUS_OK);
    assert_int_equal(star_read(path, &file, &err), STATUS_OK);
    if (refiner_merge(refiner, &file, path, false, &new, &err) != STATUS_OK) fail_msg("%s", err.message);
    assert_int_equal(compare_once(refiner, times), ALL);
    for (int turn = 0; turn < PARTS; turn++) {
        assert_false(refiner->schedule.whole);
        assert_in_range(compare_once(refiner, times), ALL / PARTS - 2, ALL / PARTS + 2);
    }
    for (int i = 0; i < ALL; i++)
        assert_int_equal(times[i], 2);
    refiner_destroy(&refiner);
}

/* Each file of the last iteration, cut or with bits flipped, is either read or refused by its name; then the
 * iteration before serves. Uses the session of an_object_comes_back_from_its_images. */
static void broken_iterations_are_passed_over(void **state) {
    (void)state;
    static const char *const parts[] = {"half1_model.star",   "half2_model.star", "half1_class001.mrc",
                                        "half2_class001.mrc", "optimiser.star",   "sampling.star",
                                        "data.star"};
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE + 16], path[PATH_SIZE + 64], name[64];
    int refused = 0;
    scratch_path("object", scratch);
    snprintf(folder, sizeof folder, "%s/refiner", scratch);
    snprintf(reference, sizeof reference, "%s/reference.mrc", scratch);
    const struct refiner_options options = {.reference = reference,
                                            .diameter = 150,
                                            .initial_lowpass = 50,
                                            .healpix_order = 1,
                                            .memory = 0.25,
                                            .symmetry = "C1",
                                            .offset_step = 1,
                                            .max_significant = 300};
    int last = refiner_last(folder, 1000);
    assert_true(last > 1 && refiner_last(folder, last) == last - 1);
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        for (int how = 0; how < 10; how++) {
            struct refiner *refiner = NULL;
            struct err err = {0};
            char *text;
            size_t length;
            snprintf(name, sizeof name, "run_it%03d_%s", last, parts[part]);
            snprintf(path, sizeof path, "%s/%s", folder, name);
            assert_int_equal(file_read_whole(path, 1 << 24, &text, &length, NULL), STATUS_OK);
            damage(path, text, length, how);
            assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 1}, &refiner, &err),
                             STATUS_OK);
            enum status status = refiner_resume(refiner, folder, last, &err);
            if (status != STATUS_OK) {
                refused++;
                assert_true(status_is_of_file(status));
                /* A flipped bit may make two good files differ: either may be blamed. */
                if (strstr(err.message, how < 5 ? name : "run_it") == NULL)
                    fail_msg("'%s' does not name %s", err.message, name);
                assert_int_equal(refiner_resume(refiner, folder, last - 1, &err), STATUS_OK);
            }
            assert_int_equal(refiner_grid(refiner).box, BOX);
            refiner_destroy(&refiner);
            assert_int_equal(file_write_whole(path, text, length, NULL), STATUS_OK);
            free(text);
        }
    printf("%d of 70 refused\n", refused);
    assert_true(refused >= 28);
    /* The stage finds the iteration by itself. */
    assert_int_equal(truncate(path, 100), 0);
    snprintf(path, sizeof path, "%s/run_it%03d_half2_class001.mrc", folder, last);
    assert_int_equal(truncate(path, 5000), 0);
    struct item *items[1] = {particles_item("b", "selection", scratch)};
    run(scratch, reference, "1", items, 1);
    assert_int_equal(rows_of(folder, "run_data.star"), 150);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_comes_back_from_its_images),
        cmocka_unit_test(parts_of_the_particles_take_turns),
        cmocka_unit_test(a_restart_knows_how_certain_poses_were),
        cmocka_unit_test(broken_iterations_are_passed_over),
        cmocka_unit_test(particles_that_cannot_join_fail_as_items),
        cmocka_unit_test(a_restart_takes_what_is_still_there),
    };
    return scratch_run("refiner", tests, sizeof tests / sizeof *tests);
}
