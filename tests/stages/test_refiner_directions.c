/* Tests what a refinement tells of particles that are seen from within 20 degrees of one axis, beside those seen from all
 * sides: no resolution that is finer than that of the truth divided by 1.1, also where poses are wrong alike in both
 * halves; a lower efficiency and completeness, a warning, and the tilt that helps, in the last line of the history. */
#include <fcntl.h>
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

#include "common/formats/star.h"
#include "kernels/fsc/fsc.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/refiner_runs.h"

enum { BLOBS = 14, VOXELS = BOX * BOX * BOX };
static struct object object;
static float truth[VOXELS], halves[2][VOXELS];

/* Returns a number of the last line of the history; NaN: it is null. It must be there. */
static double last_number(const char *folder, const char *name) {
    char path[PATH_SIZE], *text = NULL, *end;
    size_t length;
    assert_int_equal(path_join(folder, "history.jsonl", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(file_read_whole(path, 1 << 20, &text, &length, NULL), STATUS_OK);
    assert_true(length > 0 && text[length - 1] == '\n');
    text[length - 1] = 0;
    const char *line = strrchr(text, '\n'), *at = strstr(line != NULL ? line : text, name);
    if (at == NULL) fail_msg("the last line of %s has no %s", path, name);
    at += strlen(name);
    double value = strtod(at, &end);
    assert_true(end > at || strncmp(at, "null", 4) == 0);
    if (end == at) value = NAN;
    free(text);
    return value;
}

/* Checks the advice in the last line: a tilt where it gives enough; none of even views. */
static void check_advice(const char *folder, double efficiency) {
    double tilt = last_number(folder, "\"advised_tilt\": "), tilted = last_number(folder, "\"tilted_efficiency\": ");
    print_message("advised tilt %g degrees, efficiency %g\n", tilt, tilted);
    assert_int_equal(isnan(tilt), isnan(tilted));
    if (efficiency >= 0.8) assert_true(isnan(tilt));
    if (efficiency < 0.7) assert_true(tilt >= 10 && tilt <= 40 && tilted > efficiency + 0.049 && tilted <= 1);
}

/* Returns the mean frequency (1/Å) to which cones about axes reach whose |z| lies between two bounds. */
static double reach(const char *folder, double least, double most) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    double sum = 0;
    int count = 0;
    assert_int_equal(path_join(folder, "postprocess.star", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    const struct star_table *t = star_table_find(file, "directions");
    assert_non_null(t);
    int z = star_column_find(t, "icestreamDirectionZ"), at = star_column_find(t, "icestreamDirectionResolution");
    assert_true(z >= 0 && at >= 0);
    for (size_t row = 0; row < star_row_count(t); row++) {
        double along = fabs(strtod(star_get(t, row, z), NULL));
        if (along >= least && along <= most) sum += 1 / strtod(star_get(t, row, at), NULL), count++;
    }
    star_destroy(&file);
    assert_true(count > 2);
    return sum / count;
}

/* Returns the completeness of the map in the model table of the first half. */
static double overall_completeness(const char *folder) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    assert_int_equal(path_join(folder, "run_half1_model.star", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    const struct star_table *t = star_table_find(file, "model_classes");
    assert_non_null(t);
    int column = star_column_find(t, "rlnOverallFourierCompleteness");
    assert_true(column >= 0 && star_row_count(t) == 1);
    double value = strtod(star_get(t, 0, column), NULL);
    star_destroy(&file);
    return value;
}

/* Runs a refinement; its log comes to a file. */
static void run_logged(const char *scratch, const char *reference, char **ret_log) {
    char path[PATH_SIZE];
    size_t length;
    struct item *items[] = {particles_item("a", "particles", scratch)};
    assert_int_equal(path_join(scratch, "log", path, sizeof path, NULL), STATUS_OK);
    fflush(stderr);
    int kept = dup(STDERR_FILENO), log = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    assert_true(kept >= 0 && log >= 0 && dup2(log, STDERR_FILENO) >= 0);
    run_within(scratch, reference, "140", "4", "10", items, 1);
    fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    assert_int_equal(close(kept), 0);
    assert_int_equal(close(log), 0);
    assert_int_equal(file_read_whole(path, 1 << 20, ret_log, &length, NULL), STATUS_OK);
}

/* Returns whether a line of the log holds both texts. */
static bool is_logged(const char *log, const char *id, const char *words) {
    for (const char *line = log; line != NULL && *line != 0; line = strchr(line, '\n'), line += line != NULL) {
        const char *end = strchr(line, '\n'), *at = strstr(line, id), *said = at != NULL ? strstr(at, words) : NULL;
        if (said != NULL && (end == NULL || said < end)) return true;
    }
    return false;
}

/* Returns the completeness of the map. */
static double check_set(const char *name, unsigned seed, double cone, int particles, double noise) {
    char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE], *log = NULL;
    float fsc[BOX / 2 + 1];
    scratch_path(name, scratch);
    snprintf(folder, sizeof folder, "%s/refiner", scratch);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    srand(seed);
    make_object(&object, BLOBS);
    make_map(&object, truth, SIGMA);
    write_map(scratch, "reference.mrc", truth, reference);
    object.narrow = cone;
    write_particles(scratch, "a", &object, 1, particles, noise);
    run_logged(scratch, reference, &log);
    read_map(folder, "run_half1_class001_unfil.mrc", halves[0]);
    read_map(folder, "run_half2_class001_unfil.mrc", halves[1]);
    for (int i = 0; i < VOXELS; i++)
        halves[0][i] += halves[1][i];
    assert_int_equal(fsc_maps(NULL, BOX, halves[0], truth, fsc, NULL), STATUS_OK);
    double true_resolution = fsc_resolution(fsc, BOX, PIXEL, 0.5), told = last_number(folder, "\"resolution\": "),
           agreement = last_number(folder, "\"agreement\": "), doubt = last_number(folder, "\"views_doubt\": "),
           efficiency = last_number(folder, "\"efficiency\": "), along = reach(folder, 0.9, 1),
           across = reach(folder, 0, 0.3), complete = overall_completeness(folder);
    print_message(
        "%s, seed %u: %.1f Å told, %.1f Å agreed, %.1f Å true, efficiency %.2f, doubt %.2f, cones along z %.1f Å, "
        "across %.1f Å, completeness %.3f\n",
        name, seed, told, agreement, true_resolution, efficiency, doubt, 1 / along, 1 / across, complete);
    check_advice(folder, efficiency);
    /* NaN: no resolution is told. */
    assert_true(isnan(told) || told >= true_resolution / 1.1);
    assert_true(isnan(told) || told >= agreement - 1e-3);
    assert_int_equal(is_logged(log, "WARN refine-orientations", ""), efficiency < 0.5);
    if (cone > 0) {
        assert_true(efficiency < 0.9 && doubt > 0.5);
        assert_true(told > agreement + 1e-3 || agreement >= true_resolution / 1.1);
        assert_true(is_logged(log, "WARN refine-directions", "the views that were found are uneven"));
    } else {
        assert_true(efficiency > 0.9 && doubt == 0 && across < 1.2 * along && along < 1.2 * across);
        assert_false(is_logged(log, "WARN refine-directions", ""));
    }
    free(log);
    return complete;
}

static void one_side_is_told_and_all_sides_keep_their_resolution(void **state) {
    (void)state;
    double even = check_set("even", 5, 0, 200, 1.0);
    assert_true(even > 0.95 && even <= 1);
    assert_true(check_set("narrow", 5, 20, 200, 1.0) < even - 0.05);
    assert_true(check_set("narrow_clear", 6, 20, 300, 0.5) < even - 0.05);
    /* The completeness counts shells with signal: here they are so few that all are full. */
    check_set("narrow_noisy", 7, 20, 300, 1.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_side_is_told_and_all_sides_keep_their_resolution)};
    return scratch_run("refiner-directions", tests, sizeof tests / sizeof *tests);
}
