/* A refinement as it stood at the end of an iteration: its files are written from it while the next iteration runs. */
#ifndef ICESTREAM_STAGES_REFINER_SNAPSHOT_H
#define ICESTREAM_STAGES_REFINER_SNAPSHOT_H

#include "stages/refiner/refiner.h"

struct snapshot; /* the memory for it: of the maps that are written, and of all that is known of the particles */

enum status snapshot_create(struct snapshot **ret_snapshot, struct err *err);
/* Before the refinement's own end, or after snapshot_return. Accepts NULL. */
void snapshot_destroy(struct snapshot **snapshot);

/* Between iterations. From here to snapshot_return the refinement keeps the tables that its particles came from. */
enum status snapshot_take(struct snapshot *snapshot, struct refiner *refiner, struct err *err);
/* From any thread: room for as much as the other has, if that is not much and there is memory for it. Memory that is
 * touched for the first time takes longer than the copy. */
void snapshot_reserve(struct snapshot *snapshot, const struct snapshot *like);
/* Once nobody looks at it any more. Does nothing where nothing was taken. */
void snapshot_return(struct snapshot *snapshot, struct refiner *refiner);

/* As it stood: for refiner_write, refiner_state and refiner_class, from any thread. */
const struct refiner *snapshot_refiner(const struct snapshot *snapshot);

#endif
