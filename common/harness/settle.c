/* Writes the outcomes of items, and what a stage sends of its own accord, to the ledger. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/stage_private.h"
#include "common/memory.h"

/* Checks the item's optics against the limits of the session's parameters: a value beyond them comes from a wrong table
 * or header. Pixel size 0 means that it is unknown. */
static enum status check_optics(const struct item *item, struct err *err) {
    size_t count;
    const struct param *table = stage_session_params(&count);
    for (size_t i = 0; i < count; i++) {
        char member[64];
        snprintf(member, sizeof member, "optics.%s", table[i].name);
        double value = item_number(item, member, table[i].minimum);
        bool unknown = value == 0 && strcmp(table[i].name, "pixel_size") == 0;
        const char *unit = table[i].unit != NULL ? table[i].unit : "";
        FAIL_IF(!unknown && !(value >= table[i].minimum && value <= table[i].maximum), err, STATUS_BAD_FORMAT,
                "its %s is %g%s%s; %g to %g is expected: correct the optics table or header that it comes from, or set "
                "session.%s",
                table[i].name, value, *unit != '\0' ? " " : "", unit, table[i].minimum, table[i].maximum,
                table[i].name);
    }
    return STATUS_OK;
}

enum status stage_check_input(const struct stage *stage, const struct item *item, struct err *err) {
    char needs[256];
    snprintf(needs, sizeof needs, "%s", stage->descriptor->in);
    for (char *save = NULL, *word = strtok_r(needs, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char choices[256];
        snprintf(choices, sizeof choices, "%s", word);
        bool has = false;
        for (char *inner = NULL, *member = strtok_r(choices, "|", &inner); member; member = strtok_r(NULL, "|", &inner))
            has = has || item_has(item, member) ||
                  params_give(stage->descriptor->params, stage->descriptor->param_count, stage->params, member);
        FAIL_IF(!has, err, STATUS_NOT_FOUND, "the item has no '%s', which %s needs", word, stage->descriptor->name);
    }
    return check_optics(item, err);
}

enum status stage_judge(struct stage *stage, const struct item *item, uint32_t *judged, struct err *err) {
    return stage->rules.count == 0 ? STATUS_OK : rules_apply(&stage->rules, item, judged, err);
}

/* A rule whose column never comes is probably misspelt. */
static void warn_unjudged(struct stage *stage, const struct item *item, uint32_t judged) {
    for (int i = 0; i < stage->rules.count; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if ((judged & bit) == 0 && (atomic_fetch_or(&stage->rules_warned, bit) & bit) == 0)
            stage_log(stage, LOG_WARN, "reject-if",
                      "%s: there is no number '%s', so this rule of reject_if has no effect", item_id(item),
                      stage->rules.rules[i].column);
    }
}

static void *grow(void *list, size_t count, size_t size) {
    /* The list doubles at each power of two. */
    if ((count & (count - 1)) != 0) return list;
    return realloc(list, (count == 0 ? 1 : 2 * count) * size);
}

static void collect_emitted(struct stage *stage, const struct item *item) {
    struct stage_results *results = stage->results;
    struct item *copy = NULL;
    if (results == NULL || item_clone(item, &copy, NULL) != STATUS_OK) return;
    stage_lock(stage);
    struct item **list = grow(results->emitted, results->emitted_count, sizeof *list);
    if (list != NULL) {
        results->emitted = list;
        results->emitted[results->emitted_count++] = copy;
    } else
        item_destroy(&copy);
    stage_unlock(stage);
}

static void collect_outcome(struct stage *stage, struct ledger_key key, enum ledger_state state, const char *reason) {
    struct stage_results *results = stage->results;
    if (results == NULL) return;
    stage_lock(stage);
    struct stage_outcome *list = grow(results->outcomes, results->outcome_count, sizeof *list);
    if (list != NULL) {
        results->outcomes = list;
        results->outcomes[results->outcome_count++] =
            (struct stage_outcome){strdup(key.source), strdup(key.id), reason != NULL ? strdup(reason) : NULL, state};
    }
    stage_unlock(stage);
}

/* A receiver that takes no revisions is sent each item once. */
static enum status fill_sends(const struct stage *stage, const struct item *item, struct ledger_send *sends,
                              size_t *ret_count, struct err *err) {
    size_t count = 0;
    for (int i = 0; i < stage->output_count; i++) {
        const struct stage_output *output = &stage->outputs[i];
        const char *suffix = strchr(output->edge, '>');
        bool sent = false;
        if (!output->revisions && item_revision(item) > 0 && suffix != NULL)
            TRY(ledger_was_sent(stage->ledger, suffix, item_key(item), &sent, err));
        if (!sent) sends[count++] = (struct ledger_send){output->edge, item};
    }
    *ret_count = count;
    return STATUS_OK;
}

/* The stages behind this one hold an earlier revision of an item that this stage now rejects: they are to take it out
 * again. What was sent counts, not what the stage had of the item: it may have died with the later revision in hand. */
static enum status withdraw(const struct stage *stage, struct item *item, struct ledger_send *sends, size_t *ret_count,
                            struct err *err) {
    char text[128];
    size_t count = 0, kept = 0;
    snprintf(text, sizeof text, "%.64s rejected a later revision of it", stage->name);
    if (!item_has(item, "withdrawn")) TRY(item_set_string(item, "withdrawn", text, err));
    TRY(fill_sends(stage, item, sends, &count, err));
    for (size_t i = 0; i < count; i++) {
        const char *suffix = strchr(sends[i].edge, '>');
        bool sent = false;
        if (suffix != NULL) TRY(ledger_was_sent(stage->ledger, suffix, item_key(item), &sent, err));
        if (sent) sends[kept++] = sends[i];
    }
    *ret_count = kept;
    return STATUS_OK;
}

/* Adds to what each output has to send. The caller holds the ledger, so that nobody counts in between. */
static void count_sends(struct stage *stage, int count) {
    stage_lock(stage);
    for (int i = 0; i < stage->output_count; i++)
        stage->outputs[i].unacknowledged += count;
    stage_changed(stage);
    stage_unlock(stage);
}

static void count_outcome(struct stage *stage, const struct item *item, enum ledger_state state, const char *reason) {
    if (state == LEDGER_REJECTED) {
        atomic_fetch_add(&stage->metrics.rejected, 1);
        metrics_finished(&stage->metrics, METRICS_REJECTED);
        log_write(stage->log, LOG_INFO, "rejected", "%s: %s", item_id(item), reason);
    } else if (state == LEDGER_FAILED) {
        atomic_fetch_add(&stage->metrics.failed, 1);
        metrics_finished(&stage->metrics, METRICS_FAILED);
        log_write(stage->log, LOG_WARN, "failed", "%s: %s", item_id(item), reason);
    } else {
        atomic_fetch_add(&stage->metrics.out, 1);
        metrics_finished(&stage->metrics, METRICS_DONE);
    }
    collect_outcome(stage, item_key(item), state, reason);
}

/* An item that has grown too long could never be sent, and would block all items after it. */
static enum status check_size(const struct item *item, struct err *err) {
    size_t size = item_size(item);
    FAIL_IF(size > ITEM_SEND_MAX, err, STATUS_BAD_FORMAT,
            "the item has grown to %zu bytes, and at most %d can be sent on; a stage before has put too much into it",
            size, ITEM_SEND_MAX);
    return STATUS_OK;
}

/* One commit: what to write, and the rows of the outbox that belong to it. */
struct settling {
    struct ledger_finish finishes[SLOTS_MAX];
    struct ledger_origin origins[EMISSIONS_MAX];
    struct slot *slots[SLOTS_MAX];
    bool flags[SLOTS_MAX];     /* item i is late (outcomes), or new (emissions) */
    struct ledger_send *sends; /* output_count for each item */
};

enum status settling_create(int output_count, struct settling **ret_settling, struct err *err) {
    _Static_assert((int)EMISSIONS_MAX <= (int)SLOTS_MAX, "flags are for both");
    struct settling *settling = calloc(1, sizeof *settling);
    if (settling != NULL)
        settling->sends = calloc((size_t)SLOTS_MAX * (size_t)output_count + 1, sizeof *settling->sends);
    if (settling == NULL || settling->sends == NULL) {
        free(settling);
        FAIL(err, STATUS_NO_MEMORY, "no memory for what goes into the ledger");
    }
    *ret_settling = settling;
    return STATUS_OK;
}

void settling_destroy(struct settling **settling) {
    if (*settling == NULL) return;
    free((*settling)->sends);
    mem_free(settling);
}

/* Returns what the ledger shall hold of an item. */
static struct ledger_finish outcome(struct stage *stage, struct slot *slot, const struct ledger_send *sends,
                                    size_t send_count) {
    struct item *item = slot->item;
    slot->state = slot->status == STATUS_OK         ? LEDGER_DONE
                  : slot->status == STATUS_REJECTED ? LEDGER_REJECTED
                                                    : LEDGER_FAILED;
    bool done = slot->state == LEDGER_DONE;
    const char *reason = slot->err.message[0] != '\0' ? slot->err.message : status_name(slot->status);
    return (struct ledger_finish){.key = item_key(item),
                                  .revision = item_revision(item),
                                  .state = slot->state,
                                  .reason = done ? NULL : reason,
                                  .item = done ? item : NULL,
                                  .instance = stage->instance,
                                  .run_token = stage->token,
                                  .sends = sends,
                                  .send_count = send_count,
                                  .files = slot->files.rows,
                                  .file_count = slot->files.count};
}

static void after_settling(struct stage *stage, struct slot *slot, const struct ledger_finish *what) {
    struct item *item = slot->item;
    if (slot->state == LEDGER_DONE) warn_unjudged(stage, item, slot->judged);
    slot->settled = true;
    count_outcome(stage, item, slot->state, what->reason);
    if (slot->state == LEDGER_DONE && !stage->descriptor->cumulative) collect_emitted(stage, item);
}

/* Returns true for an item that is not finished, through no fault of its own: it stays in flight and comes again. */
static bool is_unfinished(const struct slot *slot, bool stopping) {
    return slot->status == STATUS_DEVICE || slot->set_aside ||
           (stopping && (slot->status == STATUS_CANCELLED || slot->status == STATUS_UNAVAILABLE));
}

enum status stage_settle(struct stage *stage, struct slot *const *slots, int count, struct err *err) {
    struct settling *settling = stage->settling;
    int settled = 0;
    bool stopping = atomic_load(&stage->stopping) == STOP_NOW;
    for (int i = 0; i < count; i++) {
        struct slot *slot = slots[i];
        if (is_unfinished(slot, stopping)) continue;
        struct ledger_send *sends = settling->sends + (size_t)settled * (size_t)stage->output_count;
        bool forward = slot->status == STATUS_OK && !stage->descriptor->cumulative;
        if (forward) slot->status = check_size(slot->item, &slot->err);
        forward = forward && slot->status == STATUS_OK;
        size_t send_count = 0;
        if (slot->status == STATUS_REJECTED && item_revision(slot->item) > 0 && !stage->descriptor->cumulative)
            TRY(withdraw(stage, slot->item, sends, &send_count, err));
        if (forward) TRY(fill_sends(stage, slot->item, sends, &send_count, err));
        TRY(files_rows(stage, slot, slot->status == STATUS_OK, err));
        settling->finishes[settled] = outcome(stage, slot, sends, send_count);
        settling->slots[settled++] = slot;
    }
    const struct ledger_finish *what = settling->finishes;
    if (settled > 0) TRY(ledger_finish_items(stage->ledger, what, (size_t)settled, settling->flags, err));
    int sent = 0;
    for (int i = 0; i < settled; i++)
        sent += !settling->flags[i] && what[i].send_count > 0;
    count_sends(stage, sent);
    for (int i = 0; i < settled; i++) {
        if (!settling->flags[i])
            after_settling(stage, settling->slots[i], &what[i]);
        else
            stage_log(stage, LOG_WARN, "late",
                      "%s: this instance no longer holds the item, so its outcome does not count", what[i].key.id);
    }
    return STATUS_OK;
}

/* ---- What a source emits ---- Emitted items wait in a list for the ledger thread, which writes together all that came
 * while it waited for the disk. If a power cut takes the list, the source finds its items again, and no receiver has
 * been sent any of them. */

enum status stage_settle_emissions(struct stage *stage, struct item *const *items, int count, struct err *err) {
    struct settling *settling = stage->settling;
    for (int i = 0; i < count; i++) {
        struct ledger_send *sends = settling->sends + (size_t)i * (size_t)stage->output_count;
        settling->origins[i] = (struct ledger_origin){.item = items[i], .state = LEDGER_DONE, .sends = sends};
        TRY(fill_sends(stage, items[i], sends, &settling->origins[i].send_count, err));
    }
    TRY(ledger_originate_items(stage->ledger, settling->origins, (size_t)count, settling->flags, err));
    int sent = 0;
    for (int i = 0; i < count; i++)
        sent += settling->flags[i];
    count_sends(stage, sent);
    for (int i = 0; i < count; i++) {
        if (!settling->flags[i]) continue;
        atomic_fetch_add(&stage->metrics.in, 1);
        count_outcome(stage, items[i], LEDGER_DONE, NULL);
        collect_emitted(stage, items[i]);
    }
    return STATUS_OK;
}

void stage_drain_emissions(struct stage *stage) {
    /* When a stage could not start all of its threads, there is no ledger thread to wait for. */
    while (stage->emission_count > 0 && stage->fatal == STATUS_OK && !stage->threads_end)
        stage_sleep(stage, PART_PROCESS, INFINITY);
}

static bool emission_waits(struct stage *stage, struct ledger_key key) {
    bool waits = false;
    stage_lock(stage);
    for (int i = 0; i < stage->emission_count && !waits; i++)
        waits = item_keys_match(item_key(stage->emissions[i]), key);
    stage_unlock(stage);
    return waits;
}

/* Blocks until the windows of all outputs have room; needs the lock. */
static enum status wait_for_room(struct stage *stage, struct err *err) {
    enum status status = STATUS_OK;
    for (;;) {
        bool room = stage->emission_count < EMISSIONS_MAX;
        for (int i = 0; i < stage->output_count; i++)
            room = room && stage->outputs[i].unacknowledged + stage->emission_count < stage->outputs[i].window;
        if (room) break;
        if (atomic_load(&stage->stopping) != STOP_NOT || stage->fatal != STATUS_OK) {
            status = err_set(err, STATUS_CANCELLED, __FILE__, __LINE__, "asked to stop while waiting to send");
            break;
        }
        atomic_store(&stage->metrics.state, METRICS_BLOCKED);
        stage_sleep(stage, PART_PROCESS, INFINITY);
        atomic_store(&stage->metrics.state, METRICS_WAITING);
    }
    return status;
}

/* Consumes the item. */
static enum status queue_emission(struct stage *stage, struct item *item, struct err *err) {
    stage_lock(stage);
    enum status status = wait_for_room(stage, err);
    if (status == STATUS_OK) {
        stage->emissions[stage->emission_count++] = item;
        stage_wake(stage, PART_LEDGER);
    }
    stage_unlock(stage);
    if (status != STATUS_OK) item_destroy(&item);
    return status;
}

/* Copies an item that begins in this stage, and makes the stage its source. */
static enum status name_source(const struct stage *stage, const struct item *item, struct item **ret_copy,
                               struct err *err) {
    struct item *copy = NULL;
    TRY(item_clone(item, &copy, err));
    enum status status = *item_source(copy) == '\0' ? item_set_source(copy, stage->name, err) : STATUS_OK;
    if (status == STATUS_OK) status = change_note(stage, copy, err);
    if (status != STATUS_OK) item_destroy(&copy);
    if (status == STATUS_OK) *ret_copy = copy;
    return status;
}

static enum status emit_from_source(struct stage *stage, const struct item *item, bool *ret_new, struct err *err) {
    bool known = false, replaces = false;
    int before = LEDGER_DONE;
    TRY(stage_lookup(stage, item_id(item), &known, &before, err));
    if (known && item_revision(item) > 0) TRY(revision_is_later(stage, item, &replaces, err));
    if (known && before != LEDGER_FAILED && !replaces) {
        *ret_new = false;
        return STATUS_OK;
    }
    uint32_t judged = 0;
    struct err rejection = {0};
    stage_lock(stage); /* the main thread changes the rules of a source that goes on */
    bool rejected = stage_judge(stage, item, &judged, &rejection) == STATUS_REJECTED;
    if (!rejected) warn_unjudged(stage, item, judged);
    stage_unlock(stage);
    if (rejected) {
        TRY(stage_set_aside(stage, item, LEDGER_REJECTED, rejection.message, err));
        *ret_new = true;
        return STATUS_OK;
    }
    struct item *copy = NULL;
    TRY(item_clone(item, &copy, err));
    enum status status = files_stamp(stage, copy, err);
    if (status != STATUS_OK) {
        item_destroy(&copy);
        return status;
    }
    TRY(queue_emission(stage, copy, err));
    *ret_new = true;
    return STATUS_OK;
}

static enum status emit_once(struct stage *stage, const struct item *item, bool *ret_new, struct err *err) {
    if (stage->descriptor->produce != NULL) return emit_from_source(stage, item, ret_new, err);
    struct ledger_send sends[EDGES_MAX];
    size_t count = 0;
    TRY(fill_sends(stage, item, sends, &count, err));
    bool is_new = false;
    ledger_hold(stage->ledger);
    enum status status = ledger_send_only(stage->ledger, item_key(item), sends, count, &is_new, err);
    if (is_new) count_sends(stage, 1);
    ledger_let_go(stage->ledger);
    TRY(status);
    if (is_new) collect_emitted(stage, item);
    *ret_new = is_new;
    return STATUS_OK;
}

enum status stage_emit(struct stage *stage, const struct item *item, bool *ret_new, struct err *err) {
    struct err own = {0};
    bool is_new = false;
    struct item *copy = NULL;
    TRY(name_source(stage, item, &copy, err));
    enum status status = check_size(copy, &own);
    if (status == STATUS_OK) STAGE_PERSIST(stage, status, &own, emit_once(stage, copy, &is_new, &own));
    item_destroy(&copy);
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    if (ret_new != NULL) *ret_new = is_new;
    return STATUS_OK;
}

static enum status set_aside_once(struct stage *stage, const struct item *item, int state, const char *reason,
                                  struct err *err) {
    bool is_new = false;
    stage_lock(stage);
    stage_drain_emissions(stage);
    stage_unlock(stage);
    TRY(ledger_originate(stage->ledger, item, (enum ledger_state)state, reason, NULL, 0, &is_new, err));
    if (is_new) {
        atomic_fetch_add(&stage->metrics.in, 1);
        count_outcome(stage, item, (enum ledger_state)state, reason);
    }
    return STATUS_OK;
}

enum status stage_set_aside(struct stage *stage, const struct item *item, int state, const char *reason,
                            struct err *err) {
    struct err own = {0};
    struct item *copy = NULL;
    TRY(name_source(stage, item, &copy, err));
    enum status status;
    STAGE_PERSIST(stage, status, &own, set_aside_once(stage, copy, state, reason, &own));
    item_destroy(&copy);
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    return STATUS_OK;
}

/* Looks among the emissions first: an item may move from there to the ledger meanwhile. */
static enum status look_up(struct stage *stage, const char *id, bool *known, enum ledger_state *state,
                           struct err *err) {
    const struct ledger_key key = {stage->name, id};
    *known = emission_waits(stage, key);
    return *known ? STATUS_OK : ledger_lookup(stage->ledger, key, known, state, err);
}

enum status stage_lookup(struct stage *stage, const char *id, bool *ret_known, int *ret_state, struct err *err) {
    enum ledger_state state = LEDGER_DONE;
    struct err own = {0};
    enum status status;
    STAGE_PERSIST(stage, status, &own, look_up(stage, id, ret_known, &state, &own));
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    if (*ret_known) *ret_state = (int)state;
    return STATUS_OK;
}

enum status stage_recall(struct stage *stage, const char *id, struct item **ret_item, struct err *err) {
    const struct ledger_key key = {stage->name, id};
    _cleanup_(mem_free) char *text = NULL;
    struct err own = {0};
    enum status status;
    *ret_item = NULL;
    STAGE_PERSIST(stage, status, &own, ledger_item_text(stage->ledger, key, &text, &own));
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    if (text == NULL || item_parse(text, strlen(text), ret_item, NULL) == STATUS_OK) return STATUS_OK;
    *ret_item = NULL;
    return STATUS_OK;
}

enum status stage_item_of_row(const struct ledger_row *row, struct item **ret_item, struct err *err) {
    struct item *item = NULL;
    TRY(item_parse(row->item_text, strlen(row->item_text), &item, err));
    enum status status = STATUS_OK;
    if (strcmp(item_source(item), row->source) != 0) status = item_set_source(item, row->source, err);
    if (status != STATUS_OK) item_destroy(&item);
    if (status == STATUS_OK) *ret_item = item;
    return status;
}

struct done_walk {
    stage_visit *visit;
    void *context;
};

static enum status visit_done(const struct ledger_row *row, void *context, struct err *err) {
    const struct done_walk *walk = context;
    struct item *item = NULL;
    TRY(stage_item_of_row(row, &item, err));
    enum status status = walk->visit(item, walk->context, err);
    item_destroy(&item);
    return status;
}

enum status stage_each_done(struct stage *stage, stage_visit *visit, void *context, struct err *err) {
    struct done_walk walk = {visit, context};
    return ledger_each(stage->ledger, LEDGER_DONE, visit_done, &walk, err);
}
