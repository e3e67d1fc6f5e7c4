/* Files that are written while the refinement goes on are those of their iteration, whatever has changed since. A
 * disk that refuses them ends the run as it would otherwise. */
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

#include "common/formats/image.h"
#include "common/formats/image_formats.h"
#include "common/formats/star.h"
#include "common/harness/stage.h"
#include "stages/refiner/files/map_picture.h"
#include "stages/refiner/files/snapshot.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/unresolved.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"

static const char *const PARTS[] = {"half1_class001.mrc", "half2_class001.mrc", "class001.mrc",
                                    "class001.png",       "data.star",          "half1_model.star",
                                    "half2_model.star",   "sampling.star",      "optimiser.star"};
static struct object object;

/* Makes an object, a reference and two files of particles below scratch. */
static void prepare(const char *name, char scratch[PATH_SIZE], char reference[PATH_SIZE]) {
    static float map[BOX * BOX * BOX];
    scratch_path(name, scratch);
    assert_int_equal(file_make_folders(scratch, 0755, NULL), STATUS_OK);
    srand(11);
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(scratch, "reference.mrc", map, reference);
    write_particles(scratch, "a", &object, 1, 60, 1.0);
    write_particles(scratch, "b", &object, 1, 60, 1.0);
}

static struct refiner *create(char *reference) {
    struct refiner *refiner = NULL;
    const struct refiner_options options = {.reference = reference,
                                            .diameter = 150,
                                            .initial_lowpass = 50,
                                            .healpix_order = 1,
                                            .memory = 0.25,
                                            .symmetry = "C1",
                                            .offset_range = 3,
                                            .offset_step = 1,
                                            .max_significant = 300,
                                            .join_resolution = 40,
                                            .local_order = 4,
                                            .tau_fudge = 1};
    assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 2}, &refiner, NULL), STATUS_OK);
    return refiner;
}

static void merge(struct refiner *refiner, const char *scratch, const char *name, bool replace) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    struct err err = {0};
    assert_int_equal(path_join(scratch, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    if (refiner_merge(refiner, &file, path, replace, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
}

static void iterate(struct refiner *refiner) {
    bool complete = false;
    struct err err = {0};
    enum status status = refiner_begin(refiner, &(struct refiner_iteration){.max_order = 1}, &err);
    while (status == STATUS_OK && !complete)
        status = refiner_work(refiner, &complete, &err);
    if (status != STATUS_OK) fail_msg("%s", err.message);
}

static void assert_same_file(const char *a, const char *b, const char *name) {
    char path[PATH_SIZE], *text[2] = {NULL, NULL};
    size_t length[2];
    const char *const folders[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(path_join(folders[i], name, path, sizeof path, NULL), STATUS_OK);
        assert_int_equal(file_read_whole(path, 1 << 24, &text[i], &length[i], NULL), STATUS_OK);
    }
    if (length[0] != length[1] || memcmp(text[0], text[1], length[0]) != 0) fail_msg("%s differs", name);
    free(text[0]);
    free(text[1]);
}

static void files_are_of_their_iteration(void **state) {
    (void)state;
    char scratch[PATH_SIZE], reference[PATH_SIZE], then[PATH_SIZE + 16], later[PATH_SIZE + 16], name[64];
    struct refiner *refiner = NULL;
    struct snapshot *snapshot = NULL;
    prepare("files", scratch, reference);
    snprintf(then, sizeof then, "%s/then", scratch);
    snprintf(later, sizeof later, "%s/later", scratch);
    assert_int_equal(file_make_folders(then, 0755, NULL), STATUS_OK);
    assert_int_equal(file_make_folders(later, 0755, NULL), STATUS_OK);
    refiner = create(reference);
    assert_int_equal(snapshot_create(&snapshot, NULL), STATUS_OK);
    snapshot_return(snapshot, refiner);
    merge(refiner, scratch, "a.star", false);
    /* Twice, since the second copy has its memory already. */
    for (int i = 1; i <= 2; i++) {
        iterate(refiner);
        assert_int_equal(refiner_write(refiner, then, "", 0, NULL), STATUS_OK);
        assert_int_equal(snapshot_take(snapshot, refiner, NULL), STATUS_OK);
        assert_int_equal(snapshot_take(snapshot, refiner, NULL), STATUS_BAD_STATE);
        /* With another selection tables, particles, poses and maps change, and the next iteration is done. */
        merge(refiner, scratch, "b.star", true);
        iterate(refiner);
        assert_int_equal(refiner_write(snapshot_refiner(snapshot), later, "", 0, NULL), STATUS_OK);
        snapshot_return(snapshot, refiner);
        for (size_t part = 0; part < sizeof PARTS / sizeof *PARTS; part++) {
            snprintf(name, sizeof name, "run_it%03d_%s", 2 * i - 1, PARTS[part]);
            assert_same_file(then, later, name);
        }
        merge(refiner, scratch, "a.star", i == 1);
    }
    snapshot_destroy(&snapshot);
    refiner_destroy(&refiner);
}

/* Returns a text of the only row of a table of the first iteration. */
static const char *text_of(const char *folder, const char *part, const char *table, const char *column, char text[64]) {
    char path[PATH_SIZE + 64];
    struct star_file *file = NULL;
    snprintf(path, sizeof path, "%s/run_it001_%s", folder, part);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    const struct star_table *t = star_table_find(file, table);
    assert_non_null(t);
    const int found = star_column_find(t, column);
    snprintf(text, 64, "%s", found >= 0 ? star_get(t, 0, found) : "");
    star_destroy(&file);
    return text;
}

/* Writes a refinement as if it had a resolution or none, and looks at the files, and at a restart from them. */
static void check_restart(struct refiner *refiner, const char *folder, char *reference, enum refiner_unresolved why,
                          const char *word) {
    char text[64];
    struct refiner *again = create(reference);
    refiner->unresolved = why;
    assert_int_equal(refiner_write(refiner, folder, "", 0, NULL), STATUS_OK);
    assert_string_equal(text_of(folder, "optimiser.star", "optimiser_general", "icestreamUnresolved", text), word);
    for (int half = 1; half <= 2; half++) {
        const double told = atof(text_of(folder, half == 1 ? "half1_model.star" : "half2_model.star", "model_general",
                                         "rlnCurrentResolution", text));
        assert_true(fabs(told - (why == REFINER_RESOLVED ? refiner->told : 999)) < 0.01);
    }
    assert_int_equal(refiner_resume(again, folder, 1, NULL), STATUS_OK);
    assert_int_equal(again->unresolved, why);
    assert_true(refiner->told < 100);
    assert_true(fabs(again->told - refiner->told) < 0.01);
    refiner_destroy(&again);
}

/* A map without a resolution tells none, but a restart goes on with the number, and knows why it is not told. */
static void a_reason_survives_a_restart(void **state) {
    (void)state;
    char scratch[PATH_SIZE], reference[PATH_SIZE], folder[PATH_SIZE + 16];
    prepare("reasons", scratch, reference);
    snprintf(folder, sizeof folder, "%s/out", scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    struct refiner *refiner = create(reference);
    merge(refiner, scratch, "a.star", false);
    iterate(refiner);
    refiner->signal.particles = 0; /* these are not called noise */
    check_restart(refiner, folder, reference, UNRESOLVED_SHARED, "shared");
    check_restart(refiner, folder, reference, UNRESOLVED_START, "start");
    check_restart(refiner, folder, reference, UNRESOLVED_NOWHERE, "nowhere");
    check_restart(refiner, folder, reference, REFINER_RESOLVED, "");
    assert_int_equal(unresolved_of_word("of another version"), UNRESOLVED_SHARED);
    refiner_destroy(&refiner);
}

/* Looks, whenever a file goes, whether the links still lead to files. */
static void look_at_links(void *context, const char *removed) {
    (void)removed;
    char path[PATH_SIZE];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(path_join(context, i == 0 ? "latest_map.mrc" : "latest_map.png", path, sizeof path, NULL),
                         STATUS_OK);
        assert_true(file_exists(path));
    }
}

static void assert_leads_to(const char *folder, const char *link, const char *target) {
    char path[PATH_SIZE], found[256] = {0};
    assert_int_equal(path_join(folder, link, path, sizeof path, NULL), STATUS_OK);
    assert_true(readlink(path, found, sizeof found - 1) > 0);
    assert_string_equal(found, target);
    assert_true(file_exists(path));
}

/* The older iteration goes only after the links lead to the newer one. The final picture gets the curve in a mask. */
static void links_lead_to_the_latest_map(void **state) {
    (void)state;
    char scratch[PATH_SIZE], reference[PATH_SIZE], folder[PATH_SIZE + 16], path[PATH_SIZE + 64], target[64];
    struct refiner *refiner = NULL;
    prepare("latest", scratch, reference);
    snprintf(folder, sizeof folder, "%s/out", scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    refiner = create(reference);
    merge(refiner, scratch, "a.star", false);
    const struct file_observer observer = {.context = folder, .removed = look_at_links};
    for (int i = 1; i <= 3; i++) {
        iterate(refiner);
        const struct file_observer *before = file_observe(&observer);
        assert_int_equal(refiner_write(refiner, folder, "", 1, NULL), STATUS_OK);
        file_observe(before);
        snprintf(target, sizeof target, "run_it%03d_class001.mrc", i);
        assert_leads_to(folder, "latest_map.mrc", target);
        snprintf(target, sizeof target, "run_it%03d_class001.png", i);
        assert_leads_to(folder, "latest_map.png", target);
        if (i == 1) continue;
        snprintf(path, sizeof path, "%s/run_it%03d_class001.mrc", folder, i - 1);
        assert_false(file_exists(path));
    }
    float curve[BOX / 2 + 1];
    for (int s = 0; s <= BOX / 2; s++)
        curve[s] = 1 - (float)s / (BOX / 2);
    const struct map_curve inside = {"inside a mask", curve, 12, 0.143};
    assert_int_equal(refiner_write_masked(refiner, folder, &inside, NULL), STATUS_BAD_STATE);
    bool complete = false;
    assert_int_equal(refiner_begin(refiner, &(struct refiner_iteration){.max_order = 1, .final = true}, NULL),
                     STATUS_OK);
    while (!complete)
        assert_int_equal(refiner_work(refiner, &complete, NULL), STATUS_OK);
    assert_int_equal(refiner_write(refiner, folder, "", 1, NULL), STATUS_OK);
    assert_leads_to(folder, "latest_map.mrc", "run_class001.mrc");
    assert_leads_to(folder, "latest_map.png", "run_class001.png");
    struct image plain = {0}, masked = {0};
    snprintf(path, sizeof path, "%s/latest_map.png", folder);
    assert_int_equal(image_read(path, &plain, NULL), STATUS_OK);
    assert_int_equal(refiner_write_masked(refiner, folder, &inside, NULL), STATUS_OK);
    assert_leads_to(folder, "latest_map.png", "run_class001.png");
    assert_int_equal(image_read(path, &masked, NULL), STATUS_OK);
    assert_true(plain.nx >= 1000);
    assert_int_equal(plain.nx, masked.nx);
    assert_int_equal(plain.ny, masked.ny);
    /* The curve and its words are below the views. */
    size_t changed = 0, above = 0, half = image_count(&plain) / 2;
    for (size_t i = 0; i < image_count(&plain); i++) {
        bool differs = plain.data[i] != masked.data[i];
        changed += differs;
        above += differs && i < half;
    }
    assert_true(changed > 500);
    assert_int_equal(above, 0);
    image_destroy(&plain);
    image_destroy(&masked);
    refiner_destroy(&refiner);
}

/* A folder stands in the place of a file, and stays there. */
static void a_file_that_cannot_be_written_ends_the_run(void **state) {
    (void)state;
    char scratch[PATH_SIZE], reference[PATH_SIZE], folder[PATH_SIZE + 16], path[PATH_SIZE + 64];
    char item_path[PATH_SIZE + 16];
    struct item *item = NULL, **out = NULL;
    struct err err = {0};
    size_t count = 0;
    prepare("refused", scratch, reference);
    snprintf(folder, sizeof folder, "%s/refiner", scratch);
    snprintf(path, sizeof path, "%s/run_it002_half2_model.star", folder);
    assert_int_equal(file_make_folders(path, 0755, NULL), STATUS_OK);
    snprintf(item_path, sizeof item_path, "%s/a.star", scratch);
    assert_int_equal(item_create("a", "particles", &item, NULL), STATUS_OK);
    assert_int_equal(item_set_string(item, "particles.star", item_path, NULL), STATUS_OK);
    const char *parameters[] = {"reference",     reference, "diameter",   "150", "initial_lowpass", "50",
                                "healpix_order", "1",       "live_order", "1",   "max_iterations",  "4",
                                "offset_range",  "3",       NULL};
    enum status status = stage_run_in_process(&refiner_stage, scratch, parameters, &item, 1, &out, &count, &err);
    assert_int_equal(status, STATUS_IO);
    assert_non_null(strstr(err.message, "run_it002_half2_model.star"));
    free(out);
    item_destroy(&item);
    /* The first iteration is complete, the second is not, and no later file claims that it is. */
    assert_int_equal(refiner_last(folder, 1000), 1);
    snprintf(path, sizeof path, "%s/run_it002_class001.mrc", folder);
    assert_true(file_exists(path));
    snprintf(path, sizeof path, "%s/run_class001.mrc", folder);
    assert_false(file_exists(path));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_of_their_iteration),
        cmocka_unit_test(a_reason_survives_a_restart),
        cmocka_unit_test(links_lead_to_the_latest_map),
        cmocka_unit_test(a_file_that_cannot_be_written_ends_the_run),
    };
    return scratch_run("refiner-files", tests, sizeof tests / sizeof *tests);
}
