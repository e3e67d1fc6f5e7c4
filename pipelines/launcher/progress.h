/* Shows the progress of a session: on a terminal a table that is redrawn in place, elsewhere a line now and then when
 * something has changed; and each failure as it comes. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PROGRESS_H
#define ICESTREAM_PIPELINES_LAUNCHER_PROGRESS_H

#include <stdbool.h>

#include "common/log.h"
#include "common/screen.h"
#include "pipelines/launcher/plan.h"
#include "pipelines/launcher/tally.h"

enum { PROGRESS_STAGES = 64 };

/* The display's memory of a stage. */
struct progress_stage {
    int64_t finished;   /* items when the rate was last computed */
    double rate;        /* items per minute */
    int64_t failed;     /* items that were told, one by one or as a number */
    double failed_time; /* the last of them failed then (s since 1970) */
    int failures_told;  /* one by one */
};

struct progress {
    struct screen screen;
    bool has_rate;
    double begun, begun_real; /* monotonic; since 1970 */
    double last_drawn, last_rate;
    struct progress_stage stages[PROGRESS_STAGES];
    double sum_at; /* when the particles are counted next */
    int64_t made;  /* particles or picks; -1: none */
    const char *made_name;
    char last_line[1024];
    struct log *log; /* gets the messages, too; borrowed, may be NULL */
};

/* Starts the display. */
void progress_begin(struct progress *progress, struct log *log);
/* Draws the table or prints a line, when it is time. Prints the items that have failed since. */
void progress_draw(struct progress *progress, const struct session *session, const struct plan *plan,
                   const struct tally *tally);
/* Prints a message above the table. */
void progress_say(struct progress *progress, const char *text);
/* Leaves the table on the screen. */
void progress_end(struct progress *progress);

/* progress_failures.c: prints the items that have failed since the last call; many at a time as a number. */
void progress_failures(struct progress *progress, const struct session *session, const struct tally *tally);
/* progress_sums.c: counts the particles of the session, now and then, or the picks while there are no particles. */
void progress_count_made(struct progress *progress, const struct session *session, const struct tally *tally);

#endif
