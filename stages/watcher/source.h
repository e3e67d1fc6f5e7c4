/* The watcher as a source of items: sweeps and notices on one side, the pipeline on the other. */
#ifndef ICESTREAM_STAGES_WATCHER_SOURCE_H
#define ICESTREAM_STAGES_WATCHER_SOURCE_H

#include "common/harness/stage.h"

struct watcher_params {
    char *directory, *pattern, *ctf, *series;
    bool recursive, notices, scaled;
    int order;
    double settle, stall, poll, ctf_wait, mdoc_wait, until_idle, min_free;
};

struct source;
enum status source_create(struct stage *stage, struct source **ret_source, struct err *err);
void source_destroy(struct source **source);

/* One round at time `now` (s, any steady clock): what the system tells, a sweep when it is due, and the next file that
 * is ready goes on its way. *ret_more: there may be another at once. Sending may wait long for room, so the clock is
 * read anew for every file. Below min_free nothing goes on its way until there is space again. */
enum status source_step(struct source *source, double now, bool *ret_more, struct err *err);
/* Nothing is pending and nothing has happened for so many seconds. Micrographs that only wait for their CTF values are
 * let go without when that is all that is left. */
enum status source_idle(struct source *source, double now, double seconds, bool *ret_idle, struct err *err);

#endif
