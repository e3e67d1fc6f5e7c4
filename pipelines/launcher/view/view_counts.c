/* The counts of a view. Exact ones compare whole ledgers, and cost more the longer a session is; between two of them the
 * numbers follow from the rows in memory. Both are the same while the ledgers add up. */
#include <string.h>

#include "pipelines/launcher/view/view_private.h"

enum { LOOKS = 3 };
static const double LOOK_PAUSE = 20; /* s */

static bool same(const struct tally_stage *a, const struct tally_stage *b) {
    return a->seen == b->seen && a->done == b->done && a->rejected == b->rejected && a->failed == b->failed &&
           a->in_flight == b->in_flight && a->waiting == b->waiting && a->lost == b->lost && a->stray == b->stray &&
           a->unsent == b->unsent;
}

static bool any_differs(const struct tally *a, const struct tally *b) {
    bool differs = a->count != b->count;
    for (size_t i = 0; !differs && i < a->count; i++)
        differs = !same(&a->stages[i], &b->stages[i]);
    return differs;
}

static enum status count_exactly(struct view *view, struct err *err) {
    struct tally tally = {0};
    TRY(tally_take(&view->session, view->plan, TALLY_COUNTS, &tally, err));
    view->counts_changed |= any_differs(&tally, &view->tally);
    tally_clear(&view->tally);
    view->tally = tally;
    view->sound = tally_reconciles(&tally, view->miscount, sizeof view->miscount);
    view->unsound = view->sound ? 0 : view->unsound + 1;
    if (view->sound) view->miscount[0] = '\0';
    return STATUS_OK;
}

static void count_in_memory(struct view *view) {
    for (size_t i = 0; i < view->stage_count && i < view->tally.count; i++) {
        const struct stage_view *s = &view->stages[i];
        struct tally_stage *tally = &view->tally.stages[i], before = *tally;
        if (s->watch == NULL) continue;
        tally->done = s->counts[LEDGER_DONE];
        tally->rejected = s->counts[LEDGER_REJECTED];
        tally->failed = s->counts[LEDGER_FAILED];
        tally->in_flight = s->counts[LEDGER_IN_FLIGHT] + s->unseen;
        tally->seen = tally->done + tally->rejected + tally->failed + tally->in_flight;
        tally->waiting = s->waiting;
        view->counts_changed |= !same(&before, tally);
    }
}

/* Decides when to count exactly again: all of it takes one part in 300 of a core. Counts that do not add up may be a glance at
 * ledgers between two commits, so they are looked at twice more within the minute that an alarm waits. */
static double pause_after(const struct view *view, double used) {
    if (view->sound) return 5 + 300 * used;
    double pause = 5 + 100 * used;
    return view->unsound <= LOOKS && pause > LOOK_PAUSE ? LOOK_PAUSE : pause;
}

enum status view_count(struct view *view, bool any, struct err *err) {
    double now = view_clock();
    view->stale |= any;
    if (view->stale && now >= view->exact_due) {
        double before = view_cpu();
        TRY(count_exactly(view, err));
        view->stale = !view->sound && view->unsound < LOOKS;
        view->exact_due = now + pause_after(view, view_cpu() - before);
    }
    if (any && view->sound) count_in_memory(view);
    return STATUS_OK;
}
