/* What a person sees while a session runs: on a terminal a table that is redrawn in place, elsewhere a line now and
 * then when something has changed. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PROGRESS_H
#define ICESTREAM_PIPELINES_LAUNCHER_PROGRESS_H

#include <stdbool.h>

#include "common/log.h"
#include "pipelines/launcher/plan.h"
#include "pipelines/launcher/tally.h"

enum { PROGRESS_STAGES = 64 };

struct progress {
    bool terminal, has_rate;
    int lines; /* of the table that stands on the screen */
    double last_drawn, last_rate;
    int64_t rate_done[PROGRESS_STAGES]; /* when the rate was last taken */
    double rate[PROGRESS_STAGES];       /* items a minute */
    char last_line[1024];
    struct log *log; /* gets what is said, too; borrowed, may be NULL */
};

void progress_begin(struct progress *progress, struct log *log);
void progress_draw(struct progress *progress, const struct session *session, const struct plan *plan,
                   const struct tally *tally);
/* A message, above the table. */
void progress_say(struct progress *progress, const char *text);
/* Leaves the table standing. */
void progress_end(struct progress *progress);

#endif
