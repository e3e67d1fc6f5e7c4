/* Writes the files of a snapshot on a thread of its own, one snapshot at a time, while the classification goes on. All
 * calls come from the computing thread. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_WRITER_H
#define ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_WRITER_H

#include "common/harness/stage.h"
#include "stages/classifier/snapshot.h"

struct snapshot_writer;

enum status snapshot_writer_create(struct stage *stage, struct snapshot_writer **ret_writer, struct err *err);
/* Waits for the files that are being written; accepts NULL. Call it before the classification is cleared. */
void snapshot_writer_destroy(struct snapshot_writer **writer);

/* Copies the classification and returns while the files, the links and the line of history are written. Before this,
 * snapshot_writer_end must have returned the outcome of the snapshot before. Until then the choices by hand must not
 * change, nor the selections of the snapshot. */
enum status snapshot_writer_begin(struct snapshot_writer *writer, struct classifier *classifier,
                                  const struct snapshot *snapshot, struct err *err);
/* Returns whether a snapshot was begun whose outcome was not returned yet. */
bool snapshot_writer_busy(const struct snapshot_writer *writer);
/* Returns whether the snapshot that was begun is written, or has failed. Waits so many seconds at most. */
bool snapshot_writer_done(struct snapshot_writer *writer, double seconds);
/* Waits for the snapshot that was begun, and returns the outcome. ret_snapshot: as snapshot_write completes it;
 * ret_classifier: the copy. Both are valid until the next call of snapshot_writer_begin. */
enum status snapshot_writer_end(struct snapshot_writer *writer, const struct snapshot **ret_snapshot,
                                struct classifier **ret_classifier, struct err *err);

#endif
