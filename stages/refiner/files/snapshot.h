/* Copies a refinement at the end of an iteration: its files are written from the copy while the next iteration runs. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_SNAPSHOT_H
#define ICESTREAM_STAGES_REFINER_FILES_SNAPSHOT_H

#include "stages/refiner/refiner.h"

struct snapshot; /* memory for the maps that are written, and for what is known of the particles */

/* Creates memory for a copy; it grows with the first copy. */
enum status snapshot_create(struct snapshot **ret_snapshot, struct err *err);
/* Call it before the refinement is destroyed, or after snapshot_return. Accepts NULL. */
void snapshot_destroy(struct snapshot **snapshot);

/* Takes the copy. Call it between iterations. Until snapshot_return the refinement keeps the tables of its
 * particles. */
enum status snapshot_take(struct snapshot *snapshot, struct refiner *refiner, struct err *err);
/* Reserves as much room as `like` has, if that is not much and memory is free: memory that is used for the first
 * time takes longer than the copy itself. May be called from any thread. */
void snapshot_reserve(struct snapshot *snapshot, const struct snapshot *like);
/* Gives the copy back when nobody uses it any more. Does nothing if there is none. */
void snapshot_return(struct snapshot *snapshot, struct refiner *refiner);

/* Measures the copy's directions of view, and after the last iteration what follows from them; of a classification
 * nothing is known. Call it before the copy is written, from any thread. */
enum status snapshot_measure(struct snapshot *snapshot, struct orientations *ret_views, struct err *err);

/* Returns the copy, for refiner_write, refiner_state and refiner_class, from any thread. */
const struct refiner *snapshot_refiner(const struct snapshot *snapshot);

#endif
