/* Tests what a refinement tells of particles that are seen from within 20 degrees of one axis, beside those seen from all
 * sides: a resolution no more than a shell finer than that of the truth, cones along this axis that end before those across
 * it, and a lower efficiency. Where poses are wrong alike in both halves, more is told than there is (RESULTS.md). */
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
#include "kernels/fsc/fsc.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/refiner_runs.h"

enum { BLOBS = 14, VOXELS = BOX * BOX * BOX };
static struct object object;
static float truth[VOXELS], halves[2][VOXELS];

/* Returns a number of the last line of the history. */
static double last_number(const char *folder, const char *name) {
    char path[PATH_SIZE], *text = NULL;
    size_t length;
    double value = NAN;
    assert_int_equal(path_join(folder, "history.jsonl", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(file_read_whole(path, 1 << 20, &text, &length, NULL), STATUS_OK);
    for (const char *at = text; (at = strstr(at, name)) != NULL; at++)
        value = strtod(at + strlen(name), NULL);
    free(text);
    return value;
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

static void one_side_is_told(void **state) {
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        char scratch[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE];
        float fsc[BOX / 2 + 1];
        scratch_path(narrow ? "narrow" : "even", scratch);
        snprintf(folder, sizeof folder, "%s/refiner", scratch);
        assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
        srand(5);
        make_object(&object, BLOBS);
        make_map(&object, truth, SIGMA);
        write_map(scratch, "reference.mrc", truth, reference);
        object.narrow = narrow ? 20 : 0;
        write_particles(scratch, "a", &object, 1, 200, 1.0);
        struct item *items[] = {particles_item("a", "particles", scratch)};
        run_within(scratch, reference, "140", "4", "10", items, 1);
        read_map(folder, "run_half1_class001_unfil.mrc", halves[0]);
        read_map(folder, "run_half2_class001_unfil.mrc", halves[1]);
        for (int i = 0; i < VOXELS; i++)
            halves[0][i] += halves[1][i];
        assert_int_equal(fsc_maps(NULL, BOX, halves[0], truth, fsc, NULL), STATUS_OK);
        double true_resolution = fsc_resolution(fsc, BOX, PIXEL, 0.5), told = last_number(folder, "\"resolution\": "),
               efficiency = last_number(folder, "\"efficiency\": "), along = reach(folder, 0.9, 1),
               across = reach(folder, 0, 0.3);
        print_message("%s: %.1f Å told, %.1f Å true, efficiency %.2f, cones along z %.1f Å, across %.1f Å\n",
                      narrow ? "one side" : "all sides", told, true_resolution, efficiency, 1 / along, 1 / across);
        /* One shell: the box is small. */
        assert_true(BOX * PIXEL / told <= BOX * PIXEL / true_resolution + 1.01);
        if (narrow)
            assert_true(efficiency < 0.75 && across > 1.2 * along);
        else
            assert_true(efficiency > 0.9 && across < 1.2 * along && along < 1.2 * across);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_side_is_told),
    };
    return scratch_run("refiner-directions", tests, sizeof tests / sizeof *tests);
}
