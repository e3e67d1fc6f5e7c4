/* Runs the refiner in this process, on particles that a test has written. */
#ifndef ICESTREAM_TESTS_STAGES_REFINER_RUNS_H
#define ICESTREAM_TESTS_STAGES_REFINER_RUNS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/harness/stage.h"
#include "common/harness/stage_private.h"
#include "stages/refiner/refiner.h"
#include "tests/stages/blobs.h"

static inline void put_float(const char *folder, const char *name, long offset, float value) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, offset, SEEK_SET), 0);
    assert_int_equal(fwrite(&value, sizeof value, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

static inline struct item *particles_item(const char *name, const char *kind, const char *folder) {
    struct item *item = NULL;
    char member[32], path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s.star", folder, name);
    snprintf(member, sizeof member, "%s.star", kind);
    assert_int_equal(item_create(name, kind, &item, NULL), STATUS_OK);
    assert_int_equal(item_set_string(item, member, path, NULL), STATUS_OK);
    return item;
}

/* parameters: names and values in turn, NULL at the end. Destroys the items. */
static inline void run_refiner(const char *folder, const char *const *parameters, struct item **items, size_t count) {
    struct item **out = NULL;
    size_t out_count = 0;
    struct err err = {0};
    if (stage_run_in_process(&refiner_stage, folder, parameters, items, count, &out, &out_count, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < out_count; i++)
        item_destroy(&out[i]);
    free(out);
    for (size_t i = 0; i < count; i++)
        item_destroy(&items[i]);
}

static inline void run_classes_within(const char *folder, const char *reference, const char *diameter,
                                      const char *iterations, const char *least, const char *classes,
                                      struct item **items, size_t count) {
    const char *parameters[] = {
        "reference",     reference, "diameter", diameter, "initial_lowpass", "50",       "healpix_order", "1",
        "live_order",    "1",       "classes",  classes,  "max_iterations",  iterations, "offset_range",  "3",
        "min_particles", least,     NULL};
    run_refiner(folder, parameters, items, count);
}

static inline void run_within(const char *folder, const char *reference, const char *diameter, const char *iterations,
                              const char *least, struct item **items, size_t count) {
    run_classes_within(folder, reference, diameter, iterations, least, "1", items, count);
}

static inline void read_map(const char *folder, const char *name, float *map) {
    char path[PATH_SIZE];
    struct image image = {0};
    assert_int_equal(path_join(folder, name, path, sizeof path, NULL), STATUS_OK);
    assert_int_equal(mrc_read(path, &image, NULL), STATUS_OK);
    assert_int_equal(image.nx, BOX);
    assert_true(fabs(image.pixel_size - PIXEL) < 1e-3);
    memcpy(map, image.data, sizeof(float) * BOX * BOX * BOX);
    image_destroy(&image);
}

#endif
