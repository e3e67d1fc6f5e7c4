/* Tells the launcher that this host is here, and how its processes are. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/host/agent_private.h"

enum { BEAT_MAX = 1 << 16 };

/* Sends a message; what cannot be sent is said again by the next one. content: the reference is taken. */
static bool tell(struct agent *agent, enum host_kind kind, json_t *content) {
    char *text = NULL;
    size_t length = 0;
    bool sent = false;
    if (host_message_encode(kind, content, &text, &length, NULL) != STATUS_OK) return false;
    (void)!control_send(agent->control, NULL, text, length, &sent, NULL);
    free(text);
    return sent;
}

void agent_tell_join(struct agent *agent) {
    const struct agent_options *options = agent->options;
    agent->told_at = clock_monotonic();
    tell(agent, HOST_JOIN,
         json_pack("{s:s, s:s, s:s, s:i, s:i}", "name", options->name, "revision", options->revision, "address",
                   agent->address, "cores", options->cores, "gpus", options->gpus));
}

static json_t *heartbeat_of(const struct agent_child *child) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    if (file_read_whole(child->heartbeat, BEAT_MAX, &text, &length, NULL) != STATUS_OK) return NULL;
    return json_string(text); /* NULL for bytes that are not UTF-8 */
}

/* Adds the items that were in process when a child ended (common/harness/instance.c has the form of the file). */
static void add_items(json_t *object, const struct agent_child *child) {
    static const char *const keys[] = {"item", "item_of_signal"};
    char text[PATH_SIZE], byte = 0;
    int descriptor = open(child->current, O_RDONLY | O_CLOEXEC);
    for (int i = 0; descriptor >= 0 && i < 2; i++) {
        ssize_t length = pread(descriptor, text, sizeof text - 1, i * (off_t)PATH_SIZE);
        text[length > 0 ? length : 0] = '\0';
        json_t *value = json_string(text);
        if (value != NULL) json_object_set_new(object, keys[i], value);
    }
    bool at_work = descriptor >= 0 && pread(descriptor, &byte, 1, 2 * (off_t)PATH_SIZE - 1) == 1 && byte != 0;
    json_object_set_new(object, "own_work", json_boolean(at_work));
    if (descriptor >= 0) close(descriptor);
}

static json_t *process_json(const struct agent_child *child) {
    json_t *error = json_string(child->error);
    json_t *object = json_pack("{s:i, s:i, s:b, s:i, s:I, s:b}", "start", child->start, "pid", (int)child->pid, "ended",
                               (int)child->ended, "wait_status", child->wait_status, "beats", (json_int_t)child->beats,
                               "writes", (int)child->writes);
    json_object_set_new(object, "error", error != NULL ? error : json_string(""));
    if (child->ended) add_items(object, child);
    json_t *beat = child->beats > child->beats_told ? heartbeat_of(child) : NULL;
    if (beat != NULL) json_object_set_new(object, "beat", beat);
    return object;
}

/* Lists where the edges of a process listen. Names of edges begin with that of their process. */
static void add_listeners(const struct agent *agent, const struct agent_child *child, json_t *list) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length, i;
    json_t *output;
    if (child->ended || file_read_whole(child->orders, 4 << 20, &text, &length, NULL) != STATUS_OK) return;
    json_t *orders = json_loadb(text, length, 0, NULL);
    json_array_foreach(json_object_get(orders, "outputs"), i, output) {
        const struct listener *listener = listeners_find(agent->listeners, host_text(output, "edge"));
        if (listener == NULL) continue;
        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s}", "start", child->start, "edge", listener->edge,
                                              "data", listener->data, "ack", listener->ack));
    }
    json_decref(orders);
}

void agent_tell_state(struct agent *agent) {
    json_t *processes = json_array(), *listeners = json_array();
    for (size_t i = 0; i < agent->count; i++) {
        json_array_append_new(processes, process_json(agent->children[i]));
        add_listeners(agent, agent->children[i], listeners);
    }
    agent->told_at = clock_monotonic();
    bool sent = tell(agent, HOST_STATE,
                     json_pack("{s:s, s:I, s:b, s:o, s:o}", "member", agent->member, "heard", (json_int_t)agent->heard,
                               "leaving", (int)agent->leaving, "processes", processes, "listeners", listeners));
    for (size_t i = 0; sent && i < agent->count; i++)
        agent->children[i]->beats_told = agent->children[i]->beats;
    agent->changed = agent->changed && !sent;
}
