/* Makes items again with the present parameters: what `icestream redo` and the page do. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_REDO_H
#define ICESTREAM_PIPELINES_LAUNCHER_REDO_H

#include <stdio.h>

#include "pipelines/launcher/session.h"

enum { REDO_AT_ONCE = 16 };

struct redo_request {
    const char *stage;        /* NULL: those behind the sources */
    const char *const *names; /* of items; none: all */
    size_t name_count;
    bool
        wait; /* for a moment in which nothing is on its way to the stage, before each REDO_AT_ONCE items; else the call
                  takes at most so many named items, and returns at once */
    FILE *out, *warnings;
};

struct redo_outcome {
    int64_t total, on_their_way, failed; /* items sent again; left as they are */
};

/* Sends items again in a later revision. NOT_FOUND: there is no such stage or item. BAD_ARGUMENT: the stage cannot make
 * items again. BAD_STATE: a change of parameters is not in force yet. */
enum status redo_items(const struct session *session, const struct redo_request *request,
                       struct redo_outcome *ret_outcome, struct err *err);

/* Sends one item of a stage again, unless it is on its way. again: as in ledger_send_revised. */
enum status redo_one(const struct session *session, const json_t *plan, const char *stage, struct ledger_key key,
                     int again, bool *ret_sent, struct err *err);
/* Returns whether the items of a stage can be made again. */
bool redo_is_possible(const json_t *plan, const char *stage);
/* Counts the items on their way to a stage from those that feed it. */
enum status redo_waiting(const struct session *session, const json_t *plan, const char *stage, int64_t *ret_count,
                         struct err *err);

#endif
