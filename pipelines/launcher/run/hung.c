#include "pipelines/launcher/run/hung.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/edges/message.h"
#include "common/edges/transport.h"
#include "common/memory.h"

enum { HELLOS_HELD = 4 };

struct hung {
    const struct plan *plan;
    struct transport *transport;
    struct transport_socket **acks; /* one for each edge; NULL until it is needed */
    char token[MESSAGE_TOKEN_SIZE];
};

enum status hung_create(const struct plan *plan, const char *public_key, const char *secret_key, struct hung **ret_hung,
                        struct err *err) {
    struct hung *hung = calloc(1, sizeof *hung);
    FAIL_IF(hung == NULL, err, STATUS_NO_MEMORY, "no memory for the edges");
    hung->plan = plan;
    snprintf(hung->token, sizeof hung->token, "launcher-%d", (int)getpid());
    enum status status = mem_new(plan->edge_count + 1, sizeof(struct transport_socket *), "edges", &hung->acks, err);
    if (status == STATUS_OK) status = transport_create(public_key, secret_key, &hung->transport, err);
    if (status != STATUS_OK) {
        hung_destroy(&hung);
        return status;
    }
    *ret_hung = hung;
    return STATUS_OK;
}

void hung_destroy(struct hung **hung) {
    if (*hung == NULL) return;
    transport_destroy(&(*hung)->transport);
    mem_free(&(*hung)->acks);
    mem_free(hung);
}

static enum status say_hello(struct hung *hung, size_t edge, int replica, struct err *err) {
    const struct plan_edge *planned = &hung->plan->edges[edge];
    struct message hello = {.kind = MESSAGE_HELLO, .instance = replica};
    snprintf(hello.edge, sizeof hello.edge, "%s", planned->name);
    memcpy(hello.token, hung->token, sizeof hello.token);
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(message_encode(&hello, NULL, &text, &length, err));
    if (hung->acks[edge] == NULL)
        TRY(transport_open(hung->transport, TRANSPORT_ACK_OUT, planned->ack, HELLOS_HELD, &hung->acks[edge], err));
    TRY(transport_move(hung->transport, hung->acks[edge], planned->ack, NULL, err));
    /* A hello that the socket does not take is sent again a moment later. */
    bool sent;
    return transport_send(hung->acks[edge], text, length, &sent, err);
}

enum status hung_release(const struct session *session, const char *stage, int replica, struct err *err) {
    struct ledger *ledger = NULL;
    TRY(session_ledger(session, stage, false, &ledger, err));
    if (ledger == NULL) return STATUS_OK;
    enum status status = ledger_release_instance(ledger, replica, err);
    ledger_close(&ledger);
    return status;
}

enum status hung_let_go(struct hung *hung, const struct session *session, size_t instance, struct err *err) {
    const struct plan_instance *silent = &hung->plan->instances[instance];
    const struct graph_stage *stage = &hung->plan->graph->stages[silent->stage];
    TRY(hung_release(session, stage->section.name, silent->replica, err));
    if (stage->cumulative) TRY(session_void_lease(session, stage->section.name, err));
    for (size_t i = 0; i < hung->plan->edge_count; i++)
        if (hung->plan->edges[i].to == silent->stage) TRY(say_hello(hung, i, silent->replica, err));
    return STATUS_OK;
}

bool hung_is_stopped(pid_t pid) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    /* "PID (NAME) STATE …"; the name may hold anything. */
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && (strncmp(name_end, ") T", 3) == 0 || strncmp(name_end, ") t", 3) == 0);
}

void hung_tend(struct hung *hung) {
    int count = 0;
    /* On an error the next hello tries again. */
    transport_mend(hung->transport, &count, NULL);
}
