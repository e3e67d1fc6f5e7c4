/* Tells movies from other images that acquisition programs write beside them. */
#ifndef ICESTREAM_STAGES_WATCHER_MOVIE_FILES_H
#define ICESTREAM_STAGES_WATCHER_MOVIE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/image.h"
#include "common/status.h"

/* Probes a file as image_probe does, and EER too. ret_info->nz: the images in the file (in EER, the frames of the
 * detector); bytes: not set. */
enum status movie_file_probe(const char *path, struct image_info *ret_info, struct err *err);

/* Returns whether a file of one image is no movie but a gain reference or the sum of a movie: its pixels are no counts
 * (floats), its name says so (gain, CountRef, SuperRef, SumRef, dark, sum), or a movie of several frames lies beside it under
 * its name. Movies of EPU then have "_Fractions" or "_EER" behind that name, others "_frames" or ".frames"; case does
 * not matter in the ending alone. info: from movie_file_probe. reason[size] says why. */
bool movie_file_is_none(const char *path, const struct image_info *info, char *reason, size_t size);

#endif
