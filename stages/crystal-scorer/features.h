/* Computes the features of an image for the forest: those of kernels/drop_features and kernels/texture, in the circle
 * around the drop's centre. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_FEATURES_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_FEATURES_H

#include <stdbool.h>

#include "common/formats/image.h"
#include "kernels/drop_features/drop_features.h"
#include "kernels/drop_find/drop_find.h"
#include "kernels/texture/texture.h"

enum {
    /* Version of the features. Models and kept features of another version are refused. Any change of the set, or of
     * the meaning of a number, here or in the kernels, needs a new version. */
    FEATURES_VERSION = 1,
    FEATURES_DIAMETER = 4096, /* px, largest diameter and stride; with texture TEXTURE_DIAMETER */
    FEATURES_TEXTURE = TEXTURE_QUANTISATIONS * TEXTURE_LENGTHS * TEXTURE_FEATURES * TEXTURE_AGGREGATES,
    FEATURES_MOST = DROP_FEATURES_COUNT + FEATURES_TEXTURE
};

/* Statistics: only mean, deviation, histogram and the like; simple: all of kernels/drop_features; all: texture too. */
enum features_groups { FEATURES_ALL, FEATURES_SIMPLE, FEATURES_STATISTICS };
#define FEATURES_GROUPS_CHOICES "all|simple|statistics"

struct features_options {
    enum features_groups groups;
    int diameter, window, stride; /* px */
};

int features_count(enum features_groups groups);
const char *features_groups_name(enum features_groups groups); /* "all", "simple" or "statistics" */
/* Computes how likely a forest should try each feature, [features_count]: each group (statistics, grey-level changes,
 * lines, strips, topology, texture) has the same weight, whatever its number of features; texture has 2,925 of
 * 3,150. */
void features_weights(enum features_groups groups, float *ret_weights);

/* The features of one image; buffers are kept from image to image. Used by one thread at a time. On a CUDA device each
 * has its own memory for texture: 0.4 GiB at a diameter of 200 px, 4 GiB at 1,024. */
struct features {
    struct features_options options;
    bool with_texture; /* the groups need texture, or it is to be kept */
    struct drop_find *find;
    struct drop_features *simple;
    struct texture *texture;
    struct image image;
    struct texture_features of_texture;
    float vector[FEATURES_MOST]; /* simple features first */
    int centre[2];
    bool fills; /* no edge of a drop is visible: the image lies within the drop, and its centre is used */
};

enum status features_create(const struct features_options *options, bool with_texture, int threads,
                            const struct device *device, struct features **ret_features, struct err *err);
void features_destroy(struct features **features);

/* Reads the image, finds the drop (centre NULL) or takes the centre as it is, and computes the simple features. If the
 * circle of a found drop would leave the image, its centre is moved inwards as far as needed; a given centre is not
 * moved. STATUS_NOT_FOUND: no drop; STATUS_BAD_FORMAT: no image, or one smaller than the circle. */
enum status features_load(struct features *features, const char *path, const int centre[2], struct err *err);
/* Starts the texture: a device queues it, and features_finish waits for it. */
enum status features_start(struct features *features, struct err *err);
enum status features_finish(struct features *features, struct err *err);

#endif
