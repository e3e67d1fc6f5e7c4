/* Makes particles for tests of the classifier: three shapes, turned, shifted and noisy, and images of noise, in stacks
 * with tables as the extractor writes them. */
#ifndef ICESTREAM_TESTS_STAGES_SHAPES_H
#define ICESTREAM_TESTS_STAGES_SHAPES_H

#include <limits.h>
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
#include "common/formats/mrc.h"
#include "stages/classifier/classifier.h"

enum { BOX = 32, SHAPES = 3, PER_SHAPE = 70, NOISE = 30, COUNT = SHAPES * PER_SHAPE + NOISE, PARTS = 3 };

static char folder[PATH_MAX];
static double angles[COUNT]; /* at which each particle was drawn, from +x towards +y */

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        struct err err = {0};                                                                                          \
        if ((call) != STATUS_OK) fail_msg("%s:%d: %s", err.file, err.line, err.message);                               \
    } while (0)

static inline double uniform(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) / 16777216.0;
}

static inline double gaussian(unsigned *state) {
    double u = uniform(state), v = uniform(state);
    return sqrt(-2 * log(u + 1e-12)) * cos(2 * M_PI * v);
}

/* Blobs of each shape: (x, y, width) in px. No rotation turns one shape into another. */
static const double BLOBS[SHAPES][3][3] = {
    {{-6, 0, 2}, {6, 0, 2}, {0, 0, 2}},
    {{0, 6, 3}, {-5, -3, 2}, {5, -3, 2}},
    {{0, 0, 4.5}, {4, 4, 1.5}, {5, 3, 1.5}},
};

/* Returns the shape of particle i: i % 4, where 3 is noise only. Once all noise images are used up, only shapes follow.
 */
static inline int shape_of(int i) {
    return i < 4 * NOISE ? i % 4 : i % SHAPES;
}

static inline void draw(int i, float *image, unsigned *random) {
    double psi = 2 * M_PI * uniform(random), sx = 4 * uniform(random) - 2, sy = 4 * uniform(random) - 2;
    double c = cos(psi), s = sin(psi);
    angles[i] = psi;
    int shape = shape_of(i);
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            double px = x - BOX / 2 - sx, py = y - BOX / 2 - sy, value = 0;
            for (int b = 0; b < 3 && shape < SHAPES; b++) {
                const double *blob = BLOBS[shape][b];
                double dx = px - (c * blob[0] - s * blob[1]), dy = py - (s * blob[0] + c * blob[1]);
                value += exp(-(dx * dx + dy * dy) / (2 * blob[2] * blob[2]));
            }
            image[y * BOX + x] = (float)(1.2 * value + gaussian(random));
        }
}

/* Writes PARTS tables with a stack each, as the extractor does; the column truth holds the shape. */
static inline int make_particles(void **state) {
    (void)state;
    unsigned random = 12345;
    printf("seed %u\n", random);
    strcpy(folder, "/tmp/test_classifier_XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (int part = 0; part < PARTS; part++) {
        char stack[PATH_MAX], star[PATH_MAX], text[16384] = "";
        int first = part * COUNT / PARTS, last = (part + 1) * COUNT / PARTS;
        size_t length = 0;
        struct image image = {0};
        OK(image_resize(&image, BOX, BOX, last - first, &err));
        image.pixel_size = 4;
        length += (size_t)snprintf(text, sizeof text,
                                   "data_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnOpticsGroupName #2\n_rlnVoltage #3\n"
                                   "_rlnImagePixelSize #4\n_rlnImageSize #5\n1 og 300 4.0 %d\n\n\ndata_particles\n\n"
                                   "loop_\n_rlnImageName #1\n_rlnOpticsGroup #2\n_truth #3\n",
                                   BOX);
        for (int i = first; i < last; i++) {
            draw(i, image.data + (size_t)(i - first) * BOX * BOX, &random);
            length += (size_t)snprintf(text + length, sizeof text - length, "%06d@part%d.mrcs 1 %d\n", i - first + 1,
                                       part, shape_of(i));
        }
        assert_true(length < sizeof text - 2);
        strcat(text, "\n");
        snprintf(stack, sizeof stack, "%.200s/part%d.mrcs", folder, part);
        snprintf(star, sizeof star, "%.200s/part%d.star", folder, part);
        OK(mrc_write(stack, &image, MRC_STACK, MRC_FLOAT32, &err));
        OK(file_write_whole(star, text, strlen(text), &err));
        image_destroy(&image);
    }
    return 0;
}

static inline int remove_particles(void **state) {
    (void)state;
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

static inline enum status resolve(void *context, const char *star_path, const char *name, char *absolute,
                                  struct err *err) {
    (void)context;
    char beside[PATH_MAX];
    TRY(path_folder(star_path, beside, sizeof beside, err));
    return path_join(beside, name, absolute, PATH_MAX, err);
}

static inline void submit(struct dataset *dataset, int part) {
    char star[PATH_MAX];
    struct dataset_batch *batch = NULL;
    snprintf(star, sizeof star, "%.200s/part%d.star", folder, part);
    OK(dataset_batch_read(star, resolve, NULL, NAN, false, &batch, &err));
    OK(dataset_submit(dataset, &batch, &err));
    assert_null(batch);
}

static inline struct classifier_options options_of(int classes) {
    struct classifier_options o = {.classes = classes,
                                   .diameter = 100,
                                   .tau_fudge = 2,
                                   .psi_step = 12,
                                   .offset_range = 4,
                                   .offset_step = 2,
                                   .resolution = 8,
                                   .particles_per_class = 25,
                                   .minimum_particles = 60,
                                   .visits = 5,
                                   .final_passes = 4,
                                   .threads = 2,
                                   .device = {.kind = DEVICE_CPU},
                                   .memory = 1,
                                   .seed = 3,
                                   .off_centre = NAN};
    OK(quality_rule_parse("auto", &o.rule, &err));
    return o;
}

/* Ends a classification, and its particles with it. */
static inline void shapes_end(struct classifier *c) {
    struct dataset *dataset = c->dataset;
    classifier_clear(c);
    dataset_destroy(&dataset);
}

/* Classifies particles that come during the work. */
static inline void shapes_classify(struct classifier *c) {
    struct classifier_progress progress = {0};
    for (int part = 0; part < PARTS; part++) {
        submit(c->dataset, part);
        for (int i = 0; i < 6; i++)
            OK(classifier_step(c, false, &progress, &err));
    }
    do
        OK(classifier_step(c, true, &progress, &err));
    while (progress.more);
}

/* Returns the shape of a particle, from its table. */
static inline int shapes_truth(struct dataset *dataset, size_t index) {
    size_t row;
    long value = -1;
    const struct star_table *table = dataset_row(dataset, index, &row);
    OK(star_get_integer(table, row, star_column_find(table, "truth"), &value, &err));
    return (int)value;
}

#endif
