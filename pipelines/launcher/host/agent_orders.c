/* Carries out what the launcher orders. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "pipelines/launcher/host/agent_private.h"

enum status agent_endpoints_path(const struct agent *agent, char path[PATH_SIZE], struct err *err) {
    return path_join(agent->folder, "endpoints.json", path, PATH_SIZE, err);
}

enum status agent_write_file(const char *path, const char *text, struct err *err) {
    char other[PATH_SIZE + 8];
    snprintf(other, sizeof other, "%s.new", path);
    int descriptor = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FAIL_IF(descriptor < 0, err, status_of_writing(errno), "%s: %s", other, status_reason(errno));
    bool whole = write(descriptor, text, strlen(text)) == (ssize_t)strlen(text);
    int reason = errno;
    whole = close(descriptor) == 0 && whole && rename(other, path) == 0;
    if (!whole) unlink(other);
    FAIL_IF(!whole, err, status_of_writing(reason), "%s cannot be written", path);
    return STATUS_OK;
}

/* A child that has ended meanwhile gets no signal. */
static void pass_signal(const struct agent *agent, const json_t *order) {
    const struct agent_child *child = agent_find(agent, (int)host_number(order, "start"));
    if (child == NULL || child->ended) return;
    kill(host_flag(order, "group") ? -child->pid : child->pid, (int)host_number(order, "signal"));
}

static void replace(json_t **value, json_t *by) {
    json_decref(*value);
    *value = json_incref(by);
}

static enum status write_endpoints(const struct agent *agent, const char *record, struct err *err) {
    char path[PATH_SIZE];
    TRY(agent_endpoints_path(agent, path, err));
    return agent_write_file(path, record, err);
}

/* Writes what the launcher has sent anew. */
static enum status write_sent(struct agent *agent, struct err *err) {
    if (agent->record != NULL) TRY(write_endpoints(agent, json_string_value(agent->record), err));
    replace(&agent->record, NULL);
    for (size_t i = 0; i < agent->count; i++) {
        struct agent_child *child = agent->children[i];
        if (child->renewed != NULL && !child->ended) TRY(agent_write_orders(agent, child, child->renewed, err));
        replace(&child->renewed, NULL);
    }
    return STATUS_OK;
}

/* Writes instance files and the record of endpoints. A file that cannot be written is tried again later: the orders
 * behind it, such as signals, must not wait for a disk. */
static void write_now(struct agent *agent) {
    struct err err = {0};
    bool written = write_sent(agent, &err) == STATUS_OK;
    if (!written && !agent->unwritten) fprintf(stderr, "icestream: %s; trying again until it works\n", err.message);
    agent->unwritten = !written;
    agent->write_at = clock_monotonic() + 1;
}

void agent_write_late(struct agent *agent) {
    if (agent->unwritten && clock_monotonic() >= agent->write_at) write_now(agent);
}

static void take_orders(struct agent *agent, const json_t *order) {
    struct agent_child *child = agent_find(agent, (int)host_number(order, "start"));
    if (child == NULL || child->ended) return;
    replace(&child->renewed, json_object_get(order, "orders"));
    write_now(agent);
}

static void take_endpoints(struct agent *agent, const json_t *order) {
    replace(&agent->record, json_object_get(order, "record"));
    write_now(agent);
}

static enum status carry_out(struct agent *agent, const json_t *order, struct err *err) {
    const char *what = host_text(order, "what");
    if (strcmp(what, "start") == 0) return agent_start(agent, order, err);
    if (strcmp(what, "orders") == 0) take_orders(agent, order);
    if (strcmp(what, "endpoints") == 0) take_endpoints(agent, order);
    if (strcmp(what, "signal") == 0) pass_signal(agent, order);
    if (strcmp(what, "forget") == 0) agent_forget(agent, (int)host_number(order, "start"));
    if (strcmp(what, "end") == 0) agent->over = true;
    return STATUS_OK;
}

/* Orders come in order, and again until they are heard. One that cannot be carried out now is not heard, so that it
 * comes again. */
static void take_order(struct agent *agent, const json_t *order) {
    struct err err = {0};
    agent->changed = true;
    if (host_number(order, "number") != agent->heard + 1) return;
    if (carry_out(agent, order, &err) == STATUS_OK)
        agent->heard++;
    else
        fprintf(stderr, "icestream: %s\n", err.message);
}

/* The launcher does not know this host any more: what runs here would only disturb. */
static void begin_anew(struct agent *agent) {
    agent_kill_all(agent);
    agent->member[0] = '\0';
    agent->heard = 0;
    agent->told_at = 0;
    if (agent->leaving) agent->over = true;
}

static void take_welcome(struct agent *agent, const json_t *message) {
    if (strcmp(agent->member, host_text(message, "member")) == 0) return;
    if (agent->member[0] != '\0') begin_anew(agent);
    snprintf(agent->member, sizeof agent->member, "%s", host_text(message, "member"));
    agent->heard = 0;
    agent->changed = true;
    printf("the session's launcher has welcomed this host as %s\n", agent->options->name);
    fflush(stdout);
}

void agent_take(struct agent *agent, const void *bytes, size_t length) {
    struct host_message message = {0};
    if (host_message_decode(bytes, length, &message, NULL) != STATUS_OK) return;
    bool ours = strcmp(host_text(message.root, "member"), agent->member) == 0 && agent->member[0] != '\0';
    agent->heard_at = clock_monotonic();
    agent->told_alone = false;
    if (message.kind == HOST_WELCOME) take_welcome(agent, message.root);
    if (message.kind == HOST_ORDER && ours) take_order(agent, message.root);
    if (message.kind == HOST_VOID && ours) begin_anew(agent);
    if (message.kind == HOST_REFUSED) {
        fprintf(stderr, "icestream: the session does not take this host: %s\n", host_text(message.root, "reason"));
        agent->refused = true;
    }
    host_message_clear(&message);
}
