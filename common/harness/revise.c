/* Marks items as failed together after each of them was done, and takes the mark back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/stage_private.h"

/* Returns true while the item is between the call of store, which may have told the stage about it, and the ledger.
 * Needs the lock. */
static bool is_on_its_way(const struct stage *stage, struct ledger_key key) {
    for (uint64_t ticket = stage->done_ticket; ticket < stage->next_ticket; ticket++) {
        const struct slot *slot = &stage->slots[ticket % (uint64_t)stage->slot_count];
        bool between = slot->phase == SLOT_STORING || slot->phase == SLOT_STORED || slot->phase == SLOT_SETTLING;
        if (between && item_keys_match(slot_key(slot), key)) return true;
    }
    return false;
}

/* Waits until the ledger holds these items. All items before one that is being stored are stored too, or further: none
 * of them waits for this thread. */
static enum status await_ledger(struct stage *stage, const struct ledger_key *keys, size_t count, struct err *err) {
    enum status status = STATUS_OK;
    stage_lock(stage);
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        while (is_on_its_way(stage, keys[i]) && status == STATUS_OK) {
            if (atomic_load(&stage->stopping) == STOP_NOW || stage->fatal != STATUS_OK || stage->threads_end)
                status = err_set(err, STATUS_CANCELLED, __FILE__, __LINE__, "asked to stop");
            else
                stage_sleep(stage, PART_PROCESS, INFINITY);
        }
    stage_unlock(stage);
    return status;
}

static bool is_among(const struct ledger_key *keys, size_t count, struct ledger_key key) {
    for (size_t i = 0; i < count; i++)
        if (item_keys_match(keys[i], key)) return true;
    return false;
}

/* In process, the outcomes are in a list. */
static void revise_outcomes(struct stage *stage, const struct ledger_key *keys, size_t count, const char *reason) {
    if (stage->results == NULL) return;
    stage_lock(stage);
    for (size_t i = 0; i < stage->results->outcome_count; i++) {
        struct stage_outcome *outcome = &stage->results->outcomes[i];
        if (!is_among(keys, count, (struct ledger_key){outcome->source, outcome->id}) ||
            (outcome->state == LEDGER_DONE) != (reason != NULL))
            continue;
        free(outcome->reason);
        outcome->reason = reason != NULL ? strdup(reason) : NULL;
        outcome->state = reason != NULL ? LEDGER_FAILED : LEDGER_DONE;
    }
    stage_unlock(stage);
}

/* This run may not have counted the items as done: they may be of the run before. */
static void move_count(atomic_llong *from, atomic_llong *to, long long count) {
    long long counted = atomic_load(from);
    atomic_fetch_sub(from, counted < count ? counted : count);
    atomic_fetch_add(to, count);
}

enum status stage_revise(struct stage *stage, const struct ledger_key *keys, size_t count, const char *reason,
                         struct err *err) {
    struct metrics *metrics = &stage->metrics;
    int64_t changed = 0;
    if (count == 0) return STATUS_OK;
    TRY(await_ledger(stage, keys, count, err));
    enum status status;
    STAGE_PERSIST(stage, status, err, ledger_revise(stage->ledger, keys, count, reason, &changed, err));
    TRY(status);
    if (reason != NULL)
        move_count(&metrics->out, &metrics->failed, changed);
    else
        move_count(&metrics->failed, &metrics->out, changed);
    revise_outcomes(stage, keys, count, reason);
    return STATUS_OK;
}
