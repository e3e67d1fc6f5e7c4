/* Keeps the maps of a search in two files, so that picks can be chosen again with another threshold:
 *   MIC_maps.mrcs  stack of float maps, work × work: image, mu and sigma of struct search_maps, then scores and
 *                  rotations of each template
 *   MIC_maps.json  description of the maps: the micrograph's name, struct pick_geometry (without band), deviation,
 *                  noise and terms */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_MAPS_FILE_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_MAPS_FILE_H

#include "common/formats/image.h"
#include "common/status.h"
#include "stages/lowpass-picker/geometry.h"

#define MAPS_SUFFIX "_maps.mrcs"

/* Writes both files. path: of the stack, ends in MAPS_SUFFIX. micrograph: name that the description records. `scratch`
 * is reused from call to call. STATUS_BAD_ARGUMENT: the maps of each template are missing. */
enum status maps_file_write(const char *path, const char *micrograph, const struct pick_maps *maps,
                            struct image *scratch, struct err *err);
/* Reads both files into `maps`. STATUS_NOT_FOUND: no maps were kept. STATUS_BAD_ARGUMENT: the maps belong to another
 * micrograph; only file names are compared, since folders move. STATUS_BAD_FORMAT, STATUS_UNSUPPORTED: this version did
 * not write the files. */
enum status maps_file_read(const char *path, const char *micrograph, struct pick_maps *maps, struct image *scratch,
                           struct err *err);

#endif
