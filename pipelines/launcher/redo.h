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

#endif
