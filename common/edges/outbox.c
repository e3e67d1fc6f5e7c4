#include "common/edges/outbox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* An item that no receiver has confirmed may lie in the socket of a busy receiver, so the pause grows. A receiver that
 * has got the item may work on it for long; but its answer, or the hello of its next incarnation, may have got lost. */
static const double default_pause = 10, growth_limit = 16, got_factor = 6, end_pause = 2;
enum { RECEIVERS_MAX = 256 };
/* The window grows to what the receiver finishes in this time (s). A fast receiver then never waits for the next item,
 * and a slow one does not hold items that another replica could do. */
static const double ahead = 0.1, rate_pause = 0.05;
enum { WINDOW_GROWN = 1024 };

/* An item on its way. */
struct flight {
    int64_t seq;
    bool sent, got, struck; /* struck: acknowledged, but the ledger does not know it yet */
    const char *verdict;
    int attempt;
    double sent_at, pause;
    int instance; /* instance and token of the receiver that has got the item */
    char token[MESSAGE_TOKEN_SIZE];
};

struct outbox {
    struct ledger *ledger;
    struct transport_socket *data, *acks;
    char edge[MESSAGE_EDGE_SIZE];
    struct flight *flights;
    int count, struck_count, base_window, window, most;
    double due_at;  /* earliest time at which something must be sent again */
    double rate_at; /* time since which acknowledgements are counted */
    int rate_count;
    struct ledger_verdict *verdicts;
    double pause;
    char (*tokens)[MESSAGE_TOKEN_SIZE]; /* of each receiver's present incarnation, from its last hello; empty: not
                                           known */
    int64_t cursor, newest; /* seq of the last parcel taken from the ledger, and of the last one ever taken */
    bool blocked, exhausted;
    bool end_wanted, end_sent, ended;
    int end_attempt;
    double end_again_at;
};

enum status outbox_create(struct transport *transport, struct ledger *ledger, const char *edge, const char *data,
                          const char *ack, int window, struct outbox **ret_outbox, struct err *err) {
    struct outbox *outbox = calloc(1, sizeof *outbox);
    FAIL_IF(outbox == NULL, err, STATUS_NO_MEMORY, "no memory for the edge %s", edge);
    outbox->ledger = ledger;
    outbox->base_window = outbox->window = window;
    outbox->most = window > WINDOW_GROWN ? window : WINDOW_GROWN;
    outbox->pause = default_pause;
    snprintf(outbox->edge, sizeof outbox->edge, "%s", edge);
    outbox->flights = calloc((size_t)outbox->most, sizeof *outbox->flights);
    outbox->verdicts = calloc((size_t)outbox->most, sizeof *outbox->verdicts);
    outbox->tokens = calloc(RECEIVERS_MAX, sizeof *outbox->tokens);
    enum status status = STATUS_OK;
    if (outbox->flights == NULL || outbox->verdicts == NULL || outbox->tokens == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the edge %s", edge);
    if (status == STATUS_OK)
        status = transport_open(transport, TRANSPORT_DATA_OUT, data, outbox->most, &outbox->data, err);
    if (status == STATUS_OK) status = transport_open(transport, TRANSPORT_ACK_IN, ack, 1000, &outbox->acks, err);
    if (status != STATUS_OK) {
        outbox_destroy(&outbox);
        return status;
    }
    *ret_outbox = outbox;
    return STATUS_OK;
}

void outbox_destroy(struct outbox **outbox) {
    if (*outbox == NULL) return;
    free((*outbox)->flights);
    free((*outbox)->verdicts);
    free((*outbox)->tokens);
    mem_free(outbox);
}

void outbox_set_pause(struct outbox *outbox, double seconds) {
    outbox->pause = seconds;
}

static struct flight *find_flight(struct outbox *outbox, int64_t seq) {
    for (int i = 0; i < outbox->count; i++)
        if (outbox->flights[i].seq == seq) return &outbox->flights[i];
    return NULL;
}

static void remove_flight(struct outbox *outbox, struct flight *flight) {
    *flight = outbox->flights[--outbox->count];
}

/* Sends a message with an item's text or NULL. *ret_sent false: the edge is full. */
static enum status send_message(struct outbox *outbox, struct message *message, const char *item_text, bool *ret_sent,
                                struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    memcpy(message->edge, outbox->edge, sizeof message->edge);
    TRY(message_encode(message, item_text, &text, &length, err));
    TRY(transport_send(outbox->data, text, length, ret_sent, err));
    outbox->blocked = !*ret_sent;
    return STATUS_OK;
}

static enum status send_item(struct outbox *outbox, struct flight *flight, const char *item_text, double now,
                             struct err *err) {
    struct message message = {.kind = MESSAGE_ITEM, .seq = flight->seq, .attempt = flight->attempt + 1};
    bool sent;
    TRY(send_message(outbox, &message, item_text, &sent, err));
    if (!sent) return STATUS_OK;
    double growth = 1;
    for (int i = 0; i < flight->attempt && growth < growth_limit; i++)
        growth *= 2;
    flight->sent = true;
    flight->got = false;
    flight->attempt++;
    flight->sent_at = now;
    flight->pause = outbox->pause * growth;
    outbox->due_at = fmin(outbox->due_at, now + flight->pause);
    return STATUS_OK;
}

struct filling {
    struct outbox *outbox;
    double now;
};

static enum status send_new(const struct ledger_waiting *parcel, void *context, bool *ret_stop, struct err *err) {
    const struct filling *filling = context;
    struct outbox *outbox = filling->outbox;
    if (parcel->seq > outbox->newest || find_flight(outbox, parcel->seq) == NULL) {
        *ret_stop = true;
        outbox->exhausted = false;
        if (outbox->count >= outbox->window) return STATUS_OK;
        struct flight flight = {.seq = parcel->seq};
        TRY(send_item(outbox, &flight, parcel->item_text, filling->now, err));
        if (outbox->blocked) return STATUS_OK;
        outbox->flights[outbox->count++] = flight;
        outbox->exhausted = true;
        *ret_stop = false;
    }
    outbox->cursor = parcel->seq;
    if (parcel->seq > outbox->newest) outbox->newest = parcel->seq;
    return STATUS_OK;
}

/* Sends parcels from the ledger until the window is full. */
static enum status fill_window(struct outbox *outbox, double now, struct err *err) {
    struct filling filling = {outbox, now};
    outbox->exhausted = true; /* until send_new meets a parcel that cannot be sent yet */
    return ledger_each_waiting(outbox->ledger, outbox->edge, outbox->cursor, send_new, &filling, err);
}

static double due_at(const struct flight *flight) {
    if (!flight->sent) return -INFINITY;
    return flight->sent_at + (flight->got ? got_factor * flight->pause : flight->pause);
}

/* Finds the parcel with the smallest seq that must be sent again now, and the time at which the next one is due. */
static struct flight *next_due(struct outbox *outbox, double now) {
    struct flight *best = NULL;
    outbox->due_at = INFINITY;
    for (int i = 0; i < outbox->count; i++) {
        struct flight *flight = &outbox->flights[i];
        double at = due_at(flight);
        outbox->due_at = fmin(outbox->due_at, at);
        if (at <= now && (best == NULL || flight->seq < best->seq)) best = flight;
    }
    return best;
}

static enum status send_due(struct outbox *outbox, double now, struct err *err) {
    while (now >= outbox->due_at && !outbox->blocked) {
        struct flight *flight = next_due(outbox, now);
        struct ledger_parcel parcel = {0};
        bool found = false;
        if (flight == NULL) break;
        TRY(ledger_next_parcel(outbox->ledger, outbox->edge, flight->seq - 1, &parcel, &found, err));
        enum status status = STATUS_OK;
        if (found && parcel.seq == flight->seq)
            status = send_item(outbox, flight, parcel.item_text, now, err);
        else /* it was acknowledged in another way meanwhile */
            remove_flight(outbox, flight);
        ledger_parcel_clear(&parcel);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status send_end(struct outbox *outbox, double now, struct err *err) {
    if (!outbox->end_wanted || outbox->ended || outbox->count > 0 || (outbox->end_sent && now < outbox->end_again_at))
        return STATUS_OK;
    struct message message = {.kind = MESSAGE_END, .attempt = outbox->end_attempt + 1};
    bool sent;
    TRY(send_message(outbox, &message, NULL, &sent, err));
    if (sent) {
        outbox->end_sent = true;
        outbox->end_attempt++;
        outbox->end_again_at = now + end_pause;
    }
    return STATUS_OK;
}

static void fit_window(struct outbox *outbox, double now) {
    double passed = now - outbox->rate_at;
    if (passed < rate_pause) return;
    double wanted = fmin(ahead * outbox->rate_count / passed, outbox->most);
    outbox->window = wanted > outbox->base_window ? (int)wanted : outbox->base_window;
    outbox->rate_at = now;
    outbox->rate_count = 0;
}

enum status outbox_pump(struct outbox *outbox, double now, struct err *err) {
    outbox->blocked = false;
    fit_window(outbox, now);
    TRY(send_due(outbox, now, err));
    if (outbox->blocked) return STATUS_OK;
    TRY(fill_window(outbox, now, err));
    if (outbox->exhausted) TRY(send_end(outbox, now, err));
    return STATUS_OK;
}

/* Handles a receiver that has started again: everything that its last incarnation held is lost, and so is everything
 * that no receiver has confirmed. */
static void on_hello(struct outbox *outbox, const struct message *message) {
    for (int i = 0; i < outbox->count; i++) {
        struct flight *flight = &outbox->flights[i];
        bool was_its =
            flight->got && flight->instance == message->instance && strcmp(flight->token, message->token) != 0;
        if ((was_its || !flight->got) && !flight->struck) flight->sent = false;
    }
    outbox->due_at = -INFINITY;
    outbox->end_sent = false;
    if (message->instance < RECEIVERS_MAX)
        memcpy(outbox->tokens[message->instance], message->token, sizeof *outbox->tokens);
}

/* Messages may overtake each other: what a dead receiver says it has got is lost nevertheless. */
static bool is_of_last_life(const struct outbox *outbox, const struct message *message) {
    const char *token = message->instance < RECEIVERS_MAX ? outbox->tokens[message->instance] : "";
    return token[0] != '\0' && strcmp(token, message->token) != 0;
}

static void on_got(struct outbox *outbox, const struct message *message) {
    struct flight *flight = find_flight(outbox, message->seq);
    if (flight == NULL || flight->attempt == 0 || is_of_last_life(outbox, message)) return;
    flight->sent = flight->got = true;
    flight->instance = message->instance;
    memcpy(flight->token, message->token, sizeof flight->token);
}

/* Only an item that this incarnation of the sender has sent can be acknowledged: otherwise one wrong number would lose
 * an item for good. What an earlier incarnation sent is sent again and acknowledged again. */
static enum status on_ack(struct outbox *outbox, const struct message *message, struct err *err) {
    static const char *const verdicts[] = {"done", "rejected", "failed"};
    struct flight *flight = find_flight(outbox, message->seq);
    const char *verdict = NULL;
    for (int i = 0; i < 3; i++)
        if (strcmp(message->verdict, verdicts[i]) == 0) verdict = verdicts[i];
    FAIL_IF(verdict == NULL, err, STATUS_BAD_FORMAT,
            "an acknowledgement with the verdict '%s': done, rejected or failed", message->verdict);
    if (flight == NULL || flight->attempt == 0) {
        bool before = false;
        TRY(ledger_is_acknowledged(outbox->ledger, outbox->edge, message->seq, &before, err));
        FAIL_IF(!before, err, STATUS_NOT_FOUND, "an acknowledgement of message %lld, which is not on its way",
                (long long)message->seq);
        return STATUS_OK;
    }
    if (flight->struck) return STATUS_OK;
    flight->sent = flight->got = flight->struck = true;
    flight->verdict = verdict;
    outbox->struck_count++;
    return STATUS_OK;
}

enum status outbox_strike_off(struct outbox *outbox, int64_t *ret_count, struct err *err) {
    size_t count = 0;
    *ret_count = 0;
    if (outbox->struck_count == 0) return STATUS_OK;
    for (int i = 0; i < outbox->count; i++)
        if (outbox->flights[i].struck)
            outbox->verdicts[count++] = (struct ledger_verdict){outbox->flights[i].seq, outbox->flights[i].verdict};
    TRY(ledger_acknowledge_all(outbox->ledger, outbox->edge, outbox->verdicts, count, ret_count, err));
    for (int i = 0; i < outbox->count;)
        if (outbox->flights[i].struck)
            remove_flight(outbox, &outbox->flights[i]);
        else
            i++;
    outbox->rate_count += outbox->struck_count;
    outbox->struck_count = 0;
    return STATUS_OK;
}

enum status outbox_answer(struct outbox *outbox, const struct message *message, struct err *err) {
    FAIL_IF(strcmp(message->edge, outbox->edge) != 0, err, STATUS_BAD_FORMAT,
            "an answer for the edge '%s' came on the edge %s", message->edge, outbox->edge);
    switch (message->kind) {
    case MESSAGE_HELLO:
        on_hello(outbox, message);
        break;
    case MESSAGE_GOT:
        on_got(outbox, message);
        break;
    case MESSAGE_ACK:
        if (message->seq == 0) {
            FAIL_IF(outbox->end_attempt == 0, err, STATUS_NOT_FOUND, "an acknowledgement of an end that was not sent");
            outbox->ended = true;
            break;
        }
        TRY(on_ack(outbox, message, err));
        break;
    case MESSAGE_ITEM:
    case MESSAGE_END:
        FAIL(err, STATUS_BAD_FORMAT, "an item came up the edge %s", outbox->edge);
    }
    return STATUS_OK;
}

int outbox_window(const struct outbox *outbox) {
    return outbox->window;
}

void outbox_rescan(struct outbox *outbox) {
    outbox->cursor = 0;
}

void outbox_end(struct outbox *outbox) {
    outbox->end_wanted = true;
}

bool outbox_ended(const struct outbox *outbox) {
    return outbox->ended;
}

bool outbox_blocked(const struct outbox *outbox) {
    return outbox->blocked;
}

struct transport_socket *outbox_data(struct outbox *outbox) {
    return outbox->data;
}

struct transport_socket *outbox_acks(struct outbox *outbox) {
    return outbox->acks;
}
