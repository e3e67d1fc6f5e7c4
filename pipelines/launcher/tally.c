#include "pipelines/launcher/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/tally_private.h"

enum { NAME_SIZE = 256 }; /* ">STAGE" */

void tally_clear(struct tally *tally) {
    for (size_t i = 0; i < tally->count; i++) {
        struct tally_stage *stage = &tally->stages[i];
        for (size_t k = 0; k < stage->item_count; k++) {
            free(stage->items[k].full);
            free(stage->items[k].reason);
        }
        for (size_t k = 0; k < stage->input_count; k++)
            free(stage->inputs[k].from);
        free(stage->items);
        free(stage->inputs);
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

/* Compares what one input has sent with the stage's ledger, inside the database. */
static enum status compare_input(const struct session *session, struct tally_stage *stage, struct tally_input *input,
                                 enum tally_depth depth, struct ledger_edge_counts *sum, struct err *err) {
    struct ledger *ledger = NULL;
    struct ledger_edge_counts counts = {0};
    char path[PATH_SIZE];
    TRY(session_ledger_path(session, stage->name, true, path, err));
    TRY(session_ledger(session, input->from, true, &ledger, err));
    enum status status =
        ledger != NULL ? ledger_compare(ledger, stage->name, path, depth == TALLY_LIVE, &counts, err) : STATUS_OK;
    input->known = ledger != NULL && (depth == TALLY_LIVE || counts.sent > 0);
    ledger_close(&ledger);
    stage->upstream_known &= input->known;
    if (depth != TALLY_LIVE) {
        input->sent = counts.items;
        input->seen = counts.items - counts.waiting_unseen - counts.lost;
        input->waiting = counts.waiting;
        input->lost = counts.lost;
    }
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
    if (stage->source) return true;
    bool matches = sent->items - sent->waiting_unseen == own->seen;
    return sent->sent == sent->items && sent->lost == 0 && (matches || !stage->upstream_known);
}

/* Counts without a list of the items. ret_counted: false when only the list can give the counts. */
static enum status take_counts(const struct session *session, enum tally_depth depth, struct tally_stage *stage,
                               bool *ret_counted, struct err *err) {
    struct ledger *ledger = NULL;
    struct ledger_edge_counts sent = {0};
    struct ledger_counts own = {0};
    *ret_counted = false;
    TRY(session_ledger(session, stage->name, true, &ledger, err));
    if (ledger == NULL) return STATUS_OK;
    stage->has_ledger = true;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < stage->input_count; i++)
        status = compare_input(session, stage, &stage->inputs[i], depth, &sent, err);
    if (status == STATUS_OK) status = ledger_counts(ledger, &own, err);
    if (status == STATUS_OK && (depth == TALLY_LIVE || is_plain(stage, &sent, &own))) {
        *ret_counted = true;
        stage->seen = own.seen + sent.waiting_unseen;
        stage->done = own.done;
        stage->rejected = own.rejected;
        stage->failed = own.failed;
        stage->in_flight = own.in_flight + sent.waiting_unseen;
        stage->waiting = sent.waiting;
        if (depth == TALLY_COUNTS) status = ledger_each(ledger, LEDGER_REJECTED, tally_visit_own, stage, err);
        if (depth == TALLY_COUNTS && status == STATUS_OK)
            status = ledger_each(ledger, LEDGER_FAILED, tally_visit_own, stage, err);
    }
    ledger_close(&ledger);
    return status;
}

/* Returns whether the stage of that name is in the plan and passes its items on. */
static bool passes_on(const json_t *plan, const char *name) {
    size_t i;
    json_t *planned;
    json_array_foreach(json_object_get(plan, "stages"), i, planned) {
        const char *other = json_string_value(json_object_get(planned, "name"));
        if (other != NULL && strcmp(other, name) == 0) return session_passes_on(planned);
    }
    return false;
}

static enum status count_unsent(const struct session *session, const json_t *plan, struct tally_stage *stage,
                                struct err *err) {
    char suffix[NAME_SIZE];
    snprintf(suffix, sizeof suffix, ">%s", stage->name);
    for (size_t i = 0; i < stage->input_count; i++) {
        struct ledger *ledger = NULL;
        int64_t unsent = 0;
        if (!passes_on(plan, stage->inputs[i].from)) continue;
        TRY(session_ledger(session, stage->inputs[i].from, true, &ledger, err));
        enum status status = ledger != NULL ? ledger_count_unsent(ledger, suffix, &unsent, err) : STATUS_OK;
        ledger_close(&ledger);
        TRY(status);
        stage->unsent += unsent;
    }
    return STATUS_OK;
}

static enum status add_inputs(const struct session *session, const json_t *from, struct tally_stage *stage,
                              struct err *err) {
    stage->inputs = calloc(json_array_size(from) + 1, sizeof *stage->inputs);
    FAIL_IF(stage->inputs == NULL, err, STATUS_NO_MEMORY, "no memory for the inputs of %s", stage->name);
    for (size_t i = 0; i < json_array_size(from); i++) {
        const char *name = json_string_value(json_array_get(from, i));
        FAIL_IF(name == NULL, err, STATUS_BAD_FORMAT, "%s/log/plan.json: an input of %s has no name", session->path,
                stage->name);
        char *copy = strdup(name);
        FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the inputs of %s", stage->name);
        stage->inputs[stage->input_count++].from = copy;
    }
    return STATUS_OK;
}

static enum status take_stage(const struct session *session, const json_t *plan, const json_t *planned,
                              enum tally_depth depth, struct tally_stage *stage, struct err *err) {
    const char *name = json_string_value(json_object_get(planned, "name"));
    FAIL_IF(name == NULL, err, STATUS_BAD_FORMAT, "%s/log/plan.json: a stage has no name", session->path);
    stage->name = strdup(name);
    FAIL_IF(stage->name == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", name);
    stage->cumulative = json_is_true(json_object_get(planned, "cumulative"));
    stage->left_out = json_is_true(json_object_get(planned, "left_out"));
    TRY(add_inputs(session, json_object_get(planned, "from"), stage, err));
    stage->source = stage->input_count == 0;
    stage->upstream_known = true;
    stage->has_ledger = session_keeps_ledger(planned);
    if (stage->left_out) return STATUS_OK;
    if (depth != TALLY_LIVE) TRY(count_unsent(session, plan, stage, err));
    bool counted = false;
    if (depth != TALLY_ITEMS) TRY(take_counts(session, depth, stage, &counted, err));
    return counted ? STATUS_OK : tally_list(session, stage, err);
}

/* Returns whether items of several sources go through the session. */
static bool has_several(const json_t *plan) {
    size_t i, sources = 0;
    json_t *planned;
    json_array_foreach(json_object_get(plan, "stages"), i, planned) {
        sources += json_array_size(json_object_get(planned, "from")) == 0;
    }
    return sources > 1 || json_is_true(json_object_get(plan, "separate"));
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
        tally.stages[tally.count++].several = has_several(plan);
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

json_t *tally_inputs_json(const struct tally_stage *stage) {
    json_t *inputs = json_object();
    for (size_t i = 0; i < stage->input_count; i++) {
        const struct tally_input *input = &stage->inputs[i];
        json_object_set_new(inputs, input->from,
                            !input->known ? json_null()
                                          : json_pack("{s:I, s:I, s:I, s:I}", "sent", (json_int_t)input->sent, "seen",
                                                      (json_int_t)input->seen, "waiting", (json_int_t)input->waiting,
                                                      "lost", (json_int_t)input->lost));
    }
    return inputs;
}

bool tally_has_failed(const struct tally *tally) {
    for (size_t i = 0; i < tally->count; i++)
        if (tally->stages[i].failed > 0) return true;
    return false;
}
