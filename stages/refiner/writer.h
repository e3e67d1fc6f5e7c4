/* Files, history and log line of an iteration, written beside the next one. */
#ifndef ICESTREAM_STAGES_REFINER_WRITER_H
#define ICESTREAM_STAGES_REFINER_WRITER_H

#include "common/harness/stage.h"
#include "stages/refiner/refiner.h"

struct writer;

/* The stage's folder as seen from the session: what paths in STAR files begin with. */
const char *writer_prefix(const struct stage *stage);

/* keep: files of so many iterations stay. */
enum status writer_create(struct stage *stage, struct refiner *refiner, int keep, struct writer **ret_writer,
                          struct err *err);
/* Waits for what is being written. Before the refiner's end; accepts NULL. */
void writer_destroy(struct writer **writer);

/* After an iteration: copies what is written of it and returns; waits first where the files of two before it are still
 * on their way. In the order of iterations: the line in history.jsonl, which tells others of the maps, comes when they
 * are whole. What went wrong with files of an iteration before is the outcome, and then this one's are not begun: it is
 * called again. A disk that is full is waited for (stage_wait_out); what there was no memory for is written anew by the
 * next call of these. */
enum status writer_write(struct writer *writer, struct err *err);
/* STATUS_OK while it writes, and when that went well; any failure is told once. */
enum status writer_look(struct writer *writer, struct err *err);
/* Until all is written. */
enum status writer_wait(struct writer *writer, struct err *err);

#endif
