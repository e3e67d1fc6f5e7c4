/* Refines the same particles with one worker and with several, and compares all files of each iteration byte by byte.
 * Some images are twins of others, which an iteration leaves out when it meets them. */
#ifndef ICESTREAM_TESTS_STAGES_REFINER_SEVERAL_H
#define ICESTREAM_TESTS_STAGES_REFINER_SEVERAL_H

#include <dirent.h>
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

enum { TWINS = 3 };

struct several_case {
    const char *name;
    struct device device;
    int particles, classes, iterations, order;
    int part_particles;         /* of a classification; 0: all in each iteration */
    double memory, host_memory; /* GiB */
};

/* Gives images of the second half of the stack the pixels of others. */
static inline void make_twins(const char *stack, int count) {
    enum { HEADER = 1024 };
    static float image[BOX * BOX];
    FILE *f = fopen(stack, "r+");
    assert_non_null(f);
    for (int t = 0; t < TWINS; t++) {
        long from = 5 + 17 * t, to = count / 2 + 11 * t;
        assert_int_equal(fseek(f, HEADER + from * (long)sizeof image, SEEK_SET), 0);
        assert_int_equal(fread(image, sizeof image, 1, f), 1);
        assert_int_equal(fseek(f, HEADER + to * (long)sizeof image, SEEK_SET), 0);
        assert_int_equal(fwrite(image, sizeof image, 1, f), 1);
    }
    assert_int_equal(fclose(f), 0);
}

static inline void several_prepare(const struct several_case *c, char *scratch, char *reference) {
    static float map[BOX * BOX * BOX];
    static struct object object;
    char stack[PATH_SIZE + 16];
    scratch_path(c->name, scratch);
    assert_int_equal(file_make_folders(scratch, 0755, NULL), STATUS_OK);
    srand(17);
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(scratch, "reference.mrc", map, reference);
    write_particles(scratch, "a", &object, 1, c->particles, 1.0);
    snprintf(stack, sizeof stack, "%s/a.mrcs", scratch);
    make_twins(stack, c->particles);
}

static inline void must_be(enum status status, const struct err *err) {
    if (status != STATUS_OK) fail_msg("%s", err->message);
}

static inline struct refiner_context several_context(const struct several_case *c, int workers) {
    struct refiner_context context = {.threads = 2, .device = c->device, .device_count = workers};
    for (int i = 0; i < workers; i++)
        context.devices[i] = c->device;
    return context;
}

static inline struct refiner_options several_options(const struct several_case *c, char *reference) {
    struct refiner_options options = few_blobs_options();
    options.reference = reference;
    options.diameter = 150;
    options.classes = c->classes;
    options.healpix_order = c->order;
    options.iterations = c->part_particles > 0 ? c->iterations : 25;
    options.part_particles = c->part_particles;
    options.memory = c->memory;
    options.host_memory = c->host_memory;
    return options;
}

static inline void several_merge(struct refiner *refiner, const char *scratch, const char *name) {
    struct star_file *file = NULL;
    struct err err = {0};
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s.star", scratch, name);
    must_be(star_read(path, &file, &err), &err);
    must_be(refiner_merge(refiner, &file, path, false, NULL, &err), &err);
}

/* Runs the iterations, and writes the files of each into a folder of its own below `folder`. */
static inline void several_refine(const struct several_case *c, const char *scratch, char *reference, int workers,
                                  char *folder) {
    struct refiner *refiner = NULL;
    struct err err = {0};
    const struct refiner_options options = several_options(c, reference);
    const struct refiner_context context = several_context(c, workers);
    snprintf(folder, PATH_SIZE, "%s/%d", scratch, workers);
    must_be(file_make_folders(folder, 0755, &err), &err);
    must_be(refiner_create(&options, &context, &refiner, &err), &err);
    several_merge(refiner, scratch, "a");
    for (int i = 0; i < c->iterations; i++) {
        bool complete = false;
        const struct refiner_iteration iteration = {.max_order = c->part_particles > 0 ? -1 : 0};
        must_be(refiner_begin(refiner, &iteration, &err), &err);
        while (!complete)
            must_be(refiner_work(refiner, &complete, &err), &err);
        must_be(refiner_write(refiner, folder, "", 0, &err), &err);
    }
    assert_int_equal(refiner_state(refiner).twins, TWINS);
    refiner_destroy(&refiner);
}

/* Returns how many files of `a` are the same in `b`: all. */
static inline int several_compare(const char *a, const char *b) {
    int count = 0;
    DIR *folder = opendir(a);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[PATH_SIZE], *text[2] = {NULL, NULL};
        size_t length[2];
        const char *const folders[2] = {a, b};
        if (entry->d_name[0] == '.') continue;
        for (int i = 0; i < 2; i++) {
            struct err err = {0};
            must_be(path_join(folders[i], entry->d_name, path, sizeof path, &err), &err);
            must_be(file_read_whole(path, 1 << 26, &text[i], &length[i], &err), &err);
        }
        if (length[0] != length[1] || memcmp(text[0], text[1], length[0]) != 0)
            fail_msg("%s differs in %s and %s", entry->d_name, a, b);
        free(text[0]);
        free(text[1]);
        count++;
    }
    assert_int_equal(closedir(folder), 0);
    return count;
}

static inline void several_check(const struct several_case *c) {
    enum { MOST = 3 };
    char scratch[PATH_SIZE], reference[PATH_SIZE], folders[MOST][PATH_SIZE];
    several_prepare(c, scratch, reference);
    for (int workers = 1; workers <= MOST; workers++) {
        several_refine(c, scratch, reference, workers, folders[workers - 1]);
        if (workers == 1) continue;
        int files = several_compare(folders[0], folders[workers - 1]);
        assert_true(files >= 5 * c->iterations);
        assert_int_equal(files, several_compare(folders[workers - 1], folders[0]));
    }
}

#endif
