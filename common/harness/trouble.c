/* Waits for the machine: what the machine lacks must not fail an item. Logs each wait once. */
#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "common/harness/stage_private.h"

enum { MEMORY_TRIES = 3 };
static const double first_pause = 1, last_pause = 30;

static double trouble_pause(int tries) {
    double pause = first_pause;
    for (int i = 0; i < tries && pause < last_pause; i++)
        pause *= 2;
    return fmin(pause, last_pause);
}

/* Counts one more waiting thread; the first one logs the reason. */
static void trouble_say(struct stage *stage, bool begins, const struct err *err) {
    char note[sizeof stage->metrics.trouble];
    snprintf(note, sizeof note, "waits: %s", err->message);
    metrics_trouble(&stage->metrics, note);
    stage_lock(stage);
    bool first = begins && stage->troubles++ == 0;
    if (first) {
        stage->trouble_since = clock_monotonic();
        stage->trouble = *err;
    }
    stage_unlock(stage);
    if (first)
        stage_log(stage, LOG_WARN, "waits", "%s; the stage tries again every %g to %g s until it works", err->message,
                  first_pause, last_pause);
}

/* Ends a wait; the last thread logs it. The reason is logged again, because the log may have had no room for it
 * before. */
static void trouble_over(struct stage *stage) {
    stage_lock(stage);
    bool last = --stage->troubles == 0;
    struct err trouble = stage->trouble;
    double waited = clock_monotonic() - stage->trouble_since;
    if (last) metrics_trouble(&stage->metrics, "");
    stage_unlock(stage);
    if (last)
        log_write(stage->log, LOG_INFO, "goes-on", "the stage goes on after waiting %.0f s: %s", waited,
                  trouble.message);
}

bool stage_ending(const struct stage *stage) {
    return atomic_load(&stage->stopping) == STOP_NOW || stage->threads_end || stage->fatal != STATUS_OK;
}

static bool may_pass(const struct stage *stage, enum status status, const struct stage_patience *patience) {
    if (stage->mode != STAGE_IN_PIPELINE) return false;
    if (status == STATUS_NO_MEMORY) return patience->tries < MEMORY_TRIES;
    bool late = patience->limit > 0 && patience->tries > 0 && clock_monotonic() - patience->since > patience->limit;
    return status == STATUS_UNAVAILABLE && !late;
}

bool stage_may_wait(struct stage *stage, enum status status, const struct err *err, struct stage_patience *patience) {
    if (!may_pass(stage, status, patience)) {
        if (patience->tries > 0) trouble_over(stage);
        *patience = (struct stage_patience){.limit = patience->limit};
        return false;
    }
    if (patience->tries == 0) patience->since = clock_monotonic();
    trouble_say(stage, patience->tries == 0, err);
    patience->until = clock_monotonic() + trouble_pause(patience->tries++);
    return true;
}

bool stage_wait_out(struct stage *stage, enum status status, const struct err *err, struct stage_patience *patience) {
    if (!stage_may_wait(stage, status, err, patience)) return false;
    stage_lock(stage);
    while (!stage_ending(stage) && clock_monotonic() < patience->until)
        stage_wait_until(stage, patience->until);
    bool go_on = !stage_ending(stage);
    stage_unlock(stage);
    return go_on;
}
