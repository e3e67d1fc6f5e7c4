/* Shows the progress of a session: on a terminal a table that is redrawn in place, elsewhere a line now and then when
 * something has changed. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PROGRESS_H
#define ICESTREAM_PIPELINES_LAUNCHER_PROGRESS_H

#include <stdbool.h>

#include "common/log.h"
#include "pipelines/launcher/plan.h"
#include "pipelines/launcher/tally.h"

enum { PROGRESS_STAGES = 64 };

struct progress {
    bool terminal, has_rate;
    int lines; /* lines of the table on the screen */
    double last_drawn, last_rate;
    int64_t rate_done[PROGRESS_STAGES]; /* items done when the rate was last computed */
    double rate[PROGRESS_STAGES];       /* items per minute */
    char last_line[1024];
    struct log *log; /* gets the messages, too; borrowed, may be NULL */
};

/* Starts the display. */
void progress_begin(struct progress *progress, struct log *log);
/* Draws the table or prints a line, when it is time. */
void progress_draw(struct progress *progress, const struct session *session, const struct plan *plan,
                   const struct tally *tally);
/* Prints a message above the table. */
void progress_say(struct progress *progress, const char *text);
/* Leaves the table on the screen. */
void progress_end(struct progress *progress);

#endif
