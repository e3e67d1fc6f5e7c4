/* Runs a stage in a pipeline: pipeline.c, edges.c for its messages, and endpoints.c for senders that move. */
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

/* The record of endpoints, as far as this process has followed it. */
struct endpoints {
    int number;    /* of the last change that it has followed */
    uint64_t seen; /* hash of the text that was read last; 0: none */
    bool failed;   /* the record cannot be followed, which was logged */
};

struct pipeline {
    struct stage *stage;
    pthread_t thread; /* the main one */
    struct instance instance;
    struct transport *transport;
    struct inbox inboxes[EDGES_MAX];
    struct outbox *outboxes[EDGES_MAX];
    enum pipeline_phase phase;
    double beat_at, check_at, look_at;
    struct stage_patience patience; /* the ledger could not be written: leave it alone until patience.until */
    struct change_watch *changes;
    struct endpoints endpoints;
    struct absent absent;
    bool beat_failed, unbound; /* logged already: the heartbeat, a deleted socket */
    struct dropped bad, stray; /* bad: frames that are no message; stray: answers about what is not on its way */
    long long refused;         /* peers that were turned away, as last logged */
    int first_input;           /* inputs take turns */
    /* Items that were received and are to be claimed, in one transaction. */
    struct message arrived[SLOTS_MAX];
    struct ledger_arrival claims[SLOTS_MAX];
    int from[SLOTS_MAX], arrived_count;
    double ahead_at; /* time when `ahead` was last fitted, and the number of settled items then */
    uint64_t ahead_from;
};

/* Sends an answer on an input's edge. When no sender listens, the answer is lost, and the sender asks again. */
enum status edges_answer(struct pipeline *pipeline, const struct inbox *inbox, enum message_kind kind, int64_t seq,
                         const char *verdict, struct err *err);
/* Returns how many items may be taken in. */
int edges_room(const struct pipeline *pipeline);
/* edges_receive takes in what has come, up to edges_room; edges_receive_answers takes the answers from downstream. */
enum status edges_receive(struct pipeline *pipeline, struct err *err);
enum status edges_receive_answers(struct pipeline *pipeline, struct err *err);
/* Acknowledges items whose products and outcome are on disk. */
enum status edges_acknowledge(struct pipeline *pipeline, struct err *err);
/* Sends what the outboxes hold, and fits their windows. */
enum status edges_pump(struct pipeline *pipeline, double now, struct err *err);
/* Fits how many items are claimed ahead of the lanes to how fast the stage settles them. */
void edges_fit_ahead(struct pipeline *pipeline, double now);
/* Connects again where connections were cut off. */
enum status edges_mend(struct pipeline *pipeline, struct err *err);
/* Binds sockets again whose files were deleted; logs it. */
void edges_bind_again(struct pipeline *pipeline);
/* Logs what was dropped and which peers were turned away since the last time. */
void edges_tell_dropped(struct pipeline *pipeline, double now);
/* Connects the inputs whose senders have moved, as the record of endpoints says. Call it about once a second. What
 * cannot be done now is logged once and done later. */
void endpoints_follow(struct pipeline *pipeline);

#endif
