/* The row of an exposure: what its visits to the stages amount to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/view/view_private.h"

/* Outcomes from the best to the worst. */
static int rank(int state) {
    static const int ranks[] = {[LEDGER_IN_FLIGHT] = 1, [LEDGER_DONE] = 0, [LEDGER_REJECTED] = 2, [LEDGER_FAILED] = 3};
    return ranks[state];
}

struct outcome {
    int state, stage;
    const struct visit *visit; /* NULL: on its way to the stage */
};

static void consider(struct outcome *worst, int state, size_t stage, const struct visit *visit) {
    if (worst->stage >= 0 && rank(state) < rank(worst->state)) return;
    *worst = (struct outcome){state, (int)stage, visit};
}

/* An item that is done in one stage and not yet in the next is in flight there. */
static void consider_next(const struct view *view, const struct stage_view *stage, size_t entry,
                          struct outcome *worst) {
    for (size_t i = 0; i < stage->to_count; i++) {
        const struct stage_view *next = &view->stages[stage->to[i]];
        if (next->keeps && !next->left_out && next->visits[entry].number == 0)
            consider(worst, LEDGER_IN_FLIGHT, stage->to[i], NULL);
    }
}

enum status view_settle(struct view *view, size_t entry, struct err *err) {
    struct outcome worst = {.stage = -1};
    (void)err;
    if (view->entries[entry].row < 0) return STATUS_OK;
    struct view_row *row = &view->rows[view->entries[entry].row];
    double found = NAN, changed = NAN;
    int reached = -1;
    for (size_t i = 0; i < view->stage_count; i++) {
        const struct visit *visit = &view->stages[i].visits[entry];
        if (visit->number == 0) continue;
        reached = (int)i;
        if (!(found <= visit->time_seen)) found = visit->time_seen;
        if (!(changed >= visit->time_changed)) changed = visit->time_changed;
        consider(&worst, visit->state, i, visit);
        if (visit->state == LEDGER_DONE && view->stages[i].passes_on)
            consider_next(view, &view->stages[i], entry, &worst);
    }
    row->state = worst.stage >= 0 ? worst.state : LEDGER_IN_FLIGHT;
    row->stage = worst.stage;
    row->reached = reached;
    row->reason = worst.visit != NULL ? worst.visit->reason : "";
    row->attempts = worst.visit != NULL ? worst.visit->attempts : 0;
    row->time_found = found;
    row->time_changed = changed;
    view->row_changed[view->entries[entry].row] = view->revision + 1;
    view->rows_changed = true;
    return STATUS_OK;
}
