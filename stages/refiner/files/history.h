/* Writes history.jsonl: a line for each iteration, with the maps that it has written, and for each new first map. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_HISTORY_H
#define ICESTREAM_STAGES_REFINER_FILES_HISTORY_H

#include "stages/refiner/refiner.h"

/* Appends the line of an iteration. prefix: the folder's name relative to the session. */
enum status history_write(const char *folder, const char *prefix, const struct refiner_state *state, struct err *err);
/* Appends that the first map of an attempt has replaced that of another one, and the refinement begins again. gain: standard
 * errors by which it is better. */
enum status history_write_first_map(const char *folder, int attempt, int replaced, size_t particles, double gain,
                                    struct err *err);

#endif
