/* Later revisions of items: a source may emit them, and a stage whose state holds what it took from an earlier one
 * begins again without it. */
#include <math.h>
#include <stdio.h>

#include "common/clock.h"

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
    return slot->replaces && !slot->set_aside && stage->descriptor->cumulative && stage->mode == STAGE_IN_PIPELINE;
}

void revision_begin(struct stage *stage) {
    stage->stale = true;
    while (stage->idling && !stage->threads_end)
        stage_sleep(stage, PART_STORE, INFINITY);
}

void revision_end(struct stage *stage, const char *id) {
    double now = clock_monotonic();
    stage_lock(stage);
    if (!stage->revised) stage->revised_since = now;
    stage->revised = true;
    stage->revised_at = now;
    snprintf(stage->revised_id, sizeof stage->revised_id, "%s", id);
    stage_changed(stage);
    stage_unlock(stage);
}

/* Several items may come in a later revision one after the other. They share one new beginning. */
static const double QUIET = 1, LONGEST = 60; /* s */

bool revision_look(struct stage *stage, bool ended) {
    struct err err = {0};
    double now = clock_monotonic();
    stage_lock(stage);
    bool waits = stage->revised && !stage->again;
    bool due = waits && (ended || now - stage->revised_at >= QUIET || now - stage->revised_since >= LONGEST);
    if (due) stage->again = true;
    stage_unlock(stage);
    if (due) {
        enum status status = err_set(&err, STATUS_CANCELLED, __FILE__, __LINE__,
                                     "%s came in a later revision: begins again from the ledger, so that nothing of "
                                     "the earlier one counts",
                                     stage->revised_id);
        stage_fatal(stage, status, &err);
    }
    return waits;
}
