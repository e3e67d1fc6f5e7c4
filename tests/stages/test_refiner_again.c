/* An iteration that something stops for a while is tried again: a mask that is missing, a stack that is away. The
 * maps are those of a refinement that nothing stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "stages/refiner/refiner.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/few_blobs.h"

enum { VOXELS = BOX * BOX * BOX };

struct world {
    char scratch[PATH_SIZE], reference[PATH_SIZE], mask[PATH_SIZE], stack[PATH_SIZE + 16], away[PATH_SIZE + 16];
};

static void prepare(struct world *w, const char *name) {
    static float map[VOXELS];
    static struct object object;
    scratch_path(name, w->scratch);
    assert_int_equal(file_make_folders(w->scratch, 0755, NULL), STATUS_OK);
    srand(12);
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(w->scratch, "reference.mrc", map, w->reference);
    write_particles(w->scratch, "a", &object, 1, 80, 1.0);
    for (int i = 0; i < VOXELS; i++)
        map[i] = i / (BOX * BOX) < 2 * BOX / 3;
    write_map(w->scratch, "mask.mrc", map, w->mask);
    snprintf(w->stack, sizeof w->stack, "%s/a.mrcs", w->scratch);
    snprintf(w->away, sizeof w->away, "%s/away", w->scratch);
}

static struct refiner *begin(struct world *w, double memory) {
    struct refiner *refiner = NULL;
    struct star_file *file = NULL;
    char path[PATH_SIZE];
    struct refiner_options options = few_blobs_options();
    options.reference = w->reference;
    options.mask = w->mask;
    options.diameter = 150;
    options.memory = memory;
    assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 2}, &refiner, NULL), STATUS_OK);
    assert_int_equal(path_join(w->scratch, "a.star", path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    assert_int_equal(refiner_merge(refiner, &file, path, false, NULL, NULL), STATUS_OK);
    return refiner;
}

static const struct refiner_iteration ITERATION = {.max_order = 0};

/* Runs an iteration. stop: the stack goes away after this many batches, until an error has reported it. Returns how
 * many errors there were. */
static int iterate(struct refiner *refiner, const struct world *w, int stop) {
    bool complete = false;
    int failures = 0;
    struct err err = {0};
    for (int batch = 0; !complete; batch++) {
        if (batch == stop) assert_int_equal(rename(w->stack, w->away), 0);
        if (refiner_work(refiner, &complete, &err) == STATUS_OK) continue;
        if (stop < 0 || failures++ > 0) fail_msg("%s", err.message);
        assert_true(refiner_busy(refiner));
        assert_int_equal(rename(w->away, w->stack), 0);
    }
    return failures;
}

static void keep_map(const struct refiner *refiner, float *map) {
    memcpy(map, refiner_maps(refiner).half1, sizeof(float) * VOXELS);
}

static void a_mask_that_comes_later_is_used(void **state) {
    (void)state;
    static float wanted[VOXELS], found[VOXELS];
    struct world w;
    prepare(&w, "mask");
    for (int late = 0; late < 2; late++) {
        struct refiner *refiner = begin(&w, 0.25);
        if (late) {
            assert_int_equal(rename(w.mask, w.away), 0);
            for (int i = 0; i < 2; i++)
                assert_int_not_equal(refiner_begin(refiner, &ITERATION, NULL), STATUS_OK);
            assert_false(refiner_busy(refiner));
            assert_int_equal(rename(w.away, w.mask), 0);
        }
        /* The second iteration uses the mask. */
        for (int i = 0; i < 2; i++) {
            assert_int_equal(refiner_begin(refiner, &ITERATION, NULL), STATUS_OK);
            (void)iterate(refiner, &w, -1);
        }
        assert_int_equal(refiner_state(refiner).iteration, 2);
        assert_non_null(refiner_maps(refiner).mask);
        keep_map(refiner, late ? found : wanted);
        refiner_destroy(&refiner);
    }
    assert_memory_equal(wanted, found, sizeof wanted);
}

static void a_stack_that_is_away_is_waited_for(void **state) {
    (void)state;
    static float wanted[VOXELS], found[VOXELS];
    struct world w;
    prepare(&w, "stack");
    for (int stop = -1; stop < 3; stop++) {
        struct refiner *refiner = begin(&w, 100 * BOX * BOX * sizeof(float) * 0x1p-30); /* 50 of 80 images are kept */
        struct err err = {0};
        if (refiner_begin(refiner, &ITERATION, &err) != STATUS_OK) fail_msg("%s", err.message);
        assert_int_equal(iterate(refiner, &w, stop), stop >= 0);
        assert_int_equal(refiner_state(refiner).iteration, 1);
        keep_map(refiner, stop >= 0 ? found : wanted);
        if (stop >= 0) assert_memory_equal(wanted, found, sizeof wanted);
        refiner_destroy(&refiner);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_that_comes_later_is_used),
        cmocka_unit_test(a_stack_that_is_away_is_waited_for),
    };
    return scratch_run("refiner-again", tests, sizeof tests / sizeof *tests);
}
