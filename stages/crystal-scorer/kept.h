/* Keeps features in files, IMAGE_features.npy and IMAGE_simple.npy, beside features.json, which holds their
 * settings. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_KEPT_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_KEPT_H

#include "stages/crystal-scorer/features.h"

/* Writes features.json. centre: set for all images; NULL: found in each image. */
enum status kept_begin(const char *folder, const struct features_options *options, const int centre[2],
                       struct err *err);
/* STATUS_BAD_ARGUMENT: the features in the folder have other settings, another centre or another version. */
enum status kept_check(const char *folder, const struct features_options *options, const int centre[2],
                       struct err *err);
/* texture, simple: paths. */
enum status kept_write(const char *texture, const char *simple, const struct features *features, struct err *err);
/* Replaces features_load, _start and _finish. id: the item's. Reads texture if features->with_texture. */
enum status kept_read(const char *folder, const char *id, struct features *features, struct err *err);

#endif
