/* Later revisions of items: a source may emit them, and a stage whose state holds what it took from an earlier one
 * begins again without it. */
#include <math.h>

#include "common/harness/stage_private.h"

enum status revision_is_later(struct stage *stage, const struct item *item, bool *ret_later, struct err *err) {
    int64_t latest = -1;
    bool known = false;
    stage_lock(stage);
    for (int i = 0; i < stage->emission_count; i++)
        if (item_keys_match(item_key(stage->emissions[i]), item_key(item)) &&
            item_revision(stage->emissions[i]) > latest)
            latest = item_revision(stage->emissions[i]);
    stage_unlock(stage);
    if (latest < 0) TRY(ledger_revision(stage->ledger, item_key(item), &known, &latest, err));
    *ret_later = item_revision(item) > latest;
    return STATUS_OK;
}

bool revision_counts_twice(const struct stage *stage, const struct slot *slot) {
    /* No item comes twice on files and in process. */
    return slot->replaces && stage->descriptor->cumulative && stage->mode == STAGE_IN_PIPELINE;
}

void revision_begin(struct stage *stage) {
    stage->stale = true;
    while (stage->idling && !stage->threads_end)
        stage_sleep(stage, PART_STORE, INFINITY);
}

void revision_end(struct stage *stage, const char *id) {
    struct err err = {0};
    enum status status = err_set(&err, STATUS_UNAVAILABLE, __FILE__, __LINE__,
                                 "%s came in a later revision: begins again from the ledger, so that nothing of the "
                                 "earlier one counts",
                                 id);
    stage_fatal(stage, status, &err);
}
