/* Items that a stage wants again (common/harness/again.h): sends a few at a time, the last ones first, whenever nothing
 * else is on its way to the stage. What has not begun when the stream drains is dropped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/harness/again.h"
#include "common/memory.h"
#include "pipelines/launcher/redo.h"
#include "pipelines/launcher/run/run_private.h"

enum { AT_ONCE = 4 };
static const double SOON = 0.2, LATER = 5; /* s between looks: in a pass, and between two that send nothing */

struct again_key {
    int64_t row; /* in the stage's ledger */
    char source[ITEM_SOURCE_SIZE], id[ITEM_ID_MAX + 1];
};

struct again_stage {
    const struct graph_stage *stage;
    bool possible; /* its items can be made again */
    struct again wanted;
    /* Looks pass over the ledger one after the other, from its last row to its first. */
    int64_t row;     /* the last one that a look has seen to; 0: a pass begins */
    int64_t passing; /* items that were sent in this pass */
    bool complete;   /* no item could be sent in the last whole pass, and none since */
    int64_t sent;    /* items, until the last of them is done */
    double look_at;
    bool failed;                    /* the last look has failed, which was logged */
    struct again_key keys[AT_ONCE]; /* that were found last */
    int count;
};

struct run_again {
    struct again_stage *stages;
    size_t count;
};

enum status run_again_create(struct run *run, struct err *err) {
    size_t count = run->graph->stage_count;
    TRY(mem_new(1, sizeof *run->again, "the items that stages want again", &run->again, err));
    TRY(mem_new(count + 1, sizeof *run->again->stages, "the items that stages want again", &run->again->stages, err));
    run->again->count = count;
    for (size_t i = 0; i < count; i++) {
        struct again_stage *s = &run->again->stages[i];
        s->stage = &run->graph->stages[i];
        s->possible = redo_is_possible(run->planned, s->stage->section.name);
    }
    return STATUS_OK;
}

void run_again_destroy(struct run *run) {
    if (run->again == NULL) return;
    mem_free(&run->again->stages);
    mem_free(&run->again);
}

static enum status note_key(struct ledger_key key, int64_t row, void *context, struct err *err) {
    struct again_stage *s = context;
    struct again_key *own = &s->keys[s->count++];
    (void)err;
    own->row = row;
    snprintf(own->source, sizeof own->source, "%s", key.source);
    snprintf(own->id, sizeof own->id, "%s", key.id);
    return STATUS_OK;
}

static enum status find_wanted(const struct run *run, struct again_stage *s, struct err *err) {
    struct ledger *ledger = NULL;
    s->count = 0;
    TRY(session_ledger(&run->session, s->stage->section.name, true, &ledger, err));
    if (ledger == NULL) return STATUS_OK;
    enum status status =
        ledger_each_again(ledger, s->wanted.column, s->wanted.number, s->row, AT_ONCE, note_key, s, err);
    ledger_close(&ledger);
    return status;
}

/* Reads what the stage wants. Without a record, or with a damaged one, it wants nothing. */
static bool wants(const struct run *run, struct again_stage *s) {
    char folder[PATH_SIZE];
    struct again now = {0};
    if (path_join(run->session.path, s->stage->section.name, folder, sizeof folder, NULL) != STATUS_OK ||
        again_read(folder, &now, NULL) != STATUS_OK)
        return false;
    if (now.number != s->wanted.number) {
        s->complete = false;
        s->row = s->passing = 0;
    }
    s->wanted = now;
    return true;
}

static void tell(struct run *run, struct again_stage *s, const char *what) {
    char text[256];
    snprintf(text, sizeof text, "%s %s", s->stage->section.name, what);
    log_write(run->log, LOG_INFO, "again", "%s", text);
    progress_say(&run->progress, text);
}

/* Ends a pass. Items that cannot be sent, such as those that are on their way to a stage before, wait for a later
 * one. */
static void end_pass(struct run *run, struct again_stage *s) {
    if (s->passing == 0) {
        if (s->sent > 0) tell(run, s, "has made all earlier items again");
        s->complete = true;
        s->sent = 0;
    }
    s->row = s->passing = 0;
}

static void count_sent(struct run *run, struct again_stage *s) {
    if (s->sent++ == 0) tell(run, s, "makes earlier items again while nothing else is to be done");
    s->passing++;
    s->complete = false;
}

static enum status send_some(struct run *run, struct again_stage *s, struct err *err) {
    TRY(find_wanted(run, s, err));
    for (int i = 0; i < s->count; i++) {
        bool sent = false;
        const struct ledger_key key = {s->keys[i].source, s->keys[i].id};
        if (!again_spares(s->wanted.spared, key.id))
            TRY(redo_one(&run->session, run->planned, s->stage->section.name, key, s->wanted.number, &sent, err));
        s->row = s->keys[i].row;
        if (sent) count_sent(run, s);
    }
    if (s->count == 0) end_pass(run, s);
    return STATUS_OK;
}

/* Returns whether all instances that send to the stage run: what is posted for others waits for the next run. */
static bool senders_run(const struct run *run, const struct supervisor *supervisor, const struct again_stage *s) {
    for (size_t e = 0; e < run->plan->edge_count; e++) {
        const struct plan_edge *edge = &run->plan->edges[e];
        if (&run->graph->stages[edge->to] == s->stage && supervisor_state(supervisor, edge->instance) != CHILD_RUNNING)
            return false;
    }
    return true;
}

static enum status look(struct run *run, const struct supervisor *supervisor, struct again_stage *s, struct err *err) {
    int64_t waiting = 0;
    s->look_at = clock_monotonic() + LATER;
    if (!s->possible || !wants(run, s) || !senders_run(run, supervisor, s)) return STATUS_OK;
    TRY(redo_waiting(&run->session, run->planned, s->stage->section.name, &waiting, err));
    if (waiting == 0) TRY(send_some(run, s, err));
    if (!s->complete || s->row > 0) s->look_at = clock_monotonic() + SOON;
    return STATUS_OK;
}

void run_again_tend(struct run *run, const struct supervisor *supervisor) {
    if (supervisor_draining(supervisor) || (run->replay != NULL && run->replay->drained)) return;
    for (size_t i = 0; i < run->again->count; i++) {
        struct again_stage *s = &run->again->stages[i];
        struct err err = {0};
        if (clock_monotonic() < s->look_at) continue;
        /* A ledger that is busy is asked again later. */
        enum status status = look(run, supervisor, s, &err);
        if (status == STATUS_OK) s->failed = false;
        if (status == STATUS_OK || status == STATUS_UNAVAILABLE) continue;
        if (!s->failed) log_write(run->log, LOG_WARN, "again", "%s: %s", s->stage->section.name, err.message);
        s->failed = true;
    }
}

static bool adopts(const struct graph_stage *stage) {
    return graph_entry(&stage->section, "templates_from") != NULL;
}

bool run_again_expected(const struct run *run) {
    for (size_t i = 0; i < run->graph->stage_count; i++)
        if (adopts(&run->graph->stages[i])) return true;
    return false;
}

enum status run_again_pending(const struct run *run, bool *ret_pending, struct err *err) {
    *ret_pending = false;
    for (size_t i = 0; i < run->again->count && !*ret_pending; i++) {
        struct again_stage *s = &run->again->stages[i];
        const char *name = s->stage->section.name;
        int64_t waiting = 0;
        if (!s->possible || !adopts(s->stage)) continue;
        TRY(redo_waiting(&run->session, run->planned, name, &waiting, err));
        *ret_pending = waiting > 0 || (wants(run, s) && !s->complete);
    }
    return STATUS_OK;
}

/* The sender may have ended by itself, before it saw what was posted. */
static enum status take_back(const struct run *run, const struct again_stage *s, const json_t *planned,
                             struct err *err) {
    size_t i;
    json_t *from;
    char suffix[128];
    snprintf(suffix, sizeof suffix, ">%s", s->stage->section.name);
    json_array_foreach(json_object_get(planned, "from"), i, from) {
        struct ledger *ledger = NULL;
        enum status status = STATUS_OK;
        TRY(session_ledger(&run->session, json_string_value(from), false, &ledger, err));
        if (ledger == NULL) continue;
        for (int k = 0; k < s->count && status == STATUS_OK; k++)
            status = ledger_take_back(ledger, suffix, (struct ledger_key){s->keys[k].source, s->keys[k].id}, err);
        ledger_close(&ledger);
        TRY(status);
    }
    return STATUS_OK;
}

enum status run_again_end(const struct run *run, struct err *err) {
    size_t i;
    json_t *planned;
    json_array_foreach(json_object_get(run->planned, "stages"), i, planned) {
        const char *name = json_string_value(json_object_get(planned, "name"));
        for (size_t k = 0; k < run->again->count; k++)
            if (strcmp(run->again->stages[k].stage->section.name, name) == 0 && run->again->stages[k].count > 0)
                TRY(take_back(run, &run->again->stages[k], planned, err));
    }
    return STATUS_OK;
}
