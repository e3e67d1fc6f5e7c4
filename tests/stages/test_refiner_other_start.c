/* A second refinement from a blurred reference: when it is asked for, what the maps of two starts are found to hold
 * alike, and that it leaves everything as it was. Truth: objects of blobs; a refinement without it. */
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
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "stages/refiner/files/local_resolution_write.h"
#include "stages/refiner/other_start.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/few_blobs.h"
#include "tests/stages/refiner_runs.h"

enum { VOXELS = BOX * BOX * BOX, SHELLS = BOX / 2 + 1, COUNT = 60 };
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        struct err failure = {0};                                                                                      \
        (void)failure;                                                                                                 \
        if ((call) != STATUS_OK) fail_msg("%s", failure.message);                                                      \
    } while (0)

static void uncertain_poses_are_doubted(void **state) {
    (void)state;
    assert_true(other_start_doubts(0.02, 1 / 40.0, 1 / 16.6));
    assert_true(other_start_doubts(0.09, 1 / 40.0, 1 / 10.5));
    assert_false(other_start_doubts(0.2, 1 / 40.0, 1 / 16.6)); /* poses are certain */
    assert_false(other_start_doubts(0.04, 1 / 40.0, 1 / 9.6)); /* detail that no reference had */
}

static void shells_end_where_starts_differ(void **state) {
    (void)state;
    /* Without errors of their own, two starts agree as the halves do: to 0.143, as (1 + 0.143)/8. */
    static const float halves[] = {1, 1, 0.9f, 0.6f, 0.3f, 0.143f, 0.1f, 0.9f};
    assert_int_equal(other_start_shell(halves, halves, 8), 5);
    /* Halves that agree although the map is wrong: a half is asked for. */
    static const float sure[] = {1, 1, 1, 1, 1, 1, 1, 1}, crossed[] = {1, 0.1f, 0.5f, 0.51f, 0.49f, 0.9f, 0, 0};
    assert_int_equal(other_start_shell(crossed, sure, 8), 3);
    static const float nothing[8] = {1};
    assert_int_equal(other_start_shell(nothing, sure, 8), 1);
}

/* Makes a map of an object with noise. */
static float *noisy(const struct object *object, double noise) {
    float *map = NULL;
    OK(mem_new(VOXELS, sizeof *map, "a map", &map, &failure));
    make_map(object, map, SIGMA);
    for (int i = 0; i < VOXELS; i++)
        map[i] += (float)(noise * normal());
    return map;
}

/* Returns by how many shells the agreement of two starts reaches beyond that of an object's halves. The other start is of
 * `other`; NULL: it has the very same halves. */
static int compared(const struct object *object, const struct object *other) {
    enum { SURE = 12 };
    const double noise = 0.05;
    float fsc[SHELLS];
    struct reference references[2] = {{.unfiltered = noisy(object, noise)}, {.unfiltered = noisy(object, noise)}};
    struct refiner r = {.box = BOX, .shells = SHELLS, .pixel_size = PIXEL, .mask_radius = 11, .fsc = fsc};
    r.context.threads = 2;
    OK(symmetry_create("C1", &r.symmetry, &failure));
    OK(fsc_maps(NULL, BOX, references[0].unfiltered, references[1].unfiltered, fsc, &failure));
    r.resolution = fsc_resolution(fsc, BOX, PIXEL, 0.143);
    for (int h = 0; h < 2; h++) {
        r.sides[h].references = &references[h];
        r.other.halves[h] = noisy(other != NULL ? other : object, noise);
        if (other == NULL) memcpy(r.other.halves[h], references[h].unfiltered, VOXELS * sizeof(float));
    }
    OK(other_start_compare(&r, &failure));
    assert_null(r.other.halves[0]);
    print_message("halves agree to shell %.1f, starts to %d\n", BOX * PIXEL / r.resolution, r.other.shell);
    const int ends = (int)lround(BOX * PIXEL / r.resolution), shell = r.other.shell;
    for (int h = 0; h < 2; h++)
        mem_free(&references[h].unfiltered);
    symmetry_destroy(&r.symmetry);
    assert_true(ends >= SURE - 4);
    return shell - ends;
}

static void maps_are_turned_and_compared(void **state) {
    (void)state;
    struct object object, turned, other;
    srand(3);
    make_object(&object, 50);
    make_object(&other, 50);
    /* Turned by 90 degrees about z, moved by 1 px, in the other hand. */
    turned = object;
    for (int i = 0; i < object.count; i++) {
        turned.blobs[i][0] = -object.blobs[i][1] + 1;
        turned.blobs[i][1] = object.blobs[i][0];
        turned.blobs[i][2] = -object.blobs[i][2];
    }
    assert_in_range(compared(&object, NULL) + 1, 0, 5); /* no half is compared with itself: that gave 7 */
    assert_true(compared(&object, &object) >= -1);
    assert_true(compared(&object, &turned) >= -1);
    assert_true(compared(&object, &other) <= -4);
}

struct world {
    char scratch[PATH_SIZE], reference[PATH_SIZE], table[PATH_SIZE];
};

static struct refiner *create(struct world *w) {
    struct refiner_options options = few_blobs_options();
    struct refiner *r = NULL;
    struct star_file *file = NULL;
    options.reference = w->reference;
    options.diameter = 150;
    options.healpix_order = 1;
    options.memory = 0.25;
    options.max_iterations = 2;
    OK(refiner_create(&options, &(struct refiner_context){.threads = 2, .fallback_pixel_size = NAN, .root = w->scratch},
                      &r, &failure));
    OK(star_read(w->table, &file, &failure));
    OK(refiner_merge(r, &file, w->table, false, NULL, &failure));
    return r;
}

static void iterate(struct refiner *r, bool final) {
    bool complete = false;
    OK(refiner_begin(r, &(struct refiner_iteration){.max_order = 1, .final = final}, &failure));
    while (!complete)
        OK(refiner_work(r, &complete, &failure));
}

static bool never(void *context) {
    (void)context;
    return false;
}

/* Stops at the fourth piece of work. */
static bool soon(void *context) {
    return ++*(int *)context > 3;
}

static bool stands(void *context, enum status status, const struct err *err) {
    (void)context, (void)status, (void)err;
    return false;
}

static int taken, fails_at; /* batches of images so far; the first of two that cannot be read, 0: all can */

enum status __real_loader_take(struct loader *l, const struct alignment *kept_by, const int *indices, int count,
                               const float *const **ret_images, struct err *err);
enum status __wrap_loader_take(struct loader *l, const struct alignment *kept_by, const int *indices, int count,
                               const float *const **ret_images, struct err *err);
enum status __wrap_loader_take(struct loader *l, const struct alignment *kept_by, const int *indices, int count,
                               const float *const **ret_images, struct err *err) {
    const int now = ++taken - fails_at;
    FAIL_IF(fails_at > 0 && (now == 0 || now == 1), err, STATUS_UNAVAILABLE, "the file server is away");
    return __real_loader_take(l, kept_by, indices, count, ret_images, err);
}

/* Waits for images that could not be read. context: counts how often. */
static bool patient(void *context, enum status status, const struct err *err) {
    assert_true(status == STATUS_OK || strstr(err->message, "the file server is away") != NULL);
    *(int *)context += status == STATUS_UNAVAILABLE;
    return status == STATUS_UNAVAILABLE;
}

static void expect_same(const struct refiner *a, const struct refiner *b) {
    for (int h = 0; h < 2; h++)
        assert_memory_equal(a->sides[h].references->unfiltered, b->sides[h].references->unfiltered,
                            VOXELS * sizeof(float));
    assert_memory_equal(a->combined, b->combined, VOXELS * sizeof(float));
    for (size_t i = 0; i < a->set.count; i++) {
        assert_memory_equal(a->set.particles[i].pose, b->set.particles[i].pose, sizeof a->set.particles[i].pose);
        assert_true(a->set.particles[i].norm == b->set.particles[i].norm);
    }
    assert_true(a->resolution == b->resolution && a->schedule.order == b->schedule.order);
    assert_true(a->options.initial_lowpass == b->options.initial_lowpass &&
                a->schedule.iteration == b->schedule.iteration);
}

static void make_world(const char *name, struct world *w) {
    static float map[VOXELS];
    struct object object;
    srand(5);
    scratch_path(name, w->scratch);
    OK(file_make_folders(w->scratch, 0755, &failure));
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(w->scratch, "reference.mrc", map, w->reference);
    write_particles(w->scratch, "a", &object, 1, COUNT, 0.5);
    snprintf(w->table, sizeof w->table, "%.4000s/a.star", w->scratch);
}

/* The refinement with another start in between makes the same maps, bit by bit, also after one that was stopped. */
static void another_start_changes_nothing_else(void **state) {
    (void)state;
    struct world w;
    struct err err = {0};
    int asked = 0;
    make_world("other-start", &w);
    struct refiner *plain = create(&w), *twice = create(&w);
    assert_false(refiner_doubts_start(plain)); /* nothing is known yet */
    for (int i = 0; i < 3; i++) {
        iterate(plain, false);
        iterate(twice, false);
    }
    refiner_set_hand(plain, true); /* from the final iteration on */
    refiner_set_hand(twice, true);
    assert_int_equal(refiner_refine_blurred(twice, &(struct refiner_pause){soon, stands, &asked}, &err),
                     STATUS_CANCELLED);
    assert_null(twice->other.halves[0]);
    OK(refiner_refine_blurred(twice, &(struct refiner_pause){never, stands, NULL}, &failure));
    assert_non_null(twice->other.halves[1]);
    assert_true(isnan(refiner_state(twice).starts_agree));
    assert_true(refiner_inverts(twice));
    iterate(plain, true);
    iterate(twice, true);
    expect_same(plain, twice);
    const struct refiner_state s = refiner_state(twice);
    print_message("the halves agree to %.1f Å, the starts to %.1f Å, %.1f Å are told\n", s.agreement, s.starts_agree,
                  s.resolution);
    assert_true(s.starts_agree > 0 && s.resolution >= s.starts_agree - 1e-6);
    assert_true(isnan(refiner_state(plain).starts_agree) && s.resolution >= refiner_state(plain).resolution);
    refiner_destroy(&plain);
    refiner_destroy(&twice);
}

/* Images that cannot be read for a while delay the second refinement. It does not begin again: all batches are read once. */
static void images_that_are_away_are_waited_for(void **state) {
    (void)state;
    struct world w;
    int waited = 0, counts[2];
    make_world("away", &w);
    struct refiner *refiners[] = {create(&w), create(&w)};
    for (int i = 0; i < 2; i++) {
        const struct refiner_pause pause = {never, patient, &waited};
        iterate(refiners[i], false);
        taken = 0;
        fails_at = i == 0 ? 0 : counts[0] - 1; /* in the last iteration */
        OK(refiner_refine_blurred(refiners[i], &pause, &failure));
        counts[i] = taken;
        fails_at = 0;
        assert_int_equal(waited, 2 * i);
    }
    assert_int_equal(counts[1], counts[0] + 2);
    for (int h = 0; h < 2; h++)
        assert_memory_equal(refiners[0]->other.halves[h], refiners[1]->other.halves[h], VOXELS * sizeof(float));
    refiner_destroy(&refiners[0]);
    refiner_destroy(&refiners[1]);
}

/* Returns a number of the last line of a history; NaN: it has none of this name. */
static double last_number(const char *folder, const char *name) {
    char path[PATH_SIZE], *text = NULL;
    size_t length;
    OK(path_join(folder, "history.jsonl", path, sizeof path, &failure));
    OK(file_read_whole(path, 1 << 20, &text, &length, &failure));
    text[length - 1] = 0;
    const char *line = strrchr(text, '\n'), *at = strstr(line != NULL ? line : text, name);
    const double value = at != NULL ? strtod(at + strlen(name), NULL) : NAN;
    free(text);
    return value;
}

/* Returns the finest local resolution (Å). */
static double finest_local(const char *folder) {
    static float map[VOXELS];
    double finest = INFINITY;
    read_map(folder, "locres.mrc", map);
    for (int i = 0; i < VOXELS; i++)
        finest = fmin(finest, (double)map[i]);
    return finest;
}

/* Runs the stage on particles with so much noise. Returns to where the starts agree; NaN: there was one. */
static double run_stage(const char *name, int count, double noise) {
    static float map[VOXELS];
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE];
    struct object object;
    srand(5);
    scratch_path(name, scratch);
    snprintf(folder, sizeof folder, "%s/refiner", scratch);
    OK(file_make_folders(folder, 0755, &failure));
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(scratch, "reference.mrc", map, reference);
    write_particles(scratch, "a", &object, 1, count, noise);
    struct item *items[] = {particles_item("a", "particles", scratch)};
    run_within(scratch, reference, "150", "4", "10", items, 1);
    const double pmax = last_number(folder, "\"pmax\": "), agree = last_number(folder, "\"starts_agree\": ");
    print_message("noise %g: pmax %.3f, the starts agree to %.1f Å, %.1f Å are told\n", noise, pmax, agree,
                  last_number(folder, "\"resolution\": "));
    const double told = last_number(folder, "\"resolution\": ");
    /* A run that goes on here asks the files, since the iteration before the last one told otherwise. */
    assert_int_equal(local_maps_wanted(folder), told > 0);
    if (isnan(agree) || !(told > 0)) return agree; /* null: none is told */
    assert_true(told >= agree - 0.01);
    print_message("the finest local resolution is %.1f Å\n", finest_local(folder));
    /* No place is told to be better known than the doubt leaves the whole map. */
    assert_true(finest_local(folder) >= told - 0.01);
    return agree;
}

/* Returns whether a file below scratch/NAME/refiner has the text. */
static bool has(const char *name, const char *file, const char *wanted) {
    char scratch[PATH_SIZE], path[PATH_SIZE + 64], *text = NULL;
    size_t length;
    scratch_path(name, scratch);
    snprintf(path, sizeof path, "%s/refiner/%s", scratch, file);
    OK(file_read_whole(path, 1 << 20, &text, &length, &failure));
    const bool found = strstr(text, wanted) != NULL;
    free(text);
    return found;
}

static void the_stage_asks_where_poses_are_uncertain(void **state) {
    (void)state;
    assert_true(isnan(run_stage("certain", COUNT, 0.2)));
    assert_true(run_stage("doubted", 10 * COUNT, 2.5) > 0);
    /* Two starts of so much noise have little more than the blurred reference in common: no resolution is told. */
    assert_true(run_stage("uncertain", 3 * COUNT, 4) > 47);
    assert_true(has("uncertain", "history.jsonl", "\"unresolved\": \"start\""));
    assert_true(has("uncertain", "history.jsonl", "\"unresolved\": \"shared\"")); /* before the last iteration */
    assert_false(has("certain", "history.jsonl", "\"unresolved\": \"start\""));
    assert_false(has("uncertain", "history.jsonl", "\"resolution\": 4"));
    assert_true(has("uncertain", "postprocess.star", "icestreamUnresolved"));
    assert_true(has("uncertain", "postprocess.star", "999.0"));
    assert_false(has("certain", "postprocess.star", "icestreamUnresolved"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uncertain_poses_are_doubted),
        cmocka_unit_test(shells_end_where_starts_differ),
        cmocka_unit_test(maps_are_turned_and_compared),
        cmocka_unit_test(another_start_changes_nothing_else),
        cmocka_unit_test(images_that_are_away_are_waited_for),
        cmocka_unit_test(the_stage_asks_where_poses_are_uncertain),
    };
    return scratch_run("refiner-other-start", tests, sizeof tests / sizeof *tests);
}
