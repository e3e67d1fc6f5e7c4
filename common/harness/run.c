/* Passes a list of items through the lanes: for stages on files and in process. */
#include <stdlib.h>

#include "common/clock.h"
#include "common/harness/stage_private.h"

/* Gives back the slots of items that are done, until there is room for one more item or all slots are free. Returns
 * false when the stage is to stop. */
static bool collect(struct stage *stage, bool until_empty) {
    stage_lock(stage);
    bool go_on;
    for (;;) {
        for (struct slot *slot = lanes_done(stage); slot != NULL; slot = lanes_done(stage))
            lanes_free(stage, slot);
        go_on = stage->fatal == STATUS_OK && atomic_load(&stage->stopping) != STOP_NOW;
        if (!go_on || (until_empty ? lanes_empty(stage) : lanes_room(stage) > 0)) break;
        files_progress_wait(stage);
    }
    stage_unlock(stage);
    return go_on;
}

/* Consumes the item unless it fails. */
static enum status take_item(struct stage *stage, struct item **item, struct err *err) {
    enum ledger_claim claim;
    TRY(ledger_claim_item(stage->ledger, *item, stage->instance, stage->token, &claim, err));
    if (claim == CLAIM_NEW || claim == CLAIM_AGAIN) {
        lanes_take(stage, item, 0, 0, false);
        return STATUS_OK;
    }
    if (claim == CLAIM_HERE || claim == CLAIM_ELSEWHERE)
        stage_log(stage, LOG_WARN, "duplicate", "%s: the same item comes twice; the first one counts", item_id(*item));
    item_destroy(item);
    return STATUS_OK;
}

static bool has_room(struct stage *stage) {
    stage_lock(stage);
    bool room = lanes_room(stage) > 0 && stage->fatal == STATUS_OK;
    stage_unlock(stage);
    return room && atomic_load(&stage->stopping) == STOP_NOT;
}

/* Takes items[*next …] while there is room. */
static enum status take_items(struct stage *stage, struct item **items, size_t count, size_t *next, struct err *err) {
    enum status status = STATUS_OK;
    ledger_hold(stage->ledger);
    while (status == STATUS_OK && *next < count && has_room(stage))
        status = take_item(stage, &items[(*next)++], err);
    ledger_let_go(stage->ledger);
    return status;
}

/* Asks for flush and the last summary, which run on their own threads, and waits for both. */
static enum status finish(struct stage *stage, struct err *err) {
    stage_lock(stage);
    stage->flush_wanted = true;
    stage_wake_all(stage);
    while (!stage->flushed && stage->fatal == STATUS_OK && atomic_load(&stage->stopping) != STOP_NOW)
        files_progress_wait(stage);
    stage->summary_wanted = stage->flushed;
    stage_wake_all(stage);
    while (stage->summary_wanted && !stage->summarised && stage->fatal == STATUS_OK)
        files_progress_wait(stage);
    parts_end(&stage->parts, clock_monotonic());
    enum status status = stage->fatal;
    if (status != STATUS_OK && err != NULL) *err = stage->fatal_err;
    stage_unlock(stage);
    return status;
}

enum status stage_run_items(struct stage *stage, struct item **items, size_t count, struct err *err) {
    bool go_on = true;
    for (size_t next = 0; next < count && go_on;) {
        go_on = collect(stage, false) && atomic_load(&stage->stopping) == STOP_NOT;
        if (go_on) TRY(take_items(stage, items, count, &next, err));
    }
    go_on = collect(stage, true) && go_on;
    stage_lock(stage);
    bool broken = stage->fatal != STATUS_OK;
    stage_unlock(stage);
    if (go_on || broken) return finish(stage, err);
    /* A user has stopped the stage: what is there is joined, but nothing new begins. */
    FAIL(err, STATUS_CANCELLED, "stopped before the end");
}
