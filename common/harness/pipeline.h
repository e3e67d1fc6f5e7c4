/* What the files of a stage in a pipeline share: pipeline.c, and edges.c for its messages. */
#ifndef ICESTREAM_COMMON_HARNESS_PIPELINE_H
#define ICESTREAM_COMMON_HARNESS_PIPELINE_H

#include "common/edges/dropped.h"
#include "common/edges/message.h"
#include "common/edges/outbox.h"
#include "common/edges/transport.h"
#include "common/harness/stage_private.h"

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
    struct dropped bad, stray; /* what is no message; answers about what is not on its way */
    long long refused;         /* peers */
    int first_input;           /* inputs take turns */
    /* What was received and is to be claimed, in one transaction. */
    struct message arrived[SLOTS_MAX];
    struct ledger_arrival claims[SLOTS_MAX];
    int from[SLOTS_MAX], arrived_count;
    double ahead_at; /* when `ahead` was last fitted, and how many were settled then */
    uint64_t ahead_from;
};

/* An answer on an input's edge. One that nobody is there to hear is lost, and asked for again. */
enum status edges_answer(struct pipeline *pipeline, const struct inbox *inbox, enum message_kind kind, int64_t seq,
                         const char *verdict, struct err *err);
/* How many items may be taken in. */
int edges_room(const struct pipeline *pipeline);
/* Takes in what has come, no more than there is room for; what follows from answers of downstream. */
enum status edges_receive(struct pipeline *pipeline, struct err *err);
enum status edges_receive_answers(struct pipeline *pipeline, struct err *err);
/* Acknowledges items whose products and outcome are on disk. */
enum status edges_acknowledge(struct pipeline *pipeline, struct err *err);
enum status edges_pump(struct pipeline *pipeline, double now, struct err *err);
void edges_fit_ahead(struct pipeline *pipeline, double now);
/* Connections that were cut off are made anew. */
enum status edges_mend(struct pipeline *pipeline, struct err *err);
/* Says in the log what was dropped since it was told of last, and who was turned away. */
void edges_tell_dropped(struct pipeline *pipeline, double now);

#endif
