/* `icestream repair`: rebuilds ledgers that are lost, damaged or older than they should be. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/session.h"

struct mending {
    const char *name;
    const json_t *planned;
    char path[PATH_SIZE];
    struct ledger *ledger; /* NULL: the stage keeps none */
    struct ledger_mended mended;
    const char *found; /* what was wrong with the file itself; NULL: nothing */
};

struct repair {
    struct session *session;
    const json_t *plan;
    struct mending *stages;
    size_t count;
};

static struct mending *find(struct repair *repair, const char *name) {
    for (size_t i = 0; i < repair->count; i++)
        if (strcmp(repair->stages[i].name, name) == 0) return &repair->stages[i];
    return NULL;
}

/* Moves a damaged ledger and its logs away under a name that is free. */
static enum status move_away(const char *path, struct err *err) {
    static const char *const ends[] = {"", "-wal", "-shm"};
    char from[PATH_SIZE + 8], to[PATH_SIZE + 40];
    int number = 0;
    do
        snprintf(to, sizeof to, "%s.damaged-%d", path, ++number);
    while (file_exists(to));
    for (size_t i = 0; i < 3; i++) {
        snprintf(from, sizeof from, "%s%s", path, ends[i]);
        snprintf(to, sizeof to, "%s.damaged-%d%s", path, number, ends[i]);
        FAIL_IF(rename(from, to) != 0 && errno != ENOENT, err, status_of_writing(errno), "%s: cannot be moved away: %s",
                from, strerror(errno));
    }
    printf("%s: damaged, moved to %s.damaged-%d\n", path, path_name(path), number);
    return STATUS_OK;
}

static enum status open_ledger(const struct repair *repair, struct mending *stage, struct err *err) {
    bool there = false;
    TRY(ledger_exists(stage->path, &there, err));
    if (!there && !session_keeps_ledger(stage->planned)) return STATUS_OK;
    if (!there) stage->found = "its ledger was lost";
    struct err own = {0};
    enum status status = ledger_open(stage->path, stage->name, false, &stage->ledger, &own);
    if (status == STATUS_OK) status = ledger_integrity(stage->ledger, &own);
    if (status == STATUS_IO) {
        ledger_close(&stage->ledger);
        TRY(move_away(stage->path, err));
        stage->found = "its ledger was damaged";
        return ledger_open(stage->path, stage->name, false, &stage->ledger, err);
    }
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    TRY(session_ledger_changes(repair->session, err));
    return ledger_check_owner(stage->ledger, stage->name, repair->session->id, err);
}

static enum status restore(const struct repair *repair, struct mending *stage, struct err *err) {
    struct ledger_owner owner;
    TRY(open_ledger(repair, stage, err));
    if (stage->ledger == NULL) return STATUS_OK;
    snprintf(owner.stage, sizeof owner.stage, "%s", stage->name);
    snprintf(owner.session, sizeof owner.session, "%s", repair->session->id);
    TRY(ledger_restore(stage->ledger, &owner, &stage->mended, err));
    return ledger_own(stage->ledger, stage->name, repair->session->id, err);
}

static enum status reconcile_edge(struct mending *from, struct mending *to, enum ledger_reconcile what,
                                  struct err *err) {
    char name[512];
    if (from->ledger == NULL || to->ledger == NULL) return STATUS_OK;
    /* A program of others keeps a file beside ledgers in PostgreSQL. */
    if (ledger_is_address(from->path) != ledger_is_address(to->path)) return STATUS_OK;
    snprintf(name, sizeof name, "%s.0>%s", from->name, to->name);
    const struct ledger_mended *m = &from->mended;
    const struct ledger_edge edge = {.name = name,
                                     .from = from->name,
                                     .to = to->name,
                                     .to_path = to->path,
                                     .passes_on = session_passes_on(from->planned),
                                     .settle = from->found != NULL || m->items + m->parcels > 0};
    return ledger_reconcile(from->ledger, &edge, what, &from->mended, err);
}

static enum status reconcile(struct repair *repair, enum ledger_reconcile what, struct err *err) {
    for (size_t i = 0; i < repair->count; i++) {
        const json_t *from = json_object_get(repair->stages[i].planned, "from");
        /* Nobody knows from which of several inputs an item came. */
        if (what == LEDGER_BACK && json_array_size(from) != 1) continue;
        for (size_t k = 0; k < json_array_size(from); k++) {
            struct mending *up = find(repair, json_string_value(json_array_get(from, k)));
            if (up != NULL) TRY(reconcile_edge(up, &repair->stages[i], what, err));
        }
    }
    return STATUS_OK;
}

static int64_t put_back(const struct repair *repair) {
    int64_t sum = 0;
    for (size_t i = 0; i < repair->count; i++)
        sum += repair->stages[i].mended.items + repair->stages[i].mended.parcels;
    return sum;
}

static enum status mend(struct repair *repair, struct err *err) {
    for (size_t i = 0; i < repair->count; i++)
        TRY(restore(repair, &repair->stages[i], err));
    /* An item that a stage learns of from the one behind it may be new to the one before it as well. */
    for (int64_t before = -1; before != put_back(repair);) {
        before = put_back(repair);
        TRY(reconcile(repair, LEDGER_BACK, err));
    }
    return reconcile(repair, LEDGER_AGAIN, err);
}

static void print(const struct repair *repair) {
    bool any = false;
    int64_t again = 0;
    for (size_t i = 0; i < repair->count; i++) {
        const struct mending *stage = &repair->stages[i];
        const struct ledger_mended *m = &stage->mended;
        bool mended = stage->found != NULL || m->items > 0 || m->parcels > 0 || m->files > 0 || m->again > 0;
        again += m->again;
        any = any || mended;
        if (!mended) continue;
        printf("%s: %s; put back: %lld items, %lld that were sent, %lld files\n", stage->name,
               stage->found != NULL        ? stage->found
               : m->items + m->parcels > 0 ? "its ledger was older than the session"
                                           : "its ledger was whole",
               (long long)m->items, (long long)m->parcels, (long long)m->files);
        if (m->again > 0)
            printf("%s: %lld of what it sent go through again, since nothing is known of their end\n", stage->name,
                   (long long)m->again);
        if (m->bad_lines > 0)
            printf("%s: %lld lines of its second copy could not be read\n", stage->name, (long long)m->bad_lines);
    }
    if (!any) puts("nothing to repair");
    if (again > 0) puts("run the session again to send them through");
}

static enum status prepare(struct repair *repair, struct err *err) {
    const json_t *stages = json_object_get(repair->plan, "stages");
    repair->stages = calloc(json_array_size(stages) + 1, sizeof *repair->stages);
    FAIL_IF(repair->stages == NULL, err, STATUS_NO_MEMORY, "no memory for the stages");
    TRY(session_check_server(repair->session, false, err));
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *planned = json_array_get(stages, i);
        const char *name = json_string_value(json_object_get(planned, "name"));
        if (name == NULL || json_is_true(json_object_get(planned, "left_out"))) continue;
        struct mending *stage = &repair->stages[repair->count++];
        *stage = (struct mending){.name = name, .planned = planned};
        TRY(session_ledger_path(repair->session, name, false, stage->path, err));
    }
    return STATUS_OK;
}

int command_repair(const struct options *options) {
    struct session session = {.lock = -1};
    struct err err = {0};
    json_t *plan = NULL;
    struct repair repair = {.session = &session};
    enum status status = session_find(options->session, &session, &err);
    if (status == STATUS_OK) status = session_hold(&session, &err);
    if (status == STATUS_OK) status = session_read_plan(&session, &plan, &err);
    repair.plan = plan;
    if (status == STATUS_OK) status = prepare(&repair, &err);
    if (status == STATUS_OK) status = mend(&repair, &err);
    for (size_t i = 0; i < repair.count; i++)
        ledger_close(&repair.stages[i].ledger);
    if (status == STATUS_OK) print(&repair);
    free(repair.stages);
    json_decref(plan);
    session_end(&session);
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
