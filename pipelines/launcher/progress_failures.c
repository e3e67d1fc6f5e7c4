/* Prints failures of items as they come. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pipelines/launcher/progress.h"

/* A disk that goes away can fail thousands of items: after so many, a stage tells a number now and then. */
enum { TOLD_MOST = 20, REASON_MOST = 400 };

struct telling {
    struct progress *progress;
    struct progress_stage *stage;
    const char *name;
    bool several;
    double latest;
};

static enum status tell_one(const struct ledger_row *row, void *context, struct err *err) {
    struct telling *telling = context;
    char text[REASON_MOST + 512];
    (void)err;
    if (row->time_changed <= telling->stage->failed_time) return STATUS_OK;
    if (row->time_changed > telling->latest) telling->latest = row->time_changed;
    if (telling->stage->failures_told >= TOLD_MOST) return STATUS_OK;
    telling->stage->failures_told++;
    telling->stage->failed++;
    snprintf(text, sizeof text, "%s: %s%s%.200s failed: %.*s", telling->name, telling->several ? row->source : "",
             telling->several ? "/" : "", row->id, (int)REASON_MOST,
             row->reason != NULL && row->reason[0] != '\0' ? row->reason : "no reason given");
    progress_say(telling->progress, text);
    return STATUS_OK;
}

static void tell(struct progress *progress, const struct session *session, const struct tally_stage *stage,
                 struct progress_stage *told) {
    struct ledger *ledger = NULL;
    struct telling telling = {.progress = progress,
                              .stage = told,
                              .name = stage->name,
                              .several = stage->several,
                              .latest = told->failed_time};
    /* A ledger that cannot be read now is read at the next look. */
    if (session_ledger(session, stage->name, true, &ledger, NULL) != STATUS_OK || ledger == NULL) return;
    if (ledger_each(ledger, LEDGER_FAILED, tell_one, &telling, NULL) == STATUS_OK) told->failed_time = telling.latest;
    ledger_close(&ledger);
}

void progress_failures(struct progress *progress, const struct session *session, const struct tally *tally) {
    for (size_t i = 0; i < tally->count && i < PROGRESS_STAGES; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        struct progress_stage *told = &progress->stages[i];
        /* Items that are sent again count as failed no more. */
        if (stage->failed < told->failed) told->failed = stage->failed;
        if (stage->failed == told->failed) continue;
        if (told->failures_told < TOLD_MOST) tell(progress, session, stage, told);
        bool many = told->failures_told >= TOLD_MOST && stage->failed >= 2 * told->failed;
        if (many) {
            char text[256];
            snprintf(text, sizeof text, "%s: %" PRId64 " items have failed; `icestream status` tells why", stage->name,
                     stage->failed);
            progress_say(progress, text);
        }
        if (many || told->failures_told < TOLD_MOST) told->failed = stage->failed;
    }
}
