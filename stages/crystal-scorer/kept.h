/* Keeps features in files, IMAGE_features.npy and IMAGE_simple.npy, beside features.json, which holds their
 * settings. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_KEPT_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_KEPT_H

#include "stages/crystal-scorer/features.h"

/* Writes features.json. centre: set for all images; NULL: found in each image. */
enum status kept_begin(const char *folder, const struct features_options *options, const int centre[2],
                       struct err *err);
/* Compares features.json with the present settings. STATUS_BAD_ARGUMENT: the kept features have other settings, another
 * centre or another version. */
enum status kept_check(const char *folder, const struct features_options *options, const int centre[2],
                       struct err *err);
/* Writes the features of one image. texture, simple: paths of the two files. */
enum status kept_write(const char *texture, const char *simple, const struct features *features, struct err *err);
/* Reads kept features instead of features_load, features_start and features_finish. id: of the item. Reads texture only
 * if features->with_texture. */
enum status kept_read(const char *folder, const char *id, struct features *features, struct err *err);

#endif
