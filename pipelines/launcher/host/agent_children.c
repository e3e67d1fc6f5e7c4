/* The processes of a host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipelines/launcher/host/agent_private.h"
#include "pipelines/launcher/program.h"
#include "pipelines/launcher/run/environment.h"
#include "pipelines/launcher/run/supervisor.h"

struct agent_child *agent_find(const struct agent *agent, int start) {
    for (size_t i = 0; i < agent->count; i++)
        if (agent->children[i]->start == start) return agent->children[i];
    return NULL;
}

static void free_child(struct agent_child *child) {
    for (char **pair = child->env; pair != NULL && *pair != NULL; pair++)
        free(*pair);
    free(child->env);
    json_decref(child->renewed);
    unlink(child->orders);
    unlink(child->heartbeat);
    unlink(child->current);
    char other[PATH_SIZE + 8];
    snprintf(other, sizeof other, "%s.tmp", child->heartbeat);
    unlink(other);
    free(child);
}

static enum status own_file(const struct agent *agent, const char *name, int start, const char *ending,
                            char path[PATH_SIZE], struct err *err) {
    int length = snprintf(path, PATH_SIZE, "%s/%s.%d%s", agent->folder, name, start, ending);
    FAIL_IF(length < 0 || length >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "%s: too long a path", agent->folder);
    return STATUS_OK;
}

/* A stage of icestream may lie elsewhere on this host: then it is the one beside this program. */
static enum status find_program(struct agent_child *child, const char *program, struct err *err) {
    char folder[PATH_SIZE];
    if (access(program, X_OK) == 0 || strncmp(path_name(program), "icestream-", 10) != 0) {
        snprintf(child->program, sizeof child->program, "%s", program);
        return STATUS_OK;
    }
    TRY(program_own_folder(folder, sizeof folder, err));
    return path_join(folder, path_name(program), child->program, sizeof child->program, err);
}

static enum status take_environment(struct agent_child *child, const json_t *order, struct err *err) {
    const json_t *list = json_object_get(order, "env"), *gpus = json_object_get(order, "gpus");
    size_t count = 0, i;
    json_t *entry;
    char names[512] = "";
    child->env = calloc(json_array_size(list) + 2, sizeof *child->env);
    FAIL_IF(child->env == NULL, err, STATUS_NO_MEMORY, "no memory for the environment of %s", child->name);
    json_array_foreach(list, i, entry) {
        child->env[count] = strdup(json_string_value(entry));
        FAIL_IF(child->env[count++] == NULL, err, STATUS_NO_MEMORY, "no memory for the environment of %s", child->name);
    }
    json_array_foreach(gpus, i, entry) environment_add_gpu(names, sizeof names, (int)json_integer_value(entry));
    const char *device = host_text(json_object_get(order, "orders"), "device");
    if (names[0] == '\0' && strcmp(device, "cpu") != 0) return STATUS_OK; /* it sees all GPUs */
    FAIL_IF(asprintf(&child->env[count], "CUDA_VISIBLE_DEVICES=%s", names) < 0, err, STATUS_NO_MEMORY,
            "no memory for the environment of %s", child->name);
    return STATUS_OK;
}

static enum status take_order(const struct agent *agent, struct agent_child *child, const json_t *order,
                              struct err *err) {
    child->start = (int)host_number(order, "start");
    child->writes = true;
    snprintf(child->name, sizeof child->name, "%s", host_text(order, "name"));
    snprintf(child->log, sizeof child->log, "%s", host_text(order, "log"));
    FAIL_IF(child->name[0] == '\0' || strchr(child->name, '/') != NULL, err, STATUS_BAD_FORMAT,
            "no name of an instance");
    TRY(own_file(agent, child->name, child->start, ".instance.json", child->orders, err));
    TRY(own_file(agent, child->name, child->start, ".heartbeat.json", child->heartbeat, err));
    TRY(own_file(agent, child->name, child->start, ".current", child->current, err));
    TRY(find_program(child, host_text(order, "program"), err));
    return take_environment(child, order, err);
}

/* Opens the sockets of the edges that leave a process, so that they outlive it. */
static enum status open_listeners(struct agent *agent, const json_t *order, struct err *err) {
    size_t i;
    json_t *output;
    json_array_foreach(json_object_get(json_object_get(order, "orders"), "outputs"), i, output) {
        const struct listener *listener = NULL;
        TRY(listeners_open(agent->listeners, host_text(output, "edge"), host_flag(order, "takes_descriptors"),
                           &listener, err));
    }
    return STATUS_OK;
}

enum status agent_write_orders(const struct agent *agent, const struct agent_child *child, const json_t *orders,
                               struct err *err) {
    char endpoints[PATH_SIZE];
    TRY(agent_endpoints_path(agent, endpoints, err));
    json_t *own = json_deep_copy(orders);
    FAIL_IF(own == NULL, err, STATUS_NO_MEMORY, "no memory for the orders of %s", child->name);
    json_object_set_new(own, "heartbeat", json_string(child->heartbeat));
    json_object_set_new(own, "current", json_string(child->current));
    if (json_is_string(json_object_get(own, "endpoints")))
        json_object_set_new(own, "endpoints", json_string(endpoints));
    enum status status = listeners_fill(agent->listeners, own, err);
    char *text = status == STATUS_OK ? json_dumps(own, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(own);
    TRY(status);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the orders of %s", child->name);
    status = agent_write_file(child->orders, text, err);
    explicit_bzero(text, strlen(text));
    free(text);
    return status;
}

static enum status fork_child(struct agent *agent, struct agent_child *child, struct err *err) {
    char word[] = "--instance";
    char *argv[AGENT_WORDS] = {child->program, word, child->orders, NULL};
    const struct supervisor_child spec = {.name = child->name,
                                          .argv = argv,
                                          .env = child->env,
                                          .log = child->log,
                                          .heartbeat = child->heartbeat,
                                          .listeners = agent->listeners};
    return place_local_start(&spec, &agent->old_mask, &child->pid, err);
}

static enum status add(struct agent *agent, struct agent_child *child, struct err *err) {
    struct agent_child **children = realloc(agent->children, (agent->count + 1) * sizeof *children);
    FAIL_IF(children == NULL, err, STATUS_NO_MEMORY, "no memory for a process");
    agent->children = children;
    children[agent->count++] = child;
    return STATUS_OK;
}

enum status agent_start(struct agent *agent, const json_t *order, struct err *err) {
    struct err own = {0};
    struct agent_child *child = calloc(1, sizeof *child);
    FAIL_IF(child == NULL, err, STATUS_NO_MEMORY, "no memory for a process");
    enum status status = add(agent, child, err);
    if (status != STATUS_OK) {
        free(child);
        return status;
    }
    status = take_order(agent, child, order, &own);
    if (status == STATUS_OK) status = open_listeners(agent, order, &own);
    if (status == STATUS_OK) status = agent_write_orders(agent, child, json_object_get(order, "orders"), &own);
    if (status == STATUS_OK) status = fork_child(agent, child, &own);
    if (status == STATUS_OK) return STATUS_OK;
    /* The launcher tries again later, as after any lack. */
    child->ended = true;
    child->wait_status = W_EXITCODE(EXIT_UNAVAILABLE, 0);
    snprintf(child->error, sizeof child->error, ": on the host %s: %.400s", agent->options->name, own.message);
    return STATUS_OK;
}

static void look_for_end(struct agent *agent, struct agent_child *child) {
    if (child->ended || waitpid(child->pid, &child->wait_status, WNOHANG) <= 0) return;
    kill(-child->pid, SIGKILL); /* its own children end with it */
    child->ended = true;
    child->wait_status &= 0xffff;
    place_last_error(child->log, child->error, sizeof child->error);
    agent->changed = true;
}

static void look_for_beat(struct agent_child *child) {
    struct stat info;
    if (child->ended || stat(child->heartbeat, &info) != 0) return;
    if (child->beats > 0 && info.st_mtim.tv_sec == child->beat.tv_sec && info.st_mtim.tv_nsec == child->beat.tv_nsec)
        return;
    child->beat = info.st_mtim;
    child->beats++;
}

/* A heartbeat that is late may be one that cannot be written. */
static void look_for_room(struct agent_child *child) {
    struct timespec now;
    if (child->ended || child->beats == 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return;
    if (now.tv_sec - child->beat.tv_sec < 5) {
        child->writes = true;
        return;
    }
    child->writes = place_takes_writes(child->heartbeat);
}

void agent_look(struct agent *agent) {
    for (size_t i = 0; i < agent->count; i++) {
        look_for_beat(agent->children[i]);
        look_for_room(agent->children[i]);
        look_for_end(agent, agent->children[i]);
    }
}

void agent_signal_all(const struct agent *agent, int signal) {
    for (size_t i = 0; i < agent->count; i++)
        if (!agent->children[i]->ended) kill(-agent->children[i]->pid, signal);
}

void agent_forget(struct agent *agent, int start) {
    for (size_t i = 0; i < agent->count; i++) {
        struct agent_child *child = agent->children[i];
        if (child->start != start || !child->ended) continue;
        free_child(child);
        agent->children[i] = agent->children[--agent->count];
        return;
    }
}

void agent_kill_all(struct agent *agent) {
    char record[PATH_SIZE];
    agent_signal_all(agent, SIGKILL);
    for (size_t i = 0; i < agent->count; i++) {
        struct agent_child *child = agent->children[i];
        while (!child->ended && waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        free_child(child);
    }
    agent->count = 0;
    /* Another run counts its changes from the beginning, and would be taken for an older one. */
    if (agent_endpoints_path(agent, record, NULL) == STATUS_OK) (void)unlink(record);
}
