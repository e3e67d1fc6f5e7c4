/* A stage in a pipeline: the main thread serves the sockets, the ledger's outboxes and the heartbeat. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/drops.h"
#include "common/memory.h"
#include "common/message.h"
#include "common/outbox.h"
#include "common/stage_private.h"
#include "common/transport.h"

enum { EXIT_OK = 0, EXIT_ERROR = 1, EXIT_CONFIGURATION = 2, EXIT_UNAVAILABLE = 75, EXIT_TERMINATED = 143 };
/* AT_ONCE: messages that are taken in a row, so that a flood of them keeps nothing else from its turn. */
enum { RECEIVE_BACKLOG = 16, ANSWERS_HELD = 4096, TICK_MS = 250, AT_ONCE = 1000 };

static const double ahead_pause = 0.05, ahead_time = 0.025;

enum pipeline_phase { PHASE_RUN, PHASE_FLUSH, PHASE_SUMMARY, PHASE_END, PHASE_OVER };

struct inbox {
    char edge[MESSAGE_EDGE_SIZE];
    struct transport_socket *data, *acks;
};

struct pipeline {
    struct stage *stage;
    struct instance instance;
    struct transport *transport;
    struct inbox inboxes[EDGES_MAX];
    struct outbox *outboxes[EDGES_MAX];
    enum pipeline_phase phase;
    double beat_at, check_at, look_at;
    struct stage_patience patience; /* until when the ledger is left alone, because it could not be written */
    bool beat_failed;
    struct drops bad, stray; /* what is no message; answers about what is not on its way */
    long long refused;       /* peers */
    int first_input;         /* inputs take turns */
    /* What was received and is to be claimed, in one transaction. */
    struct message arrived[SLOTS_MAX];
    struct ledger_arrival claims[SLOTS_MAX];
    int from[SLOTS_MAX], arrived_count;
    double ahead_at; /* when `ahead` was last fitted, and how many were settled then */
    uint64_t ahead_from;
};

/* ---- Messages in and out ---- */

static void note_dropped(struct pipeline *pipeline, const char *edge, const struct err *err) {
    struct drops *drops = err->status == STATUS_NOT_FOUND ? &pipeline->stray : &pipeline->bad;
    drops_note(drops, pipeline->stage->log, edge, err, clock_monotonic());
    atomic_fetch_add(&pipeline->stage->metrics.dropped, 1);
}

/* What was dropped since it was told of last, and who was turned away. */
static void tell_dropped(struct pipeline *pipeline, double now) {
    struct log *log = pipeline->stage->log;
    drops_tell(&pipeline->bad, log, now);
    drops_tell(&pipeline->stray, log, now);
    long long refused = transport_refused(pipeline->transport);
    if (refused > pipeline->refused)
        log_write(log, LOG_WARN, "refused", "%lld peers without the keys of this session were turned away (%lld so far)",
                  refused - pipeline->refused, refused);
    pipeline->refused = refused;
}

static enum status mend_edges(struct pipeline *pipeline, struct err *err) {
    int count = 0;
    TRY(transport_mend(pipeline->transport, &count, err));
    struct err cut = {.status = STATUS_TRUNCATED};
    snprintf(cut.message, sizeof cut.message,
             "the other end sent what is too large, or breaks the protocol, and was cut off; connected anew");
    for (int i = 0; i < count; i++)
        note_dropped(pipeline, "an input", &cut);
    return STATUS_OK;
}

/* What comes down an edge: items and its end. */
static enum status check_downstream(const struct message *message, const char *edge, struct err *err) {
    FAIL_IF(strcmp(message->edge, edge) != 0, err, STATUS_BAD_FORMAT, "a message for the edge '%s'", message->edge);
    FAIL_IF(message->kind != MESSAGE_ITEM && message->kind != MESSAGE_END, err, STATUS_BAD_FORMAT,
            "an answer came down the edge");
    FAIL_IF(message->kind == MESSAGE_END && message->seq != 0, err, STATUS_BAD_FORMAT,
            "an end with the number %lld: it must be 0", (long long)message->seq);
    return STATUS_OK;
}

static enum status answer(struct pipeline *pipeline, const struct inbox *inbox, enum message_kind kind, int64_t seq,
                          const char *verdict, struct err *err) {
    struct message message = {.kind = kind, .seq = seq, .instance = pipeline->stage->instance};
    memcpy(message.edge, inbox->edge, sizeof message.edge);
    snprintf(message.token, sizeof message.token, "%s", pipeline->stage->token);
    snprintf(message.verdict, sizeof message.verdict, "%s", verdict);
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(message_encode(&message, NULL, &text, &length, err));
    /* Without a sender that listens the answer is lost; the item comes again and is answered again. */
    bool sent;
    return transport_send(inbox->acks, text, length, &sent, err);
}

/* Whether a lane has the item already, so that this arrival is acknowledged together with the first. */
static bool joins_lane(struct stage *stage, const char *id, int edge, int64_t seq) {
    bool joins = false;
    stage_lock(stage);
    for (int i = 0; i < stage->slot_count; i++) {
        struct slot *slot = &stage->slots[i];
        if (slot->phase == SLOT_FREE || strcmp(slot->id, id) != 0) continue;
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
        lanes_take(stage, &message->item, input, message->seq);
        return answer(pipeline, inbox, MESSAGE_GOT, message->seq, "", err);
    case CLAIM_FINISHED:
        return answer(pipeline, inbox, MESSAGE_ACK, message->seq, ledger_state_name(claimed->state), err);
    case CLAIM_HERE:
        /* A sender that was started anew does not know who has what; and an item may come by two edges. */
        if (joins_lane(stage, item_id(message->item), input, message->seq))
            return answer(pipeline, inbox, MESSAGE_GOT, message->seq, "", err);
        break;
    case CLAIM_ELSEWHERE:
        /* Who has it answers for it, also where this instance had it before it was thought to hang. */
        break;
    }
    return STATUS_OK;
}

/* Only what is claimed, and written down, goes to work. */
static enum status take_items(struct pipeline *pipeline, struct err *err) {
    const struct stage *stage = pipeline->stage;
    int count = pipeline->arrived_count;
    enum status status = STATUS_OK;
    if (count == 0) return STATUS_OK;
    for (int i = 0; i < count; i++)
        pipeline->claims[i] = (struct ledger_arrival){.item = pipeline->arrived[i].item};
    status = ledger_claim_items(stage->ledger, pipeline->claims, (size_t)count, stage->instance, stage->token, err);
    for (int i = 0; i < count; i++) {
        struct message *message = &pipeline->arrived[i];
        if (status == STATUS_OK) status = take_item(pipeline, pipeline->from[i], message, &pipeline->claims[i], err);
        message_clear(message);
    }
    pipeline->arrived_count = 0;
    return status;
}

/* Bad frames are counted and dropped; what is returned ends the stage. */
static enum status take_frame(struct pipeline *pipeline, int input, const void *bytes, size_t length, struct err *err) {
    struct stage *stage = pipeline->stage;
    const struct inbox *inbox = &pipeline->inboxes[input];
    struct message message = {0};
    struct err bad = {0};
    enum status status = message_decode(bytes, length, &message, &bad);
    if (status == STATUS_OK) status = check_downstream(&message, inbox->edge, &bad);
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
        if (status == STATUS_OK) status = answer(pipeline, inbox, MESSAGE_ACK, message.seq, "end", err);
        pipeline->look_at = 0;
    }
    message_clear(&message);
    return status;
}

/* After the end of the inputs no item comes any more; but a sender that was started anew asks for the answer to its
 * end once more. */
static int receivable(const struct pipeline *pipeline) {
    if (pipeline->phase != PHASE_RUN) return SLOTS_MAX;
    stage_lock(pipeline->stage);
    int room = lanes_room(pipeline->stage);
    pipeline->stage->room_told = false;
    stage_unlock(pipeline->stage);
    return room;
}

static enum status receive_from(struct pipeline *pipeline, int input, bool *ret_quiet, struct err *err) {
    const void *bytes;
    size_t length;
    TRY(transport_receive(pipeline->inboxes[input].data, &bytes, &length, err));
    *ret_quiet = bytes == NULL;
    return bytes != NULL ? take_frame(pipeline, input, bytes, length, err) : STATUS_OK;
}

static enum status receive_items(struct pipeline *pipeline, struct err *err) {
    int count = pipeline->instance.input_count, quiet = 0, budget = AT_ONCE;
    enum status status = STATUS_OK;
    int room = count > 0 ? receivable(pipeline) : 0;
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

/* A stage that is through its items faster than the ledger is through a transaction claims some ahead: as many as it
 * settles in the time of a slow disk's answer. One that takes its time claims what its lanes hold. */
static void fit_ahead(struct pipeline *pipeline, double now) {
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

static enum status receive_answers(struct pipeline *pipeline, struct err *err) {
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

static enum status pump(struct pipeline *pipeline, double now, struct err *err) {
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

/* The answer for a lane whose items are done with. One that came late, since it was taken for hung, is answered for
 * too where another has finished it meanwhile. */
static enum status acknowledge_slot(struct pipeline *pipeline, const struct slot *slot, struct err *err) {
    const struct stage *stage = pipeline->stage;
    enum ledger_state state = slot->state;
    bool finished = slot->settled;
    if (!finished) {
        bool known = false;
        TRY(ledger_lookup(stage->ledger, slot->id, &known, &state, err));
        finished = known && state != LEDGER_IN_FLIGHT;
    }
    for (int i = 0; finished && i < slot->arrival_count; i++) {
        const struct arrival *arrival = &slot->arrivals[i];
        TRY(answer(pipeline, &pipeline->inboxes[arrival->edge], MESSAGE_ACK, arrival->seq, ledger_state_name(state),
                   err));
    }
    return STATUS_OK;
}

static struct slot *next_done(struct stage *stage) {
    stage_lock(stage);
    struct slot *slot = lanes_done(stage);
    stage_unlock(stage);
    return slot;
}

/* Items whose products and outcome are on disk. */
static enum status acknowledge_done(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    for (struct slot *slot; (slot = next_done(stage)) != NULL;) {
        /* Without the stage's lock, as it may ask the ledger, whose lock comes first. */
        TRY(acknowledge_slot(pipeline, slot, err));
        stage_lock(stage);
        lanes_free(stage, slot);
        stage_unlock(stage);
    }
    return STATUS_OK;
}

/* ---- Once in a while ---- */

static void beat(struct pipeline *pipeline) {
    struct stage *stage = pipeline->stage;
    struct err err = {0};
    if (stage->descriptor->produce == NULL && atomic_load(&stage->metrics.state) != METRICS_PROCESSING) {
        stage_lock(stage);
        bool blocked = pipeline->phase == PHASE_RUN && !lanes_empty(stage) && lanes_room(stage) == 0;
        stage_unlock(stage);
        atomic_store(&stage->metrics.state, blocked ? METRICS_BLOCKED : METRICS_WAITING);
    }
    stage_lock(stage);
    struct parts parts = stage->parts;
    stage_unlock(stage);
    log_renew(stage->log);
    bool failed = metrics_heartbeat(&stage->metrics, &parts, pipeline->instance.heartbeat, &err) != STATUS_OK;
    if (failed && !pipeline->beat_failed)
        log_write(stage->log, LOG_WARN, "heartbeat", "%s (said once; it is tried each second)", err.message);
    pipeline->beat_failed = failed;
}

/* Somebody else (a retry) may have put something back into the outbox. */
static enum status check_outboxes(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    for (int i = 0; i < stage->output_count; i++) {
        int64_t count;
        /* What another thread is writing down must be counted in both places, or in none. */
        ledger_hold(stage->ledger);
        enum status status = ledger_unacknowledged(stage->ledger, stage->outputs[i].edge, &count, err);
        stage_lock(stage);
        bool differs = status == STATUS_OK && count != stage->outputs[i].unacknowledged;
        if (differs) {
            stage->outputs[i].unacknowledged = count;
            stage_event(stage);
        }
        stage_unlock(stage);
        ledger_let_go(stage->ledger);
        TRY(status);
        if (differs) outbox_rescan(pipeline->outboxes[i]);
    }
    return STATUS_OK;
}

static enum status inputs_ended(struct pipeline *pipeline, bool *ret_ended, struct err *err) {
    struct stage *stage = pipeline->stage;
    if (stage->descriptor->produce != NULL) {
        *ret_ended = true;
        return STATUS_OK;
    }
    int ended;
    TRY(ledger_ended_inputs(stage->ledger, stage->run, &ended, err));
    *ret_ended = ended >= pipeline->instance.input_count;
    return STATUS_OK;
}

static enum status end_outputs(struct pipeline *pipeline, double now, struct err *err) {
    const struct stage *stage = pipeline->stage;
    bool over = true;
    for (int i = 0; i < pipeline->instance.output_count; i++) {
        outbox_end(pipeline->outboxes[i]);
        over = over && outbox_ended(pipeline->outboxes[i]);
    }
    if (over) {
        /* A later incarnation in this run has nothing left to do, and nobody left to tell. */
        TRY(ledger_end_output(stage->ledger, stage->instance, stage->run, err));
    } else if (now >= pipeline->look_at) {
        /* The receivers may have ended with what an earlier incarnation told them: the launcher then says so. */
        pipeline->look_at = now + 1;
        TRY(ledger_output_ended(stage->ledger, stage->instance, stage->run, &over, err));
    }
    if (over) pipeline->phase = PHASE_OVER;
    return STATUS_OK;
}

/* From the end of the inputs to the end of the stage. */
static enum status advance(struct pipeline *pipeline, double now, struct err *err) {
    struct stage *stage = pipeline->stage;
    bool ended = false;
    if (pipeline->phase == PHASE_RUN && now >= pipeline->look_at) {
        pipeline->look_at = now + 1;
        TRY(inputs_ended(pipeline, &ended, err));
    }
    stage_lock(stage);
    if (ended && lanes_empty(stage)) {
        stage->flush_wanted = true;
        pipeline->phase = PHASE_FLUSH;
        stage_call_all(stage);
    } else if (ended)
        pipeline->look_at = 0;
    if (pipeline->phase == PHASE_FLUSH && stage->flushed) {
        stage->summary_wanted = true;
        pipeline->phase = PHASE_SUMMARY;
        stage_call_all(stage);
    }
    if (pipeline->phase == PHASE_SUMMARY && stage->summarised) {
        pipeline->phase = PHASE_END;
        parts_end(&stage->parts, clock_monotonic());
    }
    stage_unlock(stage);
    return pipeline->phase == PHASE_END ? end_outputs(pipeline, now, err) : STATUS_OK;
}

static enum status wait_for_something(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    struct transport_wait waits[3 * EDGES_MAX + 1];
    size_t count = 0;
    waits[count++] = (struct transport_wait){.descriptor = stage->wake};
    bool patient = pipeline->patience.tries > 0, receiving = !patient && receivable(pipeline) > 0;
    for (int i = 0; receiving && i < pipeline->instance.input_count; i++)
        waits[count++] = (struct transport_wait){.socket = pipeline->inboxes[i].data};
    for (int i = 0; !patient && i < pipeline->instance.output_count; i++) {
        waits[count++] = (struct transport_wait){.socket = outbox_acks(pipeline->outboxes[i])};
        if (outbox_blocked(pipeline->outboxes[i]))
            waits[count++] = (struct transport_wait){.socket = outbox_data(pipeline->outboxes[i]), .for_sending = true};
    }
    TRY(transport_poll(waits, count, TICK_MS, err));
    uint64_t woken;
    if (waits[0].ready && read(stage->wake, &woken, sizeof woken) < 0 && errno != EAGAIN)
        FAIL(err, STATUS_IO, "the wake-up call cannot be read: %s", strerror(errno));
    return STATUS_OK;
}

static enum status serve(struct pipeline *pipeline, double now, struct err *err) {
    if (now >= pipeline->check_at) {
        pipeline->check_at = now + 1;
        TRY(mend_edges(pipeline, err));
        TRY(check_outboxes(pipeline, err));
    }
    TRY(receive_answers(pipeline, err));
    TRY(acknowledge_done(pipeline, err));
    fit_ahead(pipeline, now);
    TRY(receive_items(pipeline, err));
    TRY(advance(pipeline, now, err));
    return pump(pipeline, now, err);
}

/* Items that could not be claimed were let go; those who sent them are asked for them again. */
static enum status ask_again(struct pipeline *pipeline, struct err *err) {
    for (int i = 0; i < pipeline->instance.input_count; i++)
        TRY(answer(pipeline, &pipeline->inboxes[i], MESSAGE_HELLO, 0, "", err));
    return STATUS_OK;
}

static enum status run_once(struct pipeline *pipeline, struct err *err) {
    double now = clock_monotonic();
    if (now >= pipeline->beat_at) {
        pipeline->beat_at = now + 1;
        beat(pipeline);
        tell_dropped(pipeline, now);
    }
    if (now >= pipeline->patience.until) {
        struct err own = {0};
        bool waited = pipeline->patience.tries > 0;
        enum status status = serve(pipeline, now, &own);
        bool wait = stage_may_wait(pipeline->stage, status, &own, &pipeline->patience);
        FAIL_IF(status != STATUS_OK && !wait, err, status, "%s", own.message);
        if (waited && !wait) TRY(ask_again(pipeline, err));
    }
    return pipeline->phase != PHASE_OVER ? wait_for_something(pipeline, err) : STATUS_OK;
}

/* ---- Beginning and end ---- */

/* Before any thread of the stage can emit: what it emits must know where it goes. */
static enum status set_outputs(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    for (int i = 0; i < pipeline->instance.output_count; i++) {
        const struct stage_edge *edge = &pipeline->instance.outputs[i];
        struct stage_output *output = &stage->outputs[i];
        memcpy(output->edge, edge->edge, sizeof output->edge);
        output->window = edge->window;
        TRY(ledger_unacknowledged(stage->ledger, edge->edge, &output->unacknowledged, err));
    }
    stage->output_count = pipeline->instance.output_count;
    return STATUS_OK;
}

static enum status open_edges(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    const struct instance *instance = &pipeline->instance;
    TRY(transport_create(instance->public_key, instance->secret_key, &pipeline->transport, err));
    for (int i = 0; i < instance->output_count; i++) {
        const struct stage_edge *edge = &instance->outputs[i];
        TRY(outbox_create(pipeline->transport, stage->ledger, edge->edge, edge->data, edge->ack, edge->window,
                          &pipeline->outboxes[i], err));
        if (edge->resend > 0) outbox_set_pause(pipeline->outboxes[i], edge->resend);
    }
    for (int i = 0; i < instance->input_count; i++) {
        struct inbox *inbox = &pipeline->inboxes[i];
        memcpy(inbox->edge, instance->inputs[i].edge, sizeof inbox->edge);
        TRY(transport_open(pipeline->transport, TRANSPORT_DATA_IN, instance->inputs[i].data, RECEIVE_BACKLOG,
                           &inbox->data, err));
        TRY(transport_open(pipeline->transport, TRANSPORT_ACK_OUT, instance->inputs[i].ack, ANSWERS_HELD, &inbox->acks,
                           err));
        TRY(answer(pipeline, inbox, MESSAGE_HELLO, 0, "", err));
    }
    return STATUS_OK;
}

static enum status configure(struct pipeline *pipeline, struct err *err) {
    struct stage *stage = pipeline->stage;
    TRY(stage_configure(stage, stage->name, err));
    if (stage->descriptor->cumulative || stage->descriptor->produce != NULL) return STATUS_OK;
    FAIL_IF(pipeline->instance.input_count == 0, err, STATUS_BAD_ARGUMENT, "%s has no inputs", stage->name);
    return STATUS_OK;
}

static enum status run(struct pipeline *pipeline, bool *ret_configured, struct err *err) {
    struct stage *stage = pipeline->stage;
    stage->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    FAIL_IF(stage->wake < 0, err, STATUS_IO, "no eventfd: %s", strerror(errno));
    bool over = false;
    TRY(ledger_output_ended(stage->ledger, stage->instance, stage->run, &over, err));
    if (over) {
        log_write(stage->log, LOG_INFO, "over", "everything was done and said before; nothing is left to do");
        *ret_configured = true;
        return STATUS_OK;
    }
    TRY(set_outputs(pipeline, err));
    TRY(stage_begin(stage, err));
    *ret_configured = true;
    TRY(open_edges(pipeline, err));
    log_write(stage->log, LOG_INFO, "start", "run %d, process %d, %d lanes, %d threads", stage->run, (int)getpid(),
              stage->lane_count, stage->threads);
    pipeline->phase = stage->descriptor->produce != NULL ? PHASE_FLUSH : PHASE_RUN;
    while (pipeline->phase != PHASE_OVER && atomic_load(&stage->stopping) != STOP_NOW)
        TRY(run_once(pipeline, err));
    stage_lock(stage);
    enum status fatal = stage->fatal;
    if (fatal != STATUS_OK) *err = stage->fatal_err;
    stage_unlock(stage);
    TRY(fatal);
    FAIL_IF(pipeline->phase != PHASE_OVER, err, STATUS_CANCELLED, "asked to stop");
    beat(pipeline);
    stage_report_parts(stage, NULL);
    log_write(stage->log, LOG_INFO, "end", "%lld in, %lld out, %lld rejected, %lld failed, %lld bad frames",
              (long long)atomic_load(&stage->metrics.in), (long long)atomic_load(&stage->metrics.out),
              (long long)atomic_load(&stage->metrics.rejected), (long long)atomic_load(&stage->metrics.failed),
              pipeline->bad.count + pipeline->stray.count);
    return STATUS_OK;
}

static int report(struct stage *stage, enum status status, bool configured, const struct err *err) {
    if (status == STATUS_OK) return EXIT_OK;
    if (status == STATUS_CANCELLED) {
        log_write(stage->log, LOG_INFO, "stopped", "%s; what is not finished is done at the next run", err->message);
        return EXIT_TERMINATED;
    }
    log_write(stage->log, LOG_ERROR, configured ? "fatal" : "configuration", "%s", err->message);
    fprintf(stderr, "icestream-%s: error: %s\n", stage->name, err->message);
    if (status == STATUS_UNAVAILABLE) return EXIT_UNAVAILABLE;
    bool wrong = status == STATUS_BAD_ARGUMENT || status == STATUS_NOT_FOUND || status == STATUS_BAD_FORMAT ||
                 status == STATUS_UNSUPPORTED;
    return !configured && wrong ? EXIT_CONFIGURATION : EXIT_ERROR;
}

int stage_pipeline(struct stage *stage, const char *instance_file) {
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (pipeline == NULL) return EXIT_ERROR;
    struct err err = {0};
    struct signals *signals = NULL;
    bool configured = false;
    pipeline->stage = stage;
    pipeline->bad = (struct drops){.id = "bad-frame", .level = LOG_WARN};
    pipeline->stray = (struct drops){.id = "stray", .level = LOG_INFO};
    stage->mode = STAGE_IN_PIPELINE;
    /* A stage does not outlive the launcher, not even one that is stopped: the next one would start another beside it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    crash_watch();
    enum status status = signals_start(stage, &signals, &err);
    if (status == STATUS_OK) status = instance_read(stage, instance_file, &pipeline->instance, &err);
    if (status == STATUS_OK) status = instance_open(stage, &pipeline->instance, &err);
    if (status == STATUS_OK) status = configure(pipeline, &err);
    if (status == STATUS_OK) status = run(pipeline, &configured, &err);
    int code = report(stage, status, configured, &err);
    /* A source would search on, and nobody would tell it to end. */
    if (status != STATUS_OK) stage_stop(stage, STOP_NOW);
    if (stage->threads_started > 0) lanes_stop(stage);
    for (int i = 0; i < pipeline->arrived_count; i++)
        message_clear(&pipeline->arrived[i]);
    for (int i = 0; i < EDGES_MAX; i++)
        outbox_destroy(&pipeline->outboxes[i]);
    transport_destroy(&pipeline->transport);
    signals_stop(&signals);
    instance_clear(&pipeline->instance);
    free(pipeline);
    return code;
}
