/* Features that are kept in files, IMAGE_features.npy and IMAGE_simple.npy, beside features.json, which says what they
 * are of. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_KEPT_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_KEPT_H

#include "stages/crystal-scorer/features.h"

/* centre: the one that was set for all images; NULL: it was looked for in each. */
enum status kept_begin(const char *folder, const struct features_options *options, const int centre[2],
                       struct err *err);
/* STATUS_BAD_ARGUMENT where what is kept in the folder is of other settings, another centre or another version. */
enum status kept_check(const char *folder, const struct features_options *options, const int centre[2],
                       struct err *err);
/* texture, simple: paths. */
enum status kept_write(const char *texture, const char *simple, const struct features *features, struct err *err);
/* Instead of features_load, _start and _finish. id: the item's; texture is read where features->with_texture. */
enum status kept_read(const char *folder, const char *id, struct features *features, struct err *err);

#endif
