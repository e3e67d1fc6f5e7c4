/* Reads what has changed in the ledgers.
 *
 * A row of a ledger changes when it is new, while it is in flight, and when its item is sent again: each change of a
 * row that was finished comes with a parcel, to the stage (a revision, a retry) or from it. So a poll looks at rows with
 * greater numbers, rows in flight, rows that were in flight at the last poll, and rows whose item was posted. view_check.c
 * finds everything else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/view/view_private.h"

static const double PATIENCE = 0.25; /* s to wait for a ledger that others hold: the view has time */

struct visiting {
    struct view *view;
    size_t stage;
};

static enum status take(int64_t number, const struct ledger_row *row, void *context, struct err *err) {
    const struct visiting *visiting = context;
    return view_take(visiting->view, visiting->stage, number, row, err);
}

/* Opens the ledger of a stage if it is there; *ret_changed is set when something was committed. A program of others may
 * keep one too: *ret_late is set when one is found after rows were made without it. */
static enum status look(struct view *view, size_t stage, bool *ret_changed, bool *ret_late, struct err *err) {
    struct stage_view *s = &view->stages[stage];
    char path[PATH_SIZE];
    int64_t version = 0;
    *ret_changed = false;
    if (s->left_out) return STATUS_OK;
    if (s->watch == NULL) {
        TRY(session_ledger_path(&view->session, s->name, true, path, err));
        TRY(ledger_watch_open(path, s->name, view->session.id, PATIENCE, &s->watch, err));
        if (s->watch == NULL) return STATUS_OK;
        s->loaded = false;
        *ret_late |= !s->keeps && view->row_count > 0;
        s->keeps = true;
    }
    TRY(ledger_watch_version(s->watch, &version, err));
    *ret_changed = !s->loaded || version != s->version;
    s->uncompared |= *ret_changed && s->loaded;
    s->version = version;
    return STATUS_OK;
}

/* ---- parcels ---- */

static int target_of(const struct view *view, const char *edge) {
    const char *to = strchr(edge, '>');
    return to != NULL ? view_stage_find(view, to + 1) : -1;
}

static enum status await(struct stage_view *s, struct awaited awaited, struct err *err) {
    if (s->awaited_count == s->awaited_room) {
        size_t room = s->awaited_room ? 2 * s->awaited_room : 64;
        struct awaited *grown = realloc(s->awaited, room * sizeof *grown);
        FAIL_IF(grown == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", s->name);
        s->awaited = grown;
        s->awaited_room = room;
    }
    s->awaited[s->awaited_count++] = awaited;
    return STATUS_OK;
}

static enum status visit_posted(const struct ledger_parcel_row *parcel, void *context, struct err *err) {
    const struct visiting *sender = context;
    struct view *view = sender->view;
    struct stage_view *s = &view->stages[sender->stage];
    int target = target_of(view, parcel->edge);
    int64_t entry = view_entry_find(view, parcel->source, parcel->id);
    s->last_seq = parcel->seq;
    if (entry < 0) return STATUS_OK;
    if (s->visits[entry].number > 0) TRY(view_open_add(view, sender->stage, (size_t)entry, err));
    if (target < 0 || view->stages[target].visits[entry].number == 0) return STATUS_OK;
    return await(&view->stages[target], (struct awaited){(size_t)entry, sender->stage, parcel->seq, false}, err);
}

/* A parcel to a stage that already has the item, and which is not answered: when the view begins. */
static enum status visit_early(const struct ledger_parcel_row *parcel, void *context, struct err *err) {
    const struct visiting *sender = context;
    struct view *view = sender->view;
    int target = target_of(view, parcel->edge);
    int64_t entry = view_entry_find(view, parcel->source, parcel->id);
    if (entry < 0 || target < 0 || view->stages[target].visits[entry].number == 0) return STATUS_OK;
    return await(&view->stages[target], (struct awaited){(size_t)entry, sender->stage, parcel->seq, false}, err);
}

static enum status read_posted(struct view *view, size_t stage, struct err *err) {
    struct stage_view *s = &view->stages[stage];
    struct visiting sender = {view, stage};
    if (!s->loaded) return ledger_watch_last_seq(s->watch, &s->last_seq, err);
    return ledger_watch_parcels(s->watch, LEDGER_PARCELS_AFTER, s->last_seq, visit_posted, &sender, err);
}

static enum status ask_answers(struct view *view, struct stage_view *s, struct err *err) {
    for (size_t i = 0; i < s->awaited_count; i++) {
        struct awaited *awaited = &s->awaited[i];
        struct ledger_watch *sender = view->stages[awaited->sender].watch;
        if (sender == NULL)
            awaited->answered = true;
        else if (!awaited->answered)
            TRY(ledger_watch_is_answered(sender, awaited->seq, &awaited->answered, err));
    }
    return STATUS_OK;
}

/* ---- rows ---- */

static enum status read_one(struct view *view, size_t stage, size_t entry, struct err *err) {
    struct stage_view *s = &view->stages[stage];
    struct visiting visiting = {view, stage};
    struct visit *visit = &s->visits[entry];
    int64_t number = visit->number;
    if (visit->mark == view->poll || number == 0) return STATUS_OK;
    TRY(ledger_watch_rows(s->watch, LEDGER_LOOK_ONE, number, take, &visiting, err));
    /* It was taken out. */
    if (s->visits[entry].mark != view->poll) view->reread = true;
    return STATUS_OK;
}

/* Looks again at entries that were in flight; `old` is the list of the last poll. */
static enum status read_open(struct view *view, size_t stage, struct err *err) {
    struct stage_view *s = &view->stages[stage];
    struct visiting visiting = {view, stage};
    size_t *old = s->open, count = s->open_count;
    s->open = NULL;
    s->open_count = s->open_room = 0;
    enum status status = ledger_watch_rows(s->watch, LEDGER_LOOK_IN_FLIGHT, 0, take, &visiting, err);
    size_t done = 0;
    for (; status == STATUS_OK && done < count; done++)
        status = read_one(view, stage, old[done], err);
    /* The next poll looks at the rest. */
    for (; done < count; done++)
        if (view_open_add(view, stage, old[done], NULL) != STATUS_OK) view->reread = true;
    free(old);
    return status;
}

static enum status note_last(int64_t number, const struct ledger_row *row, void *context, struct err *err) {
    const struct visiting *visiting = context;
    TRY(view_take(visiting->view, visiting->stage, number, row, err));
    visiting->view->stages[visiting->stage].last_number = number;
    return STATUS_OK;
}

static enum status read_awaited(struct view *view, size_t stage, struct err *err) {
    struct stage_view *s = &view->stages[stage];
    size_t kept = 0;
    for (size_t i = 0; i < s->awaited_count; i++) {
        TRY(read_one(view, stage, s->awaited[i].entry, err));
        if (!s->awaited[i].answered) s->awaited[kept++] = s->awaited[i];
    }
    s->awaited_count = kept;
    return STATUS_OK;
}

static enum status read_rows(struct view *view, size_t stage, bool changed, struct err *err) {
    struct stage_view *s = &view->stages[stage];
    struct visiting visiting = {view, stage};
    if (changed || s->forced) TRY(read_open(view, stage, err));
    s->forced = false;
    TRY(read_awaited(view, stage, err));
    if (changed) TRY(ledger_watch_rows(s->watch, LEDGER_LOOK_AFTER, s->last_number, note_last, &visiting, err));
    return STATUS_OK;
}

/* Sources come first, since they make the rows. Then the last stage comes first: its items have all columns, and those
 * of earlier stages need not be looked into. Where a source keeps no ledger, the first stage makes the rows. */
static size_t place(const struct view *view, size_t i) {
    bool bare = false;
    size_t sources = 0;
    for (size_t k = 0; k < view->stage_count; k++) {
        sources += view->stages[k].source;
        bare |= view->stages[k].source && view->stages[k].watch == NULL;
    }
    if (bare) return i;
    size_t left = i < sources ? i : view->stage_count - 1 - i;
    for (size_t k = 0; k < view->stage_count; k++)
        if (view->stages[k].source == (i < sources) && left-- == 0) return k;
    return i;
}

/* ---- parcels that wait ---- */

static enum status visit_waiting(const struct ledger_parcel_row *parcel, void *context, struct err *err) {
    const struct visiting *sender = context;
    struct view *view = sender->view;
    int target = target_of(view, parcel->edge);
    size_t entry = 0;
    if (target < 0) return STATUS_OK;
    TRY(view_entry(view, parcel->source, parcel->id, &entry, err));
    struct stage_view *s = &view->stages[target];
    struct visit *visit = &s->visits[entry];
    s->waiting++;
    if (!(s->oldest <= parcel->time_sent)) s->oldest = parcel->time_sent;
    if (visit->number == 0 && visit->mark != view->poll) s->unseen++;
    visit->mark = view->poll;
    return STATUS_OK;
}

static enum status read_waiting(struct view *view, struct err *err) {
    for (size_t i = 0; i < view->stage_count; i++) {
        view->stages[i].waiting = view->stages[i].unseen = 0;
        view->stages[i].oldest = NAN;
    }
    for (size_t i = 0; i < view->stage_count; i++) {
        struct visiting sender = {view, i};
        if (view->stages[i].watch == NULL || view->stages[i].to_count == 0) continue;
        TRY(ledger_watch_parcels(view->stages[i].watch, LEDGER_PARCELS_WAITING, 0, visit_waiting, &sender, err));
    }
    return STATUS_OK;
}

/* ---- all of it ---- */

static enum status read_stages(struct view *view, const bool *changed, struct err *err) {
    for (size_t i = 0; i < view->stage_count; i++)
        if (changed[i]) TRY(read_posted(view, i, err));
    for (size_t i = 0; i < view->stage_count; i++)
        TRY(ask_answers(view, &view->stages[i], err));
    for (size_t i = 0; i < view->stage_count; i++) {
        size_t k = place(view, i);
        if (view->stages[k].watch != NULL) TRY(read_rows(view, k, changed[k], err));
    }
    for (size_t i = 0; i < view->stage_count; i++) {
        struct visiting sender = {view, i};
        if (view->stages[i].watch == NULL || view->stages[i].loaded) continue;
        TRY(ledger_watch_parcels(view->stages[i].watch, LEDGER_PARCELS_WAITING, 0, visit_early, &sender, err));
        view->stages[i].loaded = true;
    }
    return read_waiting(view, err);
}

enum status view_read(struct view *view, bool *ret_changed, bool *ret_gone, struct err *err) {
    bool *changed = calloc(view->stage_count + 1, sizeof *changed), any = false, late = false;
    FAIL_IF(changed == NULL, err, STATUS_NO_MEMORY, "no memory to read %s", view->session.path);
    enum status status = STATUS_OK;
    view->poll++;
    for (size_t i = 0; status == STATUS_OK && i < view->stage_count; i++) {
        status = look(view, i, &changed[i], &late, err);
        any |= changed[i] || view->stages[i].forced;
    }
    if (status == STATUS_OK && late) {
        free(changed);
        *ret_gone = true;
        return STATUS_OK;
    }
    if (status == STATUS_OK && any) status = read_stages(view, changed, err);
    /* A version that was taken, and not read, would hide what came with it. */
    for (size_t i = 0; status != STATUS_OK && i < view->stage_count; i++)
        view->stages[i].version = -1;
    free(changed);
    view->unchecked |= any;
    if (status == STATUS_OK) status = view_check(view, ret_gone, err);
    if (status == STATUS_OK) *ret_changed = any;
    return status;
}
