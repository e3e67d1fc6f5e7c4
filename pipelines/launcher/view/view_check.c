/* Checks what a view has in memory against whole ledgers, and mends it: rows that changed without a parcel (by hand, by
 * `verify`, or because a product of several items failed), and rows that are gone.
 *
 * Counts by state come first, since an index gives them. Ledgers whose counts are others are compared row by row, at
 * once; the others in turn, so that the least change is found, each after a commit and none more often than a part of a
 * core allows. Only rows that differ are read in full. */
#include <string.h>

#include "pipelines/launcher/view/view_private.h"

/* Parts of a core: of counting, comparing on suspicion, comparing in turn, and reading all again. */
static const double COUNT_SHARE = 300, SUSPECT_SHARE = 50, TURN_SHARE = 1000, REREAD_SHARE = 100;
enum { DIFFER_MAX = 1000 }; /* rows that are read one by one */

struct comparing {
    struct view *view;
    size_t stage;
    int64_t differ[DIFFER_MAX]; /* numbers of rows that are not as the view has them */
    size_t differ_count;
};

static enum status take_row(int64_t number, const struct ledger_row *row, void *context, struct err *err) {
    const struct comparing *comparing = context;
    struct stage_view *s = &comparing->view->stages[comparing->stage];
    if (number > s->last_number) s->last_number = number;
    return view_take(comparing->view, comparing->stage, number, row, err);
}

/* Reads everything again; *ret_gone: rows of exposures are no longer there. */
static enum status read_again(struct view *view, bool *ret_gone, struct err *err) {
    view->poll++;
    for (size_t i = 0; i < view->stage_count; i++) {
        struct stage_view *s = &view->stages[i];
        struct comparing comparing = {.view = view, .stage = i};
        if (s->watch == NULL) continue;
        TRY(ledger_watch_rows(s->watch, LEDGER_LOOK_AFTER, 0, take_row, &comparing, err));
        for (size_t k = 0; k < view->entry_count; k++) {
            struct visit *visit = &s->visits[k];
            if (visit->number == 0 || visit->mark == view->poll) continue;
            s->counts[visit->state]--;
            *visit = (struct visit){.reason = ""};
            *ret_gone |= s->source && view->entries[k].row >= 0;
            TRY(view_settle(view, k, err));
        }
    }
    return STATUS_OK;
}

/* ---- counts ---- */

/* Returns whether the counts of a ledger are those of its visits. One that has changed meanwhile is asked later. */
static enum status agrees(struct stage_view *s, bool *ret_agrees, struct err *err) {
    int64_t counts[LEDGER_FAILED + 1], version = 0;
    *ret_agrees = true;
    if (s->watch == NULL) return STATUS_OK;
    TRY(ledger_watch_counts(s->watch, counts, err));
    TRY(ledger_watch_version(s->watch, &version, err));
    *ret_agrees = version != s->version || memcmp(counts, s->counts, sizeof counts) == 0;
    return STATUS_OK;
}

static enum status count(struct view *view, double now, struct err *err) {
    double before = view_cpu();
    if (!view->unchecked || now < view->check_due) return STATUS_OK;
    for (size_t i = 0; i < view->stage_count; i++) {
        bool agree;
        TRY(agrees(&view->stages[i], &agree, err));
        view->stages[i].suspect |= !agree;
    }
    view->check_due = now + 1 + COUNT_SHARE * (view_cpu() - before);
    view->unchecked = false;
    return STATUS_OK;
}

/* ---- row by row ---- */

static bool is_as(const struct visit *visit, int64_t number, const struct ledger_row *row) {
    return visit->number == number && visit->state == (int8_t)row->state && visit->revision == row->revision &&
           visit->attempts == row->attempts && visit->time_changed == row->time_changed &&
           strcmp(visit->reason, row->reason != NULL ? row->reason : "") == 0;
}

static enum status compare_row(int64_t number, const struct ledger_row *row, void *context, struct err *err) {
    struct comparing *comparing = context;
    const struct stage_view *s = &comparing->view->stages[comparing->stage];
    (void)err;
    if (number > s->last_number) return STATUS_OK; /* the next poll reads it */
    int64_t entry = view_entry_find(comparing->view, row->source, row->id);
    if (entry >= 0 && s->visits[entry].number > 0 && is_as(&s->visits[entry], number, row)) return STATUS_OK;
    if (comparing->differ_count < DIFFER_MAX) comparing->differ[comparing->differ_count] = number;
    comparing->differ_count++;
    return STATUS_OK;
}

/* Compares one ledger, and reads the rows that differ. */
static enum status compare(struct view *view, size_t stage, struct err *err) {
    struct stage_view *s = &view->stages[stage];
    struct comparing comparing = {.view = view, .stage = stage};
    s->suspect = s->uncompared = false;
    TRY(ledger_watch_outlines(s->watch, compare_row, &comparing, err));
    if (comparing.differ_count > DIFFER_MAX) {
        view->reread = true;
        return STATUS_OK;
    }
    view->poll++;
    for (size_t i = 0; i < comparing.differ_count; i++)
        TRY(ledger_watch_rows(s->watch, LEDGER_LOOK_ONE, comparing.differ[i], take_row, &comparing, err));
    bool agree;
    TRY(agrees(s, &agree, err));
    view->reread |= !agree; /* rows are gone */
    return STATUS_OK;
}

/* Chooses the next ledger to compare; −1: none is due. */
static int choose(struct view *view, double now) {
    for (size_t i = 0; i < view->stage_count; i++)
        if (view->stages[i].suspect && view->stages[i].watch != NULL && now >= view->suspect_due) return (int)i;
    for (size_t i = 0; i < view->stage_count && now >= view->compare_due; i++) {
        size_t k = (view->turn + i) % view->stage_count;
        if (!view->stages[k].uncompared || view->stages[k].watch == NULL) continue;
        view->turn = k + 1;
        return (int)k;
    }
    return -1;
}

enum status view_check(struct view *view, bool *ret_gone, struct err *err) {
    double now = view_clock();
    TRY(count(view, now, err));
    for (int stage; (stage = choose(view, now)) >= 0;) {
        double before = view_cpu();
        TRY(compare(view, (size_t)stage, err));
        double used = view_cpu() - before;
        view->suspect_due = now + SUSPECT_SHARE * used;
        view->compare_due = now + 1 + TURN_SHARE * used;
    }
    if (!view->reread || now < view->reread_due) return STATUS_OK;
    double before = view_cpu();
    TRY(read_again(view, ret_gone, err));
    view->reread = false;
    view->reread_due = now + 1 + REREAD_SHARE * (view_cpu() - before);
    return STATUS_OK;
}
