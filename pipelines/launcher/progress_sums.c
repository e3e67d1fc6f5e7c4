/* Counts particles for the first line of the live table. */
#include "common/clock.h"
#include "pipelines/launcher/progress.h"

static const double PAUSE = 3, SHARE = 50; /* counting may cost a fiftieth of a core */

/* Adds up a number of the items of the first stage that has it: those behind it have it from that stage. */
static bool add_up(const struct session *session, const struct tally *tally, const char *number, int64_t *ret_sum) {
    for (size_t i = 0; i < tally->count; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        struct ledger *ledger = NULL;
        int64_t sum = 0;
        if (stage->done == 0 || stage->left_out) continue;
        if (session_ledger(session, stage->name, true, &ledger, NULL) != STATUS_OK || ledger == NULL) continue;
        enum status status = ledger_sum(ledger, number, &sum, NULL);
        ledger_close(&ledger);
        if (status != STATUS_OK || sum <= 0) continue;
        *ret_sum = sum;
        return true;
    }
    return false;
}

void progress_count_made(struct progress *progress, const struct session *session, const struct tally *tally) {
    double begin = clock_monotonic();
    if (begin < progress->sum_at) return;
    if (add_up(session, tally, "$.particles.count", &progress->made))
        progress->made_name = "particles";
    else if (add_up(session, tally, "$.picks.count", &progress->made))
        progress->made_name = "picks";
    double now = clock_monotonic(), cost = SHARE * (now - begin);
    progress->sum_at = now + (cost > PAUSE ? cost : PAUSE);
}
