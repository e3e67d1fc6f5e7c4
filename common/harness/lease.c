#include "common/harness/lease.h"

#include <stdio.h>
#include <string.h>

#include "common/edges/ledger_address.h"
#include "common/edges/ledger_lease.h"
#include "common/harness/lease_folders.h"
#include "common/harness/stage_private.h"

/* s to wait for another process that lives: the launcher has given it up, and it will learn that. */
static const double patience = 10;

static bool goes_on(void *context) {
    const struct stage *stage = context;
    return atomic_load(&stage->stopping) != STOP_NOW;
}

/* The process begins again, and waits for the lease. */
static void lost(void *context) {
    struct stage *stage = context;
    stage_lock(stage);
    stage->again = true;
    stage_unlock(stage);
    stage_stop(stage, STOP_NOW);
}

static enum status take(struct stage *stage, const struct instance *instance, struct err *err) {
    const struct ledger_lease_wish wish = {.path = instance->ledger,
                                           .name = stage->name,
                                           .run = stage->run,
                                           .above = lease_folders_last(stage->root, stage->name),
                                           .patience = patience,
                                           .waits = goes_on,
                                           .lost = lost,
                                           .context = stage};
    struct err own = {0};
    enum status status = ledger_lease_take(&wish, &stage->lease, &own);
    FAIL_IF(status != STATUS_OK, err, status == STATUS_BAD_STATE ? STATUS_UNAVAILABLE : status, "%s", own.message);
    return STATUS_OK;
}

static enum status ask_counts(void *context, int64_t *ret_number, struct err *err) {
    return ledger_lease_counts(context, ret_number, err);
}

/* The server is asked first: this process may not know yet that its lease was made void. */
static enum status promise(struct stage *stage, struct err *err) {
    TRY(ledger_lease_count(stage->lease, err));
    return lease_folders_lead(stage->root, stage->name, ask_counts, stage->lease, err);
}

enum status lease_begin(struct stage *stage, const struct instance *instance, struct err *err) {
    if (!stage->descriptor->cumulative || !ledger_is_address(instance->ledger)) return STATUS_OK;
    TRY(take(stage, instance, err));
    int64_t number = ledger_lease_number(stage->lease), before = ledger_lease_before(stage->lease);
    TRY(lease_folders_root(stage->root, stage->name, number, stage->lease_root, err));
    TRY(path_join(stage->lease_root, stage->name, stage->folder, sizeof stage->folder, err));
    TRY(lease_folders_make(stage->root, stage->name, number, before, err));
    enum status status = promise(stage, err);
    if (status == STATUS_BAD_STATE) return err_context(err, STATUS_UNAVAILABLE, "%s", stage->name);
    TRY(status);
    lease_folders_clear(stage->root, stage->name, number, before);
    return STATUS_OK;
}

/* One that stood still while another took the lease may have let the promised names lead back to its own folder. */
enum status lease_tend(struct stage *stage, struct err *err) {
    if (stage->lease == NULL) return STATUS_OK;
    FAIL_IF(ledger_lease_lost(stage->lease), err, STATUS_CANCELLED,
            "another process has taken the lease of %s: this one ends", stage->name);
    bool leads = lease_folders_promised(stage->root, stage->name, ledger_lease_number(stage->lease));
    if (leads || !ledger_lease_holds(stage->lease)) return STATUS_OK;
    enum status status = promise(stage, err);
    return status == STATUS_BAD_STATE ? STATUS_OK : status; /* the thread of the lease finds out */
}

void lease_end(struct stage *stage) {
    ledger_lease_give_back(&stage->lease);
}

/* ---- What callbacks ask ---- */

const char *stage_promised(const struct stage *stage) {
    const char *folder = stage->lease_root[0] != '\0' ? stage->lease_root : stage->root, *rest;
    bool below = folder[1] != '\0' && path_is_below(stage->folder, folder, &rest) && rest[0] != '\0';
    return below ? rest : stage->folder;
}

enum status stage_may_publish(const struct stage *stage, struct err *err) {
    return stage->lease != NULL ? ledger_lease_check(stage->lease, err) : STATUS_OK;
}
