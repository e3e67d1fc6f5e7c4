/* Lists the items of a stage: merges its own ledger with what its senders remember. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/tally_private.h"

enum { NAME_SIZE = 256 }; /* ">STAGE" */

static enum status add_item(struct tally_stage *stage, const char *source, const char *id, const char *reason,
                            const struct tally_item *values, struct err *err) {
    if (stage->item_count == stage->capacity) {
        size_t capacity = stage->capacity ? 2 * stage->capacity : 64;
        struct tally_item *items = realloc(stage->items, capacity * sizeof *items);
        FAIL_IF(items == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", stage->name);
        stage->items = items;
        stage->capacity = capacity;
    }
    size_t before = source[0] != '\0' ? strlen(source) + 1 : 0, length = strlen(id);
    char *full = malloc(before + length + 1 + strlen(source) + 1);
    char *copy = reason && reason[0] ? strdup(reason) : NULL;
    if (full == NULL || (reason && reason[0] && copy == NULL)) {
        free(full);
        free(copy);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the items of %s", stage->name);
    }
    if (before > 0) sprintf(full, "%s/", source);
    memcpy(full + before, id, length + 1);
    strcpy(full + before + length + 1, source);
    struct tally_item *item = &stage->items[stage->item_count];
    *item = *values;
    item->order = stage->item_count++;
    item->full = full;
    item->id = full + before;
    item->source = item->id + length + 1;
    item->name = stage->several ? item->full : item->id;
    item->reason = copy;
    return STATUS_OK;
}

enum status tally_visit_own(const struct ledger_row *row, void *context, struct err *err) {
    const struct tally_item values = {
        .state = row->state, .time = row->time_changed, .own = true, .input = TALLY_NOBODY};
    return add_item(context, row->source, row->id, row->reason, &values, err);
}

/* Translates a receiver's verdict on an item: "done", "rejected" or "failed". The reason is in the receiver's own
 * ledger. */
static enum ledger_state verdict_state(const char *verdict) {
    if (verdict != NULL && strcmp(verdict, "rejected") == 0) return LEDGER_REJECTED;
    return verdict != NULL && strcmp(verdict, "failed") == 0 ? LEDGER_FAILED : LEDGER_DONE;
}

/* The input whose outbox is read. */
struct sender {
    struct tally_stage *stage;
    int input;
};

static enum status visit_sent(const struct ledger_parcel_row *row, void *context, struct err *err) {
    struct sender *sender = context;
    const char *to = strchr(row->edge, '>');
    if (to == NULL || strcmp(to + 1, sender->stage->name) != 0) return STATUS_OK;
    struct tally_item values = {.input = sender->input, .time = row->time_sent};
    values.waiting = isnan(row->time_acknowledged);
    if (!values.waiting) {
        values.time = row->time_acknowledged;
        values.state = verdict_state(row->verdict);
    }
    return add_item(sender->stage, row->source, row->id, NULL, &values, err);
}

/* Items of one id together, the ledger's own before what was sent. */
static int by_id(const void *a, const void *b) {
    const struct tally_item *one = a, *two = b;
    int order = strcmp(one->id, two->id);
    if (order != 0) return order;
    if (one->own != two->own) return one->own ? -1 : 1;
    return (one->order > two->order) - (one->order < two->order);
}

static int by_order(const void *a, const void *b) {
    const struct tally_item *one = a, *two = b;
    return (one->order > two->order) - (one->order < two->order);
}

static void free_item(struct tally_item *item) {
    free(item->full);
    free(item->reason);
}

/* Merges what the stage's ledger and a sender say about one item; the ledger decides on its state. */
static void merge_into(struct tally_item *into, struct tally_item *sent) {
    if (!into->own && sent->waiting) {
        into->state = sent->state;
        into->time = sent->time;
    }
    into->input = sent->input;
    into->waiting |= sent->waiting;
    if (sent->order < into->order) into->order = sent->order;
    if (into->source[0] != '\0' || sent->source[0] == '\0') {
        free_item(sent);
        return;
    }
    free(into->full);
    into->full = sent->full;
    into->id = sent->id;
    into->source = sent->source;
    into->name = sent->name;
}

/* Finds what a sent item is among `count` items of its id: that of its very source, else one whose source is not known.
 * A message of another input about this item is another item: a stage does only the first of the two. */
static struct tally_item *find_match(struct tally_item *items, size_t count, const struct tally_item *sent) {
    struct tally_item *found = NULL;
    for (size_t i = 0; i < count; i++) {
        bool same = strcmp(items[i].source, sent->source) == 0;
        bool unknown = items[i].source[0] == '\0' || sent->source[0] == '\0';
        if ((items[i].input != TALLY_NOBODY && items[i].input != sent->input) || (!same && !unknown)) continue;
        if (same) return &items[i];
        if (found == NULL) found = &items[i];
    }
    return found;
}

static void merge(struct tally_stage *stage) {
    size_t kept = 0;
    if (stage->item_count == 0) return;
    qsort(stage->items, stage->item_count, sizeof *stage->items, by_id);
    for (size_t i = 0; i < stage->item_count;) {
        size_t group = kept;
        for (size_t first = i;
             i < stage->item_count && (i == first || strcmp(stage->items[i].id, stage->items[group].id) == 0); i++) {
            struct tally_item *match =
                stage->items[i].own ? NULL : find_match(&stage->items[group], kept - group, &stage->items[i]);
            if (match != NULL)
                merge_into(match, &stage->items[i]);
            else
                stage->items[kept++] = stage->items[i];
        }
    }
    stage->item_count = kept;
    qsort(stage->items, stage->item_count, sizeof *stage->items, by_order);
}

static void count_input(struct tally_stage *stage, const struct tally_item *item, bool lost) {
    if (item->input == TALLY_NOBODY) return;
    struct tally_input *input = &stage->inputs[item->input];
    input->sent++;
    input->waiting += item->waiting;
    input->lost += lost;
    input->seen += stage->has_ledger ? item->own : !item->waiting;
}

static void count(struct tally_stage *stage) {
    for (size_t i = 0; i < stage->item_count; i++) {
        struct tally_item *item = &stage->items[i];
        bool lost = !item->own && !item->waiting && stage->has_ledger;
        if (lost || (!item->own && item->waiting)) item->state = LEDGER_IN_FLIGHT;
        count_input(stage, item, lost);
        stage->seen++;
        stage->done += item->state == LEDGER_DONE;
        stage->rejected += item->state == LEDGER_REJECTED;
        stage->failed += item->state == LEDGER_FAILED;
        stage->in_flight += item->state == LEDGER_IN_FLIGHT;
        stage->waiting += item->waiting;
        stage->lost += lost;
        stage->stray += !stage->source && stage->upstream_known && item->input == TALLY_NOBODY;
    }
}

static enum status take_upstream(const struct session *session, struct tally_stage *stage, int input, struct err *err) {
    struct ledger *ledger = NULL;
    struct sender sender = {.stage = stage, .input = input};
    size_t before = stage->item_count;
    TRY(session_ledger(session, stage->inputs[input].from, true, &ledger, err));
    enum status status = ledger != NULL ? ledger_each_parcel(ledger, visit_sent, &sender, err) : STATUS_OK;
    ledger_close(&ledger);
    /* A stage that remembers nothing of what it sent (it acknowledges an item only after downstream has taken it) may
     * keep a ledger all the same. */
    stage->inputs[input].known = stage->item_count > before;
    stage->upstream_known &= stage->inputs[input].known;
    return status;
}

/* Returns whether a sender explains an item that is no longer in its outbox: it does the item again, or did so and came
 * to another end. What it had sent before was taken back (`retry --lost`). */
static enum status ask_sender(struct ledger *ledger, const char *suffix, const struct tally_item *item,
                              bool *ret_explained, struct err *err) {
    bool known = false;
    enum ledger_state state = LEDGER_DONE;
    const struct ledger_key key = {item->source, item->id};
    TRY(ledger_was_sent(ledger, suffix, key, ret_explained, err));
    if (*ret_explained) return STATUS_OK;
    TRY(ledger_lookup(ledger, key, &known, &state, err));
    *ret_explained = known && state != LEDGER_DONE;
    return STATUS_OK;
}

/* Asks the senders about each stray: an item that came into the stage's ledger after theirs were read is none. */
static enum status ask_about_strays(const struct session *session, struct tally_stage *stage, struct err *err) {
    char suffix[NAME_SIZE];
    snprintf(suffix, sizeof suffix, ">%s", stage->name);
    bool *explained = calloc(stage->item_count, sizeof *explained);
    FAIL_IF(explained == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", stage->name);
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < stage->input_count; i++) {
        struct ledger *ledger = NULL;
        status = session_ledger(session, stage->inputs[i].from, true, &ledger, err);
        for (size_t k = 0; ledger != NULL && status == STATUS_OK && k < stage->item_count; k++)
            if (stage->items[k].input == TALLY_NOBODY && !explained[k])
                status = ask_sender(ledger, suffix, &stage->items[k], &explained[k], err);
        ledger_close(&ledger);
    }
    stage->stray = 0;
    for (size_t k = 0; k < stage->item_count; k++)
        stage->stray += stage->items[k].input == TALLY_NOBODY && !explained[k];
    free(explained);
    return status;
}

enum status tally_list(const struct session *session, struct tally_stage *stage, struct err *err) {
    stage->upstream_known = true;
    for (size_t i = 0; i < stage->input_count; i++)
        stage->inputs[i] = (struct tally_input){.from = stage->inputs[i].from};
    /* Upstream comes first: what its receivers had acknowledged by then is in the stage's own ledger now. */
    for (size_t i = 0; i < stage->input_count; i++)
        TRY(take_upstream(session, stage, (int)i, err));
    struct ledger *ledger = NULL;
    TRY(session_ledger(session, stage->name, true, &ledger, err));
    stage->has_ledger |= ledger != NULL;
    enum status status = ledger != NULL ? ledger_each(ledger, -1, tally_visit_own, stage, err) : STATUS_OK;
    ledger_close(&ledger);
    merge(stage);
    count(stage);
    return status == STATUS_OK && stage->stray > 0 ? ask_about_strays(session, stage, err) : status;
}
