/* Keeps the maps of a search in files, so that picks can be chosen again with another threshold:
 *   MIC_maps.mrcs  stack of work × work floats: image, mean, deviation, then score and rotation of each template
 *   MIC_maps.json  what they mean: micrograph, sizes, particle, noise, terms of the templates */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_MAPS_FILE_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_MAPS_FILE_H

#include "common/formats/image.h"
#include "common/status.h"
#include "stages/lowpass-picker/geometry.h"

#define MAPS_SUFFIX "_maps.mrcs"

/* Writes maps, which must include those of each template. path ends in MAPS_SUFFIX; `scratch` keeps its memory. */
enum status maps_file_write(const char *path, const char *micrograph, const struct pick_maps *maps,
                            struct image *scratch, struct err *err);
/* STATUS_BAD_ARGUMENT: the maps belong to another micrograph (compared by file name, since folders move). */
enum status maps_file_read(const char *path, const char *micrograph, struct pick_maps *maps, struct image *scratch,
                           struct err *err);

#endif
