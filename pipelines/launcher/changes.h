/* The changes of a session: SESSION/changes/NNNN.json, one for each `icestream set`, each `icestream mark`, and each run
 * with a changed graph.
 *
 *   {"v": 1, "number": 3, "time": 1760000000.5, "user": "ada", "host": "scope1", "by": "set" | "run", "whole": false,
 *    "changes": [{"stage": "lowpass-picker", "key": "threshold", "old": 0.2, "new": 0.3, "changes": "live"}]}
 *
 * `icestream mark` adds to the same history what a person decides by hand; such a change has no parameters
 * (common/harness/choices.h has `marks` and `choices`). A change that came through the page has its "peer" as well. What
 * else was done there (retry, drain, …) has a "note", its "run", and no parameters.
 *
 * Files are written whole, renamed into place, and never changed. graph.yaml is the graph as the last run was given it;
 * the values that hold are those of graph.yaml with all changes since the last `whole` one (the session took another
 * graph, since nothing was finished) put upon them in their order. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_CHANGES_H
#define ICESTREAM_PIPELINES_LAUNCHER_CHANGES_H

#include <jansson.h>

#include "common/harness/params.h"
#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/session.h"

/* Reads all changes, oldest first, as a list of the objects above. */
enum status changes_read(const struct session *session, json_t **ret_changes, struct err *err);
/* Puts the changes that hold upon a graph. */
enum status changes_apply(const json_t *changes, struct graph *graph, struct err *err);
/* Puts one change upon a graph. */
enum status change_apply(const json_t *change, struct graph *graph, struct err *err);
/* Returns the number of the last change that concerns a stage, or of the last of all (stage NULL); 0: none. */
int changes_last(const json_t *changes, const char *stage);
/* Takes the lock that keeps others from adding changes; returns it, to be closed. UNAVAILABLE: others held it for longer
 * than the session's patience. */
enum status changes_hold(const struct session *session, int *ret_lock, struct err *err);
/* Adds a change; needs the lock. entries: the list "changes"; borrowed. */
enum status changes_add(const struct session *session, const char *by, bool whole, json_t *entries, int *ret_number,
                        struct err *err);
/* Returns the number that the next change gets; needs the lock. */
enum status changes_next(const struct session *session, int *ret_number, struct err *err);
/* Adds a change with the members of `change` ("by" and what has changed, borrowed) and those that every change has; needs
 * the lock. */
enum status changes_write(const struct session *session, const json_t *change, int *ret_number, struct err *err);
/* Reads one change; *ret_change is NULL when there is none of that number yet. */
enum status changes_one(const struct session *session, int number, json_t **ret_change, struct err *err);
/* Returns an entry {"stage", "key", "old", "new", "changes"}; an entry NULL stands for a key that is not set. */
json_t *change_entry(const struct graph_stage *stage, const char *key, const struct graph_entry *before,
                     const struct graph_entry *after);
/* Returns when a stage of a checked graph takes another value of a key. */
enum param_changes change_kind(const struct graph_stage *stage, const char *key);
/* Writes which exposures a change marks, which classes it chooses, and its note, for people: one line for each.
 * line: called with each text. */
typedef void change_line(void *context, const char *text);
void change_marks_text(const json_t *change, change_line *line, void *context);
/* Writes an entry for people: "picker.threshold: 0.2 → 0.3 (live)". */
void change_text(const json_t *entry, char *text, size_t size);

#endif
