/* Messages of a stage in a pipeline, on the main thread alone: claims and answers what comes in, acknowledges what is
 * done, and sends what the outboxes hold. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/harness/pipeline.h"
#include "common/memory.h"

/* The most messages taken in a row, so that a flood of messages does not hold up everything else. */
enum { AT_ONCE = 1000 };

static const double ahead_pause = 0.05, ahead_time = 0.025;

static void note_dropped(struct pipeline *pipeline, const char *edge, const struct err *err) {
    struct dropped *dropped = err->status == STATUS_NOT_FOUND ? &pipeline->stray : &pipeline->bad;
    dropped_note(dropped, pipeline->stage->log, edge, err, clock_monotonic());
    if (dropped->level == LOG_WARN) warnings_note(pipeline->stage->warnings, dropped->id, dropped->last);
    atomic_fetch_add(&pipeline->stage->metrics.dropped, 1);
}

void edges_tell_dropped(struct pipeline *pipeline, double now) {
    struct log *log = pipeline->stage->log;
    dropped_tell(&pipeline->bad, log, now);
    dropped_tell(&pipeline->stray, log, now);
    long long refused = transport_refused(pipeline->transport);
    if (refused > pipeline->refused)
        stage_log(pipeline->stage, LOG_WARN, "refused",
                  "%lld peers without the keys of this session were turned away (%lld so far)",
                  refused - pipeline->refused, refused);
    pipeline->refused = refused;
}

/* A cleaner may delete the files of sockets. The connections outlive that; a receiver that starts again would find
 * nobody. */
void edges_bind_again(struct pipeline *pipeline) {
    struct err err = {0};
    int count = 0;
    bool failed = transport_bind_again(pipeline->transport, &count, &err) != STATUS_OK;
    if (failed && !pipeline->unbound)
        stage_log(pipeline->stage, LOG_WARN, "socket-gone", "%s; trying again", err.message);
    if (count > 0)
        stage_log(pipeline->stage, LOG_WARN, "socket-gone", "the files of %d sockets were deleted: bound again", count);
    pipeline->unbound = failed;
}

enum status edges_mend(struct pipeline *pipeline, struct err *err) {
    int count = 0;
    TRY(transport_mend(pipeline->transport, &count, err));
    struct err cut = {.status = STATUS_TRUNCATED};
    snprintf(cut.message, sizeof cut.message,
             "the other end sent what is too large, or breaks the protocol, and was cut off; connected anew");
    for (int i = 0; i < count; i++)
        note_dropped(pipeline, "an input", &cut);
    return STATUS_OK;
}

/* Checks what comes down an edge: only items and an end may. */
static enum status check_downstream(const struct message *message, const char *edge, struct err *err) {
    FAIL_IF(strcmp(message->edge, edge) != 0, err, STATUS_BAD_FORMAT, "a message for the edge '%s'", message->edge);
    FAIL_IF(message->kind != MESSAGE_ITEM && message->kind != MESSAGE_END, err, STATUS_BAD_FORMAT,
            "an answer came down the edge");
    FAIL_IF(message->kind == MESSAGE_END && message->seq != 0, err, STATUS_BAD_FORMAT,
            "an end with the number %lld: it must be 0", (long long)message->seq);
    return STATUS_OK;
}

enum status edges_answer(struct pipeline *pipeline, const struct inbox *inbox, enum message_kind kind, int64_t seq,
                         const char *verdict, struct err *err) {
    struct message message = {.kind = kind, .seq = seq, .instance = pipeline->stage->instance};
    memcpy(message.edge, inbox->edge, sizeof message.edge);
    snprintf(message.token, sizeof message.token, "%s", pipeline->stage->token);
    snprintf(message.verdict, sizeof message.verdict, "%s", verdict);
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(message_encode(&message, NULL, &text, &length, err));
    /* When no sender listens, the answer is lost; the item then comes again and is answered again. */
    bool sent;
    return transport_send(inbox->acks, text, length, &sent, err);
}

/* Returns whether a lane has the item already; this arrival is then acknowledged together with the first. */
static bool joins_lane(struct stage *stage, struct ledger_key key, int edge, int64_t seq) {
    bool joins = false;
    stage_lock(stage);
    for (int i = 0; i < stage->slot_count; i++) {
        struct slot *slot = &stage->slots[i];
        if (slot->phase == SLOT_FREE || !item_keys_match(slot_key(slot), key)) continue;
        for (int j = 0; j < slot->arrival_count; j++)
            joins = joins || (slot->arrivals[j].edge == edge && slot->arrivals[j].seq == seq);
        if (!joins && slot->arrival_count < ARRIVALS_MAX) {
            slot->arrivals[slot->arrival_count++] = (struct arrival){edge, seq};
            joins = true;
        }
    }
    stage_unlock(stage);
    return joins;
}

static enum status take_item(struct pipeline *pipeline, int input, struct message *message,
                             const struct ledger_arrival *claimed, struct err *err) {
    struct stage *stage = pipeline->stage;
    const struct inbox *inbox = &pipeline->inboxes[input];
    switch (claimed->claim) {
    case CLAIM_NEW:
    case CLAIM_AGAIN:
        if (strcmp(claimed->source, item_source(message->item)) != 0)
            TRY(item_set_source(message->item, claimed->source, err));
        lanes_take(stage, &message->item, input, message->seq, claimed->replaces);
        return edges_answer(pipeline, inbox, MESSAGE_GOT, message->seq, "", err);
    case CLAIM_FINISHED:
        return edges_answer(pipeline, inbox, MESSAGE_ACK, message->seq, ledger_state_name(claimed->state), err);
    case CLAIM_HERE:
        /* A sender that has started again does not know which receiver has what; and an item may come by two edges. */
        if (joins_lane(stage, item_key(message->item), input, message->seq))
            return edges_answer(pipeline, inbox, MESSAGE_GOT, message->seq, "", err);
        break;
    case CLAIM_ELSEWHERE:
        /* The instance that has the item answers for it, even if this one had it before it seemed to hang. */
        break;
    }
    return STATUS_OK;
}

/* Claims items in the ledger and passes them to the lanes. Only claimed items are processed; and all claimed items are,
 * even when their sender could not be answered: no other instance would take them. */
static enum status take_items(struct pipeline *pipeline, struct err *err) {
    const struct stage *stage = pipeline->stage;
    int count = pipeline->arrived_count;
    enum status status = STATUS_OK;
    if (count == 0) return STATUS_OK;
    for (int i = 0; i < count; i++)
        pipeline->claims[i] = (struct ledger_arrival){.item = pipeline->arrived[i].item};
    status = ledger_claim_items(stage->ledger, pipeline->claims, (size_t)count, stage->instance, stage->token, err);
    bool claimed = status == STATUS_OK;
    for (int i = 0; i < count; i++) {
        struct message *message = &pipeline->arrived[i];
        struct err own = {0};
        enum status taken = STATUS_OK;
        if (claimed) taken = take_item(pipeline, pipeline->from[i], message, &pipeline->claims[i], &own);
        if (taken != STATUS_OK) {
            status = taken;
            *err = own;
        }
        message_clear(message);
    }
    pipeline->arrived_count = 0;
    return status;
}

/* An item that does not tell its source begins at the stage that sends it: "watcher.0>picker". */
static enum status name_source(struct item *item, const char *edge, struct err *err) {
    char sender[EDGE_NAME_SIZE];
    if (item_has(item, "source")) return STATUS_OK;
    snprintf(sender, sizeof sender, "%.*s", (int)strcspn(edge, ">"), edge);
    char *dot = strrchr(sender, '.');
    if (dot != NULL) *dot = '\0';
    return item_set_source(item, item_is_source(sender) ? sender : "", err);
}

/* Takes one frame. Bad frames are counted and dropped; an error that is returned ends the stage. */
static enum status take_frame(struct pipeline *pipeline, int input, const void *bytes, size_t length, struct err *err) {
    struct stage *stage = pipeline->stage;
    const struct inbox *inbox = &pipeline->inboxes[input];
    struct message message = {0};
    struct err bad = {0};
    enum status status = message_decode(bytes, length, &message, &bad);
    if (status == STATUS_OK) status = check_downstream(&message, inbox->edge, &bad);
    if (status == STATUS_OK && message.item != NULL) status = name_source(message.item, inbox->edge, &bad);
    if (status == STATUS_OK && message.item != NULL) status = change_note(stage, message.item, &bad);
    if (status != STATUS_OK) {
        note_dropped(pipeline, inbox->edge, &bad);
        message_clear(&message);
        return STATUS_OK;
    }
    if (message.kind == MESSAGE_ITEM && pipeline->phase == PHASE_RUN) {
        pipeline->from[pipeline->arrived_count] = input;
        pipeline->arrived[pipeline->arrived_count++] = message;
        return STATUS_OK;
    }
    if (message.kind == MESSAGE_END) {
        status = ledger_end_input(stage->ledger, inbox->edge, stage->run, err);
        if (status == STATUS_OK) status = edges_answer(pipeline, inbox, MESSAGE_ACK, message.seq, "end", err);
        pipeline->look_at = 0;
    }
    message_clear(&message);
    return status;
}

/* After the end of the inputs no item comes any more; but a sender that has started again still asks for the answer to
 * its end. */
int edges_room(const struct pipeline *pipeline) {
    if (pipeline->phase != PHASE_RUN) return SLOTS_MAX;
    stage_lock(pipeline->stage);
    int room = lanes_room(pipeline->stage);
    pipeline->stage->room_told = false;
    stage_unlock(pipeline->stage);
    return pipeline->absent.count < ABSENT_MAX ? room : 0;
}

static enum status receive_from(struct pipeline *pipeline, int input, bool *ret_quiet, struct err *err) {
    const void *bytes;
    size_t length;
    TRY(transport_receive(pipeline->inboxes[input].data, &bytes, &length, err));
    *ret_quiet = bytes == NULL;
    return bytes != NULL ? take_frame(pipeline, input, bytes, length, err) : STATUS_OK;
}

enum status edges_receive(struct pipeline *pipeline, struct err *err) {
    int count = pipeline->instance.input_count, quiet = 0, budget = AT_ONCE;
    enum status status = STATUS_OK;
    int room = count > 0 ? edges_room(pipeline) : 0;
    for (int turn = pipeline->first_input;
         status == STATUS_OK && quiet < count && pipeline->arrived_count < room && budget > 0; turn++, budget--) {
        int input = turn % count;
        bool nothing = true;
        status = receive_from(pipeline, input, &nothing, err);
        quiet = nothing ? quiet + 1 : 0;
        pipeline->first_input = (input + 1) % count;
    }
    TRY(status);
    return take_items(pipeline, err);
}

/* Fits the number of items claimed ahead. A stage whose items take less time than a transaction of the ledger claims as
 * many as it settles while a slow disk answers once. A slower stage claims what its lanes hold. */
void edges_fit_ahead(struct pipeline *pipeline, double now) {
    struct stage *stage = pipeline->stage;
    double passed = now - pipeline->ahead_at;
    if (passed < ahead_pause) return;
    stage_lock(stage);
    double wanted = ahead_time * (double)(stage->done_ticket - pipeline->ahead_from) / passed;
    int before = stage->ahead;
    stage->ahead = wanted < SETTLING_MAX ? (int)wanted : SETTLING_MAX;
    pipeline->ahead_from = stage->done_ticket;
    pipeline->ahead_at = now;
    if (stage->ahead > before) stage_changed(stage);
    stage_unlock(stage);
}

static enum status take_answer(struct pipeline *pipeline, int output, const void *bytes, size_t length,
                               struct err *err) {
    struct message message = {0};
    struct err bad = {0};
    enum status status = message_decode(bytes, length, &message, &bad);
    if (status == STATUS_OK) status = outbox_answer(pipeline->outboxes[output], &message, &bad);
    message_clear(&message);
    if (status == STATUS_BAD_FORMAT || status == STATUS_UNSUPPORTED || status == STATUS_NOT_FOUND) {
        note_dropped(pipeline, pipeline->instance.outputs[output].edge, &bad);
        return STATUS_OK;
    }
    if (status != STATUS_OK) *err = bad;
    return status;
}

static enum status strike_off(struct pipeline *pipeline, int output, struct err *err) {
    struct stage *stage = pipeline->stage;
    struct stage_output *edge = &stage->outputs[output];
    int64_t count = 0;
    TRY(outbox_strike_off(pipeline->outboxes[output], &count, err));
    if (count == 0) return STATUS_OK;
    stage_lock(stage);
    edge->unacknowledged -= count < edge->unacknowledged ? count : edge->unacknowledged;
    stage_event(stage);
    stage_unlock(stage);
    return STATUS_OK;
}

enum status edges_receive_answers(struct pipeline *pipeline, struct err *err) {
    for (int i = 0; i < pipeline->instance.output_count; i++) {
        for (int budget = AT_ONCE; budget > 0; budget--) {
            const void *bytes;
            size_t length;
            TRY(transport_receive(outbox_acks(pipeline->outboxes[i]), &bytes, &length, err));
            if (bytes == NULL) break;
            TRY(take_answer(pipeline, i, bytes, length, err));
        }
        TRY(strike_off(pipeline, i, err));
    }
    return STATUS_OK;
}

enum status edges_pump(struct pipeline *pipeline, double now, struct err *err) {
    struct stage *stage = pipeline->stage;
    for (int i = 0; i < pipeline->instance.output_count; i++) {
        TRY(outbox_pump(pipeline->outboxes[i], now, err));
        int window = outbox_window(pipeline->outboxes[i]);
        stage_lock(stage);
        bool grown = window > stage->outputs[i].window;
        stage->outputs[i].window = window;
        if (grown) stage_event(stage);
        stage_unlock(stage);
    }
    return STATUS_OK;
}

/* Acknowledges all arrivals of a finished item. An item that came late, because this instance seemed to hang, is
 * acknowledged too when another instance has finished it meanwhile. */
static enum status acknowledge_slot(struct pipeline *pipeline, const struct slot *slot, struct err *err) {
    const struct stage *stage = pipeline->stage;
    enum ledger_state state = slot->state;
    bool finished = slot->settled;
    if (!finished) {
        bool known = false;
        TRY(ledger_lookup(stage->ledger, slot_key(slot), &known, &state, err));
        finished = known && state != LEDGER_IN_FLIGHT;
    }
    for (int i = 0; finished && i < slot->arrival_count; i++) {
        const struct arrival *arrival = &slot->arrivals[i];
        TRY(edges_answer(pipeline, &pipeline->inboxes[arrival->edge], MESSAGE_ACK, arrival->seq,
                         ledger_state_name(state), err));
    }
    return STATUS_OK;
}

static struct slot *next_done(struct stage *stage) {
    stage_lock(stage);
    struct slot *slot = lanes_done(stage);
    stage_unlock(stage);
    return slot;
}

enum status edges_acknowledge(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    for (struct slot *slot; (slot = next_done(stage)) != NULL;) {
        /* Without the stage's lock: this may use the ledger, whose lock comes first. */
        if (slot->set_aside)
            absent_keep(stage, &pipeline->absent, slot);
        else
            TRY(acknowledge_slot(pipeline, slot, err));
        stage_lock(stage);
        lanes_free(stage, slot);
        stage_unlock(stage);
    }
    return STATUS_OK;
}
