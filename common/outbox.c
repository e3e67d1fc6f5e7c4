#include "common/outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* Nobody said that he has it: it may lie in the socket of a receiver that is busy, so the pause grows. Who has it may
 * work on it for long; but his answer, or the hello of his next life, may have got lost on the way. */
static const double default_pause = 10, growth_limit = 16, got_factor = 6, end_pause = 2;
enum { RECEIVERS_MAX = 256 };

/* An item that is on its way. */
struct flight {
    int64_t seq;
    bool sent, got;
    int attempt;
    double sent_at, pause;
    int instance; /* of the receiver that has got it, and its token */
    char token[MESSAGE_TOKEN_SIZE];
};

struct outbox {
    struct ledger *ledger;
    struct transport_socket *data, *acks;
    char edge[MESSAGE_EDGE_SIZE];
    struct flight *flights;
    int count, window;
    double pause;
    char (*tokens)[MESSAGE_TOKEN_SIZE]; /* of each receiver's life, as its last hello said; empty: not known */
    int64_t cursor; /* seq of the last parcel taken from the ledger */
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
    outbox->window = window;
    outbox->pause = default_pause;
    snprintf(outbox->edge, sizeof outbox->edge, "%s", edge);
    outbox->flights = calloc((size_t)window, sizeof *outbox->flights);
    outbox->tokens = calloc(RECEIVERS_MAX, sizeof *outbox->tokens);
    enum status status = STATUS_OK;
    if (outbox->flights == NULL || outbox->tokens == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the edge %s", edge);
    if (status == STATUS_OK) status = transport_open(transport, TRANSPORT_DATA_OUT, data, window, &outbox->data, err);
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

static enum status send_parcel(struct outbox *outbox, struct flight *flight, const struct ledger_parcel *parcel,
                               double now, struct err *err) {
    struct message message = {.kind = MESSAGE_ITEM, .seq = parcel->seq, .attempt = flight->attempt + 1};
    memcpy(message.edge, outbox->edge, sizeof message.edge);
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(message_encode(&message, parcel->item_text, &text, &length, err));
    bool sent;
    TRY(transport_send(outbox->data, text, length, &sent, err));
    outbox->blocked = !sent;
    if (!sent) return STATUS_OK;
    double growth = 1;
    for (int i = 0; i < flight->attempt && growth < growth_limit; i++)
        growth *= 2;
    flight->sent = true;
    flight->got = false;
    flight->attempt++;
    flight->sent_at = now;
    flight->pause = outbox->pause * growth;
    return STATUS_OK;
}

static bool is_due(const struct flight *flight, double now) {
    double pause = flight->got ? got_factor * flight->pause : flight->pause;
    return !flight->sent || now >= flight->sent_at + pause;
}

/* Those that were never sent, or got lost, in the order of their numbers. */
static struct flight *next_due(struct outbox *outbox, double now) {
    struct flight *best = NULL;
    for (int i = 0; i < outbox->count; i++) {
        struct flight *flight = &outbox->flights[i];
        if (is_due(flight, now) && (best == NULL || flight->seq < best->seq)) best = flight;
    }
    return best;
}

/* Parcels of the ledger take their places in the window. */
static enum status fill_window(struct outbox *outbox, struct err *err) {
    while (outbox->count < outbox->window && !outbox->exhausted) {
        struct ledger_parcel parcel = {0};
        bool found = false;
        TRY(ledger_next_parcel(outbox->ledger, outbox->edge, outbox->cursor, &parcel, &found, err));
        outbox->exhausted = !found;
        if (!found) break;
        outbox->cursor = parcel.seq;
        if (find_flight(outbox, parcel.seq) == NULL)
            outbox->flights[outbox->count++] = (struct flight){.seq = parcel.seq};
        ledger_parcel_clear(&parcel);
    }
    return STATUS_OK;
}

static enum status send_due(struct outbox *outbox, double now, struct err *err) {
    for (struct flight *flight; (flight = next_due(outbox, now)) != NULL;) {
        struct ledger_parcel parcel = {0};
        bool found = false;
        TRY(ledger_next_parcel(outbox->ledger, outbox->edge, flight->seq - 1, &parcel, &found, err));
        if (!found || parcel.seq != flight->seq) {
            /* Acknowledged meanwhile by another way. */
            ledger_parcel_clear(&parcel);
            remove_flight(outbox, flight);
            continue;
        }
        enum status status = send_parcel(outbox, flight, &parcel, now, err);
        ledger_parcel_clear(&parcel);
        TRY(status);
        if (outbox->blocked) break;
    }
    return STATUS_OK;
}

static enum status send_end(struct outbox *outbox, double now, struct err *err) {
    if (!outbox->end_wanted || outbox->ended || outbox->count > 0 || (outbox->end_sent && now < outbox->end_again_at))
        return STATUS_OK;
    struct message message = {.kind = MESSAGE_END, .attempt = outbox->end_attempt + 1};
    memcpy(message.edge, outbox->edge, sizeof message.edge);
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(message_encode(&message, NULL, &text, &length, err));
    bool sent;
    TRY(transport_send(outbox->data, text, length, &sent, err));
    outbox->blocked = !sent;
    if (sent) {
        outbox->end_sent = true;
        outbox->end_attempt++;
        outbox->end_again_at = now + end_pause;
    }
    return STATUS_OK;
}

enum status outbox_pump(struct outbox *outbox, double now, struct err *err) {
    outbox->blocked = false;
    /* New parcels may have been posted since the last look. */
    outbox->exhausted = false;
    TRY(fill_window(outbox, err));
    TRY(send_due(outbox, now, err));
    if (outbox->exhausted) TRY(send_end(outbox, now, err));
    return STATUS_OK;
}

/* A receiver began a new life: what its last one held is lost, and so is what nobody has. */
static void on_hello(struct outbox *outbox, const struct message *message) {
    for (int i = 0; i < outbox->count; i++) {
        struct flight *flight = &outbox->flights[i];
        bool was_his =
            flight->got && flight->instance == message->instance && strcmp(flight->token, message->token) != 0;
        if (was_his || !flight->got) flight->sent = false;
    }
    outbox->end_sent = false;
    if (message->instance < RECEIVERS_MAX)
        memcpy(outbox->tokens[message->instance], message->token, sizeof *outbox->tokens);
}

/* Messages may overtake each other: what a dead receiver said it has is lost all the same. */
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

/* Only what this life of the sender has sent can be acknowledged: anything else would be lost for good by one wrong
 * number. What an earlier life sent is sent again and acknowledged again. */
static enum status on_ack(struct outbox *outbox, const struct message *message, bool *first, struct err *err) {
    static const char *const verdicts[] = {"done", "rejected", "failed"};
    struct flight *flight = find_flight(outbox, message->seq);
    bool known = false;
    for (int i = 0; i < 3; i++)
        known = known || strcmp(message->verdict, verdicts[i]) == 0;
    FAIL_IF(!known, err, STATUS_BAD_FORMAT, "an acknowledgement with the verdict '%s': done, rejected or failed",
            message->verdict);
    if (flight == NULL || flight->attempt == 0) {
        bool before = false;
        TRY(ledger_is_acknowledged(outbox->ledger, outbox->edge, message->seq, &before, err));
        FAIL_IF(!before, err, STATUS_NOT_FOUND, "an acknowledgement of message %lld, which is not on its way",
                (long long)message->seq);
        return STATUS_OK;
    }
    TRY(ledger_acknowledge(outbox->ledger, outbox->edge, message->seq, message->verdict, first, err));
    remove_flight(outbox, flight);
    return STATUS_OK;
}

enum status outbox_answer(struct outbox *outbox, const struct message *message, bool *ret_acknowledged,
                          struct err *err) {
    bool first = false;
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
        TRY(on_ack(outbox, message, &first, err));
        break;
    case MESSAGE_ITEM:
    case MESSAGE_END:
        FAIL(err, STATUS_BAD_FORMAT, "an item came up the edge %s", outbox->edge);
    }
    *ret_acknowledged = first;
    return STATUS_OK;
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
