/* Writes files, history and log line of an iteration while the next one runs. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_WRITER_H
#define ICESTREAM_STAGES_REFINER_FILES_WRITER_H

#include "common/harness/stage.h"
#include "stages/refiner/refiner.h"

struct writer;

/* Returns the stage's folder relative to the session: paths in STAR files begin with it. */
const char *writer_prefix(const struct stage *stage);

/* Creates a writer. keep: the number of iterations whose files stay. */
enum status writer_create(struct stage *stage, struct refiner *refiner, int keep, struct writer **ret_writer,
                          struct err *err);
/* Waits for files that are being written. Call it before the refiner is destroyed; accepts NULL. */
void writer_destroy(struct writer **writer);

/* Copies what an iteration writes, and returns while the files are being written. Call it after each iteration. remark:
 * follows the resolution where the stage says how it stands; a constant text.
 *
 * The function first waits if the files of two iterations are still in progress. Iterations are written in order, and
 * the line in history.jsonl, which announces the maps to others, comes when the maps are complete.
 *
 * Returns an error in the files of an earlier iteration; this iteration is then not written, so call the function
 * again. Waits while the disk is full (STAGE_PERSIST). If there was no memory for some files, the next call of any of
 * these functions writes them again. */
enum status writer_write(struct writer *writer, const char *remark, struct err *err);
/* Returns the status of the files without waiting: STATUS_OK while files are being written and after success. Returns
 * each error once. */
enum status writer_look(struct writer *writer, struct err *err);
/* Waits until all files are written. */
enum status writer_wait(struct writer *writer, struct err *err);

#endif
