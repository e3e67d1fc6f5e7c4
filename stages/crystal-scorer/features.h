/* The numbers that the forest sees of an image: those of kernels/drop_features and kernels/texture, of the circle around
 * the drop's centre. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_FEATURES_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_FEATURES_H

#include <stdbool.h>

#include "common/formats/image.h"
#include "kernels/drop_features/drop_features.h"
#include "kernels/drop_find/drop_find.h"
#include "kernels/texture/texture.h"

enum {
    /* Of all of them: models, and features that were kept, are refused where theirs is another. Another set, or another
     * meaning of any number, here or in the kernels, is another version. */
    FEATURES_VERSION = 1,
    FEATURES_DIAMETER = 4096, /* px, at most, also of the stride; with texture TEXTURE_DIAMETER */
    FEATURES_TEXTURE = TEXTURE_QUANTISATIONS * TEXTURE_LENGTHS * TEXTURE_FEATURES * TEXTURE_AGGREGATES,
    FEATURES_MOST = DROP_FEATURES_COUNT + FEATURES_TEXTURE
};

/* Statistics: mean, deviation, histogram and the like alone; simple: all of kernels/drop_features; all: texture too. */
enum features_groups { FEATURES_ALL, FEATURES_SIMPLE, FEATURES_STATISTICS };
#define FEATURES_GROUPS_CHOICES "all|simple|statistics"

struct features_options {
    enum features_groups groups;
    int diameter, window, stride; /* px */
};

int features_count(enum features_groups groups);
const char *features_groups_name(enum features_groups groups); /* "all", "simple" or "statistics" */
/* How likely a forest should try each, [features_count]: what they are about (statistics, grey-level changes, lines,
 * strips, topology, texture) counts alike, whatever the number of features that tell of it; texture has 2,925 of 3,150. */
void features_weights(enum features_groups groups, float *ret_weights);

/* One image on its way; buffers are kept from image to image. A thread at a time. On a CUDA device each has the
 * memory of its own texture there: 0.4 GiB at a diameter of 200 px, 4 GiB at 1,024. */
struct features {
    struct features_options options;
    bool with_texture; /* the groups need it, or it is to be kept */
    struct drop_find *find;
    struct drop_features *simple;
    struct texture *texture;
    struct image image;
    struct texture_features of_texture;
    float vector[FEATURES_MOST]; /* simple ones first */
    int centre[2];
    bool fills; /* no edge of a drop is seen: the image lies within it, and the centre is the image's */
};

enum status features_create(const struct features_options *options, bool with_texture, int threads,
                            const struct device *device, struct features **ret_features, struct err *err);
void features_destroy(struct features **features);

/* Reads the image, finds the drop (centre NULL) or takes the centre as it is, and computes the simple features. A drop so
 * near the edge that its circle would leave the image is seen from as far inside as it must be; a centre that was given
 * is not moved. STATUS_NOT_FOUND: no drop; STATUS_BAD_FORMAT: no image, or one that is smaller than the circle. */
enum status features_load(struct features *features, const char *path, const int centre[2], struct err *err);
/* The texture: on a device it is queued, and features_finish waits for it. */
enum status features_start(struct features *features, struct err *err);
enum status features_finish(struct features *features, struct err *err);

#endif
