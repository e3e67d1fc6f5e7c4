/* Writes the files of a classification. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_CLASSES_OUTPUT_H
#define ICESTREAM_STAGES_REFINER_FILES_CLASSES_OUTPUT_H

#include "stages/refiner/refiner_private.h"

/* Writes the files of an iteration and, after the last iteration, those of the end. folder, prefix, keep: as
 * refiner_write has them. */
enum status classes_write(const struct refiner *refiner, const char *folder, const char *prefix, int keep,
                          struct err *err);
/* Removes the files of an iteration. */
void classes_remove_iteration(const struct refiner *refiner, const char *folder, int iteration);

#endif
