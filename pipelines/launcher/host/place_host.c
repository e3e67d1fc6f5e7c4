/* A host that has joined the session, as a place where processes start. The supervisor knows such a process by the number
 * of its start instead of its process id. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/memory.h"
#include "pipelines/launcher/host/hosts_private.h"

enum { ORDERS_MAX = 4 << 20 };

static enum status read_orders(const char *path, json_t **ret_orders, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(file_read_whole(path, ORDERS_MAX, &text, &length, err));
    *ret_orders = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    FAIL_IF(!json_is_object(*ret_orders), err, STATUS_BAD_FORMAT, "%s: no orders of an instance", path);
    return STATUS_OK;
}

/* The host names its GPUs itself. */
static json_t *environment(const struct supervisor_child *spec) {
    json_t *list = json_array();
    for (char *const *pair = spec->env; pair != NULL && *pair != NULL; pair++)
        if (strncmp(*pair, "CUDA_VISIBLE_DEVICES=", 21) != 0) json_array_append_new(list, json_string(*pair));
    return list;
}

static json_t *gpu_list(const struct host_preparation *preparation) {
    json_t *list = json_array();
    for (size_t i = 0; i < preparation->gpu_count; i++)
        json_array_append_new(list, json_integer(preparation->gpus[i]));
    return list;
}

static enum status note_paths(struct remote *remote, const json_t *orders, struct err *err) {
    const char *heartbeat = host_text(orders, "heartbeat"), *current = host_text(orders, "current");
    FAIL_IF(heartbeat[0] != '/' || current[0] != '/' || strlen(heartbeat) >= PATH_SIZE || strlen(current) >= PATH_SIZE,
            err, STATUS_BAD_FORMAT, "orders of an instance without its files");
    snprintf(remote->heartbeat, sizeof remote->heartbeat, "%s", heartbeat);
    snprintf(remote->current, sizeof remote->current, "%s", current);
    return STATUS_OK;
}

static enum status start(void *context, size_t child, const struct supervisor_child *spec, pid_t *ret_pid,
                         struct err *err) {
    struct host *host = context;
    struct hosts *hosts = host->hosts;
    const struct host_preparation *preparation = &hosts->preparations[child];
    struct remote remote = {.start = hosts->starts + 1, .writes = true};
    json_t *orders = NULL;
    if (!host->there) return err_set(err, STATUS_UNAVAILABLE, __FILE__, __LINE__, "the host %s has left", host->name);
    /* The session's files may be away for a while. */
    enum status status = read_orders(spec->argv[2], &orders, err);
    if (status != STATUS_OK)
        return err_context(err, status == STATUS_NO_MEMORY ? status : STATUS_UNAVAILABLE, "%s", spec->name);
    status = note_paths(&remote, orders, err);
    if (status != STATUS_OK) {
        json_decref(orders);
        return status;
    }
    /* The heartbeat of an earlier process would be taken for this one's. */
    unlink(remote.heartbeat);
    json_t *content =
        json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:b}", "start", remote.start, "name", spec->name, "program",
                  spec->argv[0], "log", spec->log, "env", environment(spec), "orders", orders, "gpus",
                  gpu_list(preparation), "takes_descriptors", (int)preparation->takes_descriptors);
    FAIL_IF(content == NULL, err, STATUS_NO_MEMORY, "no memory for the orders of %s", spec->name);
    TRY(hosts_order(host, "start", content, err));
    hosts->starts++;
    host->remotes[child] = remote;
    *ret_pid = remote.start;
    return STATUS_OK;
}

static void send_signal(void *context, size_t child, pid_t pid, int signal, bool group) {
    struct host *host = context;
    const struct remote *remote = &host->remotes[child];
    if (remote->start != pid || remote->ended || remote->lost) return;
    (void)!hosts_order(host, "signal",
                       json_pack("{s:i, s:i, s:b}", "start", (int)pid, "signal", signal, "group", (int)group), NULL);
}

/* Whoever ends because the host leaves goes on elsewhere, unless it had done all. */
static bool has_left(const struct host *host, int wait_status) {
    bool well = WIFEXITED(wait_status) && (WEXITSTATUS(wait_status) == 0 || WEXITSTATUS(wait_status) == 3);
    return host->leaving && !well;
}

static enum place_news reap(void *context, size_t child, pid_t pid, int *ret_wait_status) {
    struct host *host = context;
    struct remote *remote = &host->remotes[child];
    enum place_news news = PLACE_RUNS;
    if (remote->start != pid || remote->lost)
        news = PLACE_LOST;
    else if (remote->ended)
        news = has_left(host, remote->wait_status) ? PLACE_LOST : PLACE_ENDED;
    if (news == PLACE_RUNS) return news;
    if (news == PLACE_ENDED) *ret_wait_status = remote->wait_status;
    if (remote->start == pid && !remote->lost)
        (void)!hosts_order(host, "forget", json_pack("{s:i}", "start", (int)pid), NULL);
    if (remote->start == pid) remote->start = 0;
    return news;
}

static bool beat(void *context, size_t child, const struct supervisor_child *spec, struct timespec *ret_beat) {
    const struct remote *remote = &((struct host *)context)->remotes[child];
    (void)spec;
    *ret_beat = (struct timespec){.tv_sec = remote->beats};
    return remote->beats > 0;
}

static void last_error(void *context, size_t child, const struct supervisor_child *spec, char *text, size_t size) {
    (void)spec;
    snprintf(text, size, "%s", ((struct host *)context)->remotes[child].error);
}

static bool takes_writes(void *context, size_t child, const struct supervisor_child *spec) {
    (void)spec;
    return ((struct host *)context)->remotes[child].writes;
}

/* The end of the session kills what is left, and the next launcher would void it. */
static void bury(void *context, size_t child, pid_t pid) {
    (void)context;
    (void)child;
    (void)pid;
}

const struct place_operations hosts_place_operations = {.start = start,
                                                        .signal = send_signal,
                                                        .reap = reap,
                                                        .beat = beat,
                                                        .last_error = last_error,
                                                        .takes_writes = takes_writes,
                                                        .bury = bury};

void hosts_prepare(struct hosts *hosts, size_t child, const int *gpus, size_t gpu_count, bool takes_descriptors) {
    hosts->preparations[child] = (struct host_preparation){gpus, gpu_count, takes_descriptors};
}

enum status hosts_pass_orders(struct hosts *hosts, size_t child, const char *path, struct err *err) {
    for (size_t i = 0; i < hosts->count; i++) {
        struct host *host = hosts->list[i];
        const struct remote *remote = &host->remotes[child];
        json_t *orders = NULL;
        if (remote->start == 0 || remote->lost || remote->ended) continue;
        TRY(read_orders(path, &orders, err));
        json_t *content = json_pack("{s:i, s:o}", "start", remote->start, "orders", orders);
        FAIL_IF(content == NULL, err, STATUS_NO_MEMORY, "no memory for the orders of an instance");
        TRY(hosts_order(host, "orders", content, err));
    }
    return STATUS_OK;
}
