/* The memory of a refinement: what is stated, what is auto, and that auto changes nothing on the CPU. */
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
#include "stages/refiner/parameters.h"
#include "stages/refiner/refiner_private.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/few_blobs.h"

enum { VOXELS = BOX * BOX * BOX, COUNT = 80 };
static const double GIB = 0x1p30, IMAGE = BOX * BOX * sizeof(float);

static void expect(double memory, double host, double expected_memory, double expected_host) {
    const struct refiner_options o = {.memory = memory, .host_memory = host};
    if (compare_memory(&o) != expected_memory * GIB || host_memory(&o) != expected_host * GIB)
        fail_msg("memory %g, host_memory %g: %g and %g GiB, not %g and %g", memory, host, compare_memory(&o) / GIB,
                 host_memory(&o) / GIB, expected_memory, expected_host);
}

static void budgets_follow_from_parameters(void **state) {
    (void)state;
    expect(NAN, NAN, 0, 4);
    expect(0, 0, 0, 4);
    expect(0.25, NAN, 0.25, 0.25);
    expect(0.25, 0, 0.25, 0.25);
    expect(0.25, 16, 0.25, 16);
    expect(70, 8, 70, 8);
    expect(NAN, 8, 0, 8);
    expect(0, 8, 0, 8);
}

static void both_are_auto_unless_they_are_stated(void **state) {
    (void)state;
    struct refiner_options o = {0};
    struct err err = {0};
    assert_ok(params_defaults(refiner_parameters, REFINER_PARAMETERS, &o, &err));
    assert_true(isnan(o.memory) && isnan(o.host_memory));
    assert_ok(params_set(refiner_parameters, REFINER_PARAMETERS, &o, "memory", "0", "here", &err));
    assert_ok(params_set(refiner_parameters, REFINER_PARAMETERS, &o, "host-memory", "2.5", "here", &err));
    assert_true(o.memory == 0 && o.host_memory == 2.5);
    assert_ok(params_set(refiner_parameters, REFINER_PARAMETERS, &o, "host_memory", "auto", "here", &err));
    assert_true(isnan(o.host_memory));
    params_clear(refiner_parameters, REFINER_PARAMETERS, &o);
}

/* Runs an iteration and takes its map. */
static void iterate(const char *scratch, const char *reference, double memory, double host, double expected,
                    float *map) {
    struct refiner *refiner = NULL;
    struct star_file *file = NULL;
    struct err err = {0};
    char path[PATH_SIZE];
    bool complete = false;
    struct refiner_options options = few_blobs_options();
    options.reference = (char *)reference;
    options.diameter = 150;
    options.memory = memory;
    options.host_memory = host;
    assert_ok(refiner_create(&options, &(struct refiner_context){.threads = 2}, &refiner, &err));
    assert_ok(path_join(scratch, "a.star", path, sizeof path, &err));
    assert_ok(star_read(path, &file, &err));
    assert_ok(refiner_merge(refiner, &file, path, false, NULL, &err));
    assert_ok(refiner_begin(refiner, &(struct refiner_iteration){.max_order = 0}, &err));
    assert_true(alignment_memory(refiner->alignment) == expected * GIB);
    assert_int_equal(refiner->set.cache_limit, (size_t)(host_memory(&options) / 2));
    while (!complete)
        assert_ok(refiner_work(refiner, &complete, &err));
    memcpy(map, refiner_maps(refiner).half1, sizeof(float) * VOXELS);
    refiner_destroy(&refiner);
}

static void auto_gives_the_bytes_of_4_gib(void **state) {
    (void)state;
    static float map[VOXELS], wanted[VOXELS], found[VOXELS];
    static struct object object;
    char scratch[PATH_SIZE], reference[PATH_SIZE];
    struct err err = {0};
    scratch_path("memory", scratch);
    assert_ok(file_make_folders(scratch, 0755, &err));
    srand(12);
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(scratch, "reference.mrc", map, reference);
    write_particles(scratch, "a", &object, 1, COUNT, 1.0);
    iterate(scratch, reference, 4, 4, 4, wanted);
    iterate(scratch, reference, NAN, NAN, 4, found);
    assert_memory_equal(wanted, found, sizeof wanted);
    iterate(scratch, reference, 0, 0, 4, found);
    assert_memory_equal(wanted, found, sizeof wanted);
    /* Half of the images are kept, whatever the device may take. */
    iterate(scratch, reference, 2, COUNT * IMAGE / GIB, 2, found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_follow_from_parameters),
        cmocka_unit_test(both_are_auto_unless_they_are_stated),
        cmocka_unit_test(auto_gives_the_bytes_of_4_gib),
    };
    return scratch_run("refiner-memory", tests, sizeof tests / sizeof *tests);
}
