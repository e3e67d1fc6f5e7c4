#include "pipelines/launcher/tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 256 }; /* ">STAGE" */

void tally_clear(struct tally *tally) {
    for (size_t i = 0; i < tally->count; i++) {
        struct tally_stage *stage = &tally->stages[i];
        for (size_t k = 0; k < stage->item_count; k++) {
            free(stage->items[k].id);
            free(stage->items[k].reason);
        }
        free(stage->items);
        free(stage->name);
    }
    free(tally->stages);
    *tally = (struct tally){0};
}

const struct tally_stage *tally_find(const struct tally *tally, const char *name) {
    for (size_t i = 0; i < tally->count; i++)
        if (strcmp(tally->stages[i].name, name) == 0) return &tally->stages[i];
    return NULL;
}

static enum status add_item(struct tally_stage *stage, const char *id, const char *reason,
                            const struct tally_item *values, struct err *err) {
    if (stage->item_count == stage->capacity) {
        size_t capacity = stage->capacity ? 2 * stage->capacity : 64;
        struct tally_item *items = realloc(stage->items, capacity * sizeof *items);
        FAIL_IF(items == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", stage->name);
        stage->items = items;
        stage->capacity = capacity;
    }
    struct tally_item *item = &stage->items[stage->item_count];
    *item = *values;
    item->order = stage->item_count;
    item->id = strdup(id);
    item->reason = reason && reason[0] ? strdup(reason) : NULL;
    stage->item_count++;
    FAIL_IF(item->id == NULL || (reason && reason[0] && item->reason == NULL), err, STATUS_NO_MEMORY,
            "no memory for the items of %s", stage->name);
    return STATUS_OK;
}

static enum status visit_own(const struct ledger_row *row, void *context, struct err *err) {
    const struct tally_item values = {.state = row->state, .time = row->time_changed, .own = true};
    return add_item(context, row->id, row->reason, &values, err);
}

/* Translates a receiver's verdict on an item: "done", "rejected" or "failed". The reason is in the receiver's own
 * ledger. */
static enum ledger_state verdict_state(const char *verdict) {
    if (verdict != NULL && strcmp(verdict, "rejected") == 0) return LEDGER_REJECTED;
    return verdict != NULL && strcmp(verdict, "failed") == 0 ? LEDGER_FAILED : LEDGER_DONE;
}

static enum status visit_sent(const struct ledger_parcel_row *row, void *context, struct err *err) {
    struct tally_stage *stage = context;
    const char *to = strchr(row->edge, '>');
    if (to == NULL || strcmp(to + 1, stage->name) != 0) return STATUS_OK;
    struct tally_item values = {.sent = true, .time = row->time_sent};
    values.waiting = isnan(row->time_acknowledged);
    if (!values.waiting) {
        values.time = row->time_acknowledged;
        values.state = verdict_state(row->verdict);
    }
    return add_item(stage, row->id, NULL, &values, err);
}

static int by_id(const void *a, const void *b) {
    const struct tally_item *one = a, *two = b;
    int order = strcmp(one->id, two->id);
    return order ? order : (one->order > two->order) - (one->order < two->order);
}

static int by_order(const void *a, const void *b) {
    const struct tally_item *one = a, *two = b;
    return (one->order > two->order) - (one->order < two->order);
}

/* Merges what the stage's ledger and all senders say about one item; the ledger decides on its state. */
static void merge_into(struct tally_item *into, struct tally_item *from) {
    bool from_wins = from->own || (!into->own && from->waiting);
    if (from_wins) {
        into->state = from->state;
        into->time = from->time;
        char *reason = into->reason;
        into->reason = from->reason;
        from->reason = reason;
    }
    into->own |= from->own;
    into->sent |= from->sent;
    into->waiting |= from->waiting;
    free(from->id);
    free(from->reason);
}

static void merge(struct tally_stage *stage) {
    size_t kept = 0;
    if (stage->item_count == 0) return;
    qsort(stage->items, stage->item_count, sizeof *stage->items, by_id);
    for (size_t i = 1; i < stage->item_count; i++)
        if (strcmp(stage->items[kept].id, stage->items[i].id) == 0)
            merge_into(&stage->items[kept], &stage->items[i]);
        else
            stage->items[++kept] = stage->items[i];
    stage->item_count = kept + 1;
    qsort(stage->items, stage->item_count, sizeof *stage->items, by_order);
}

static void count(struct tally_stage *stage) {
    for (size_t i = 0; i < stage->item_count; i++) {
        struct tally_item *item = &stage->items[i];
        if (!item->own && item->waiting) item->state = LEDGER_IN_FLIGHT;
        if (!item->own && !item->waiting && stage->has_ledger) {
            item->state = LEDGER_IN_FLIGHT;
            stage->lost++;
        }
        stage->seen++;
        stage->done += item->state == LEDGER_DONE;
        stage->rejected += item->state == LEDGER_REJECTED;
        stage->failed += item->state == LEDGER_FAILED;
        stage->in_flight += item->state == LEDGER_IN_FLIGHT;
        stage->waiting += item->waiting;
        stage->stray += !stage->source && stage->upstream_known && !item->sent;
    }
}

static enum status take_upstream(const struct session *session, const char *up, struct tally_stage *stage,
                                 struct err *err) {
    struct ledger *ledger = NULL;
    TRY(session_ledger(session, up, true, &ledger, err));
    if (ledger == NULL) {
        stage->upstream_known = false;
        return STATUS_OK;
    }
    size_t before = stage->item_count;
    enum status status = ledger_each_parcel(ledger, visit_sent, stage, err);
    ledger_close(&ledger);
    /* A stage that remembers nothing of what it sent (it acknowledges an item only after downstream has taken it) may
     * keep a ledger all the same. */
    if (stage->item_count == before) stage->upstream_known = false;
    return status;
}

/* Looks again at what was sent: an item that came into the stage's ledger after the senders' were read is no stray. */
static enum status take_latest(const struct session *session, const json_t *from, struct tally_stage *stage,
                               struct err *err) {
    char suffix[NAME_SIZE];
    size_t i;
    json_t *up;
    snprintf(suffix, sizeof suffix, ">%s", stage->name);
    json_array_foreach(from, i, up) {
        struct ledger *ledger = NULL;
        TRY(session_ledger(session, json_string_value(up), true, &ledger, err));
        enum status status = STATUS_OK;
        for (size_t k = 0; ledger != NULL && status == STATUS_OK && k < stage->item_count; k++)
            if (!stage->items[k].sent)
                status = ledger_was_sent(ledger, suffix, (struct ledger_key){"", stage->items[k].id},
                                         &stage->items[k].sent, err);
        ledger_close(&ledger);
        TRY(status);
    }
    stage->stray = 0;
    for (size_t k = 0; k < stage->item_count; k++)
        stage->stray += !stage->items[k].sent;
    return STATUS_OK;
}

static enum status take_items(const struct session *session, const json_t *from, struct tally_stage *stage,
                              struct err *err) {
    /* Upstream comes first: what its receivers had acknowledged by then is in the stage's own ledger now. */
    size_t i;
    json_t *up;
    json_array_foreach(from, i, up) TRY(take_upstream(session, json_string_value(up), stage, err));
    struct ledger *ledger = NULL;
    TRY(session_ledger(session, stage->name, true, &ledger, err));
    stage->has_ledger = ledger != NULL;
    enum status status = STATUS_OK;
    if (ledger != NULL) status = ledger_each(ledger, -1, visit_own, stage, err);
    ledger_close(&ledger);
    merge(stage);
    count(stage);
    return status == STATUS_OK && stage->stray > 0 ? take_latest(session, from, stage, err) : status;
}

/* Compares what was sent to a stage with its ledger, inside the database. */
static enum status compare_upstream(const struct session *session, const char *up, struct tally_stage *stage,
                                    enum tally_depth depth, struct ledger_edge_counts *sum, struct err *err) {
    struct ledger *ledger = NULL;
    struct ledger_edge_counts counts = {0};
    char path[PATH_SIZE];
    TRY(session_file(session, "ledger", stage->name, ".sqlite", path, err));
    TRY(session_ledger(session, up, true, &ledger, err));
    if (ledger == NULL) {
        stage->upstream_known = false;
        return STATUS_OK;
    }
    enum status status = ledger_compare(ledger, stage->name, path, depth == TALLY_LIVE, &counts, err);
    ledger_close(&ledger);
    if (depth != TALLY_LIVE && counts.sent == 0) stage->upstream_known = false;
    sum->sent += counts.sent;
    sum->items += counts.items;
    sum->waiting += counts.waiting;
    sum->waiting_unseen += counts.waiting_unseen;
    sum->lost += counts.lost;
    return status;
}

/* Returns whether the sums alone show that each item sent is there once, and no other item. */
static bool is_plain(const struct tally_stage *stage, const struct ledger_edge_counts *sent,
                     const struct ledger_counts *own) {
    bool matches = sent->sent == sent->items && sent->lost == 0 && sent->items - sent->waiting_unseen == own->seen;
    return stage->source || !stage->upstream_known || matches;
}

/* Counts without a list of the items. ret_counted: false when only the list can give the counts. */
static enum status take_counts(const struct session *session, const json_t *from, enum tally_depth depth,
                               struct tally_stage *stage, bool *ret_counted, struct err *err) {
    struct ledger *ledger = NULL;
    struct ledger_edge_counts sent = {0};
    struct ledger_counts own = {0};
    *ret_counted = false;
    TRY(session_ledger(session, stage->name, true, &ledger, err));
    stage->has_ledger = ledger != NULL;
    if (ledger == NULL || (depth == TALLY_COUNTS && json_array_size(from) > 1)) {
        ledger_close(&ledger);
        return STATUS_OK;
    }
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(from); i++)
        status = compare_upstream(session, json_string_value(json_array_get(from, i)), stage, depth, &sent, err);
    if (status == STATUS_OK) status = ledger_counts(ledger, &own, err);
    if (status == STATUS_OK && (depth == TALLY_LIVE || is_plain(stage, &sent, &own))) {
        *ret_counted = true;
        stage->seen = own.seen + sent.waiting_unseen;
        stage->done = own.done;
        stage->rejected = own.rejected;
        stage->failed = own.failed;
        stage->in_flight = own.in_flight + sent.waiting_unseen;
        stage->waiting = sent.waiting;
        if (depth == TALLY_COUNTS) status = ledger_each(ledger, LEDGER_REJECTED, visit_own, stage, err);
        if (depth == TALLY_COUNTS && status == STATUS_OK)
            status = ledger_each(ledger, LEDGER_FAILED, visit_own, stage, err);
    }
    ledger_close(&ledger);
    return status;
}

/* Returns whether the items that are done in a stage go on as they are; a cumulative stage sends what it made from
 * many. */
static bool passes_on(const json_t *plan, const char *name) {
    size_t i;
    json_t *planned;
    json_array_foreach(json_object_get(plan, "stages"), i, planned) {
        const char *other = json_string_value(json_object_get(planned, "name"));
        if (other != NULL && strcmp(other, name) == 0)
            return json_array_size(json_object_get(planned, "from")) == 0 ||
                   !json_is_true(json_object_get(planned, "cumulative"));
    }
    return false;
}

static enum status count_unsent(const struct session *session, const json_t *plan, const json_t *from,
                                struct tally_stage *stage, struct err *err) {
    char suffix[NAME_SIZE];
    size_t i;
    json_t *up;
    snprintf(suffix, sizeof suffix, ">%s", stage->name);
    json_array_foreach(from, i, up) {
        struct ledger *ledger = NULL;
        int64_t unsent = 0;
        if (!passes_on(plan, json_string_value(up))) continue;
        TRY(session_ledger(session, json_string_value(up), true, &ledger, err));
        enum status status = ledger != NULL ? ledger_count_unsent(ledger, suffix, &unsent, err) : STATUS_OK;
        ledger_close(&ledger);
        TRY(status);
        stage->unsent += unsent;
    }
    return STATUS_OK;
}

static enum status take_stage(const struct session *session, const json_t *plan, const json_t *planned,
                              enum tally_depth depth, struct tally_stage *stage, struct err *err) {
    const char *name = json_string_value(json_object_get(planned, "name"));
    const json_t *from = json_object_get(planned, "from");
    FAIL_IF(name == NULL, err, STATUS_BAD_FORMAT, "%s/log/plan.json: a stage has no name", session->path);
    stage->name = strdup(name);
    FAIL_IF(stage->name == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", name);
    stage->cumulative = json_is_true(json_object_get(planned, "cumulative"));
    stage->left_out = json_is_true(json_object_get(planned, "left_out"));
    stage->source = json_array_size(from) == 0;
    stage->upstream_known = true;
    if (stage->left_out) return STATUS_OK;
    if (depth != TALLY_LIVE) TRY(count_unsent(session, plan, from, stage, err));
    bool counted = false;
    if (depth != TALLY_ITEMS) TRY(take_counts(session, from, depth, stage, &counted, err));
    stage->upstream_known |= !counted;
    return counted ? STATUS_OK : take_items(session, from, stage, err);
}

enum status tally_take(const struct session *session, const json_t *plan, enum tally_depth depth,
                       struct tally *ret_tally, struct err *err) {
    const json_t *stages = json_object_get(plan, "stages");
    struct tally tally = {0};
    tally.stages = calloc(json_array_size(stages) + 1, sizeof *tally.stages);
    FAIL_IF(tally.stages == NULL, err, STATUS_NO_MEMORY, "no memory for the counts");
    size_t i;
    json_t *planned;
    json_array_foreach(stages, i, planned) {
        tally.count++;
        enum status status = take_stage(session, plan, planned, depth, &tally.stages[i], err);
        if (status != STATUS_OK) {
            tally_clear(&tally);
            return status;
        }
    }
    *ret_tally = tally;
    return STATUS_OK;
}

static const char *what_is_wrong(const struct tally_stage *stage, int64_t *ret_number) {
    if (stage->lost > 0) return *ret_number = stage->lost, "were acknowledged but are not in its ledger";
    if (stage->stray > 0) return *ret_number = stage->stray, "are in its ledger but nobody sent them";
    if (stage->unsent > 0) return *ret_number = stage->unsent, "are done upstream but were not sent to it";
    if (stage->seen != stage->done + stage->rejected + stage->failed + stage->in_flight)
        return *ret_number = stage->seen, "were seen, which is not the sum of the others";
    return NULL;
}

static const char *what_is_open(const struct tally_stage *stage, int64_t *ret_number) {
    if (stage->in_flight > 0) return *ret_number = stage->in_flight, "are neither done, rejected nor failed";
    if (stage->waiting > 0) return *ret_number = stage->waiting, "were not acknowledged";
    return NULL;
}

static bool find_first(const struct tally *tally, const char *(*find)(const struct tally_stage *, int64_t *),
                       char *reason, size_t size) {
    for (size_t i = 0; i < tally->count; i++) {
        int64_t number = 0;
        const char *what = find(&tally->stages[i], &number);
        if (what == NULL) continue;
        snprintf(reason, size, "%s: %lld items %s", tally->stages[i].name, (long long)number, what);
        return true;
    }
    return false;
}

bool tally_reconciles(const struct tally *tally, char *reason, size_t size) {
    return !find_first(tally, what_is_wrong, reason, size);
}

bool tally_adds_up(const struct tally *tally, char *reason, size_t size) {
    return tally_reconciles(tally, reason, size) && !find_first(tally, what_is_open, reason, size);
}

bool tally_has_failed(const struct tally *tally) {
    for (size_t i = 0; i < tally->count; i++)
        if (tally->stages[i].failed > 0) return true;
    return false;
}
