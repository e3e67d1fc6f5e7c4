/* Writes history.jsonl: a line for each iteration, with the maps that it has written. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_HISTORY_H
#define ICESTREAM_STAGES_REFINER_FILES_HISTORY_H

#include "stages/refiner/refiner.h"

/* Appends the line of an iteration. prefix: the folder's name relative to the session. */
enum status history_write(const char *folder, const char *prefix, const struct refiner_state *state, struct err *err);

#endif
