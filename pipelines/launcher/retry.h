/* Sends failed items through again: what `icestream retry` and the page do. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RETRY_H
#define ICESTREAM_PIPELINES_LAUNCHER_RETRY_H

#include <stdio.h>

#include "pipelines/launcher/session.h"

struct retry_request {
    const char *stage;        /* NULL: all stages */
    const char *const *names; /* of items; none: all that failed */
    size_t name_count;
    bool lost; /* also items that are done, but whose products are gone */
    FILE *out; /* a line for each item */
};

struct retry_outcome {
    int64_t total; /* items put back */
    bool running;
    char miscount[256]; /* why the counts do not add up; "": they do */
};

/* Puts items back. NOT_FOUND: there is no such stage. BAD_STATE: `lost` in a session that runs. */
enum status retry_items(const struct session *session, const struct retry_request *request,
                        struct retry_outcome *ret_outcome, struct err *err);

#endif
