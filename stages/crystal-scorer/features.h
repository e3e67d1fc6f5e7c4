/* Computes the features that the forest reads from an image: features of kernels/drop_features and kernels/texture in
 * the circle around the drop's centre. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_FEATURES_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_FEATURES_H

#include <stdbool.h>

#include "common/formats/image.h"
#include "kernels/drop_features/drop_features.h"
#include "kernels/drop_find/drop_find.h"
#include "kernels/texture/texture.h"

enum {
    /* Version of the features. Models and kept features of another version are refused. Raise it if a feature is added,
     * removed or computed differently, here or in the kernels. */
    FEATURES_VERSION = 1,
    FEATURES_DIAMETER = 4096, /* px, largest diameter and stride; with texture the largest is TEXTURE_DIAMETER */
    FEATURES_TEXTURE = TEXTURE_QUANTISATIONS * TEXTURE_LENGTHS * TEXTURE_FEATURES * TEXTURE_AGGREGATES,
    FEATURES_MOST = DROP_FEATURES_COUNT + FEATURES_TEXTURE
};

/* Statistics: mean, deviation, histogram and the like (the features before DROP_FEATURES_GRADIENT). Simple: all
 * features of kernels/drop_features. All: simple features and texture. */
enum features_groups { FEATURES_ALL, FEATURES_SIMPLE, FEATURES_STATISTICS };
#define FEATURES_GROUPS_CHOICES "all|simple|statistics"

struct features_options {
    enum features_groups groups;
    int diameter, window, stride; /* px */
};

/* Returns the number of features in groups. */
int features_count(enum features_groups groups);
/* Returns "all", "simple" or "statistics". */
const char *features_groups_name(enum features_groups groups);
/* Computes the relative probability with which a forest tries each feature: ret_weights[features_count]. The weights of
 * each group (statistics, grey-level changes, lines, strips, topology, texture) sum to 1. With equal weights texture
 * would dominate: it has 2,925 of 3,150 features. */
void features_weights(enum features_groups groups, float *ret_weights);

/* The features of one image, with buffers that are kept from image to image. Only one thread at a time may use a struct
 * features. On a CUDA device each struct features takes memory for texture: 0.4 GiB at a diameter of 200 px, 4 GiB at
 * 1,024 px. */
struct features {
    struct features_options options;
    bool with_texture; /* texture is computed: options.groups needs it, or the caller keeps it in a file */
    struct drop_find *find;
    struct drop_features *simple;
    struct texture *texture;
    struct image image;
    struct texture_features of_texture;
    float vector[FEATURES_MOST]; /* simple features, then texture */
    int centre[2];               /* x, y of the drop, px from 0 */
    bool fills; /* no edge of a drop is visible: the image lies within the drop, and `centre` is the image's centre */
};

/* Creates the buffers. with_texture: computes texture even if the options do not need it. */
enum status features_create(const struct features_options *options, bool with_texture, int threads,
                            const struct device *device, struct features **ret_features, struct err *err);
void features_destroy(struct features **features);

/* Checks that a file holds one image; path: for the message. */
enum status features_check_one(const char *path, int nz, struct err *err);
/* Reads the image and computes the simple features around `centre` (x, y in px). centre NULL: finds the drop, and moves
 * the drop's centre inwards as far as the circle would leave the image. STATUS_NOT_FOUND: no drop was found.
 * STATUS_BAD_FORMAT: the file is no image, or the image is smaller than the circle. */
enum status features_load(struct features *features, const char *path, const int centre[2], struct err *err);
/* Starts to compute texture. A device queues the work. Does nothing without texture, like features_finish. */
enum status features_start(struct features *features, struct err *err);
/* Waits for the texture and puts it into `vector`. */
enum status features_finish(struct features *features, struct err *err);

#endif
