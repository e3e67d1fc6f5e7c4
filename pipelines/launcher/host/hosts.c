#include "pipelines/launcher/host/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/host/hosts_private.h"

/* s: a launcher that has not looked for that long was held up itself; between looks at launcher.json; of silence after
 * which another host of the name may take a host's place. */
static const double HELD_UP = 1, FILE_PAUSE = 2, ALIVE = 3;
enum { AT_ONCE = 1000 };

static void warn(const struct hosts *hosts, const char *id, const char *text) {
    if (hosts->settings.say != NULL) hosts->settings.say(hosts->settings.context, id, text);
}

static void say(const struct hosts *hosts, const char *text) {
    warn(hosts, NULL, text);
}

static void tell_changed(const struct hosts *hosts) {
    if (hosts->settings.changed != NULL) hosts->settings.changed(hosts->settings.context);
}

static enum status begin(struct hosts *hosts, struct err *err) {
    const struct hosts_settings *settings = &hosts->settings;
    int length = snprintf(hosts->path, sizeof hosts->path, "%s/hosts/launcher.json", settings->session);
    FAIL_IF(length >= (int)sizeof hosts->path, err, STATUS_BAD_ARGUMENT, "%s: too long a path", settings->session);
    TRY(mem_new(settings->children + 1, sizeof *hosts->preparations, "the hosts", &hosts->preparations, err));
    TRY(control_listen(settings->address, settings->port, settings->public_key, settings->secret_key, &hosts->control,
                       &hosts->port, err));
    return hosts_write_launcher(hosts, err);
}

enum status hosts_create(const struct hosts_settings *settings, struct hosts **ret_hosts, struct err *err) {
    struct hosts *hosts = NULL;
    TRY(mem_new(1, sizeof *hosts, "the hosts", &hosts, err));
    hosts->settings = *settings;
    hosts->tended_at = hosts->file_at = clock_monotonic();
    enum status status = begin(hosts, err);
    if (status != STATUS_OK) {
        control_close(&hosts->control);
        free(hosts->text);
        mem_free(&hosts->preparations);
        mem_free(&hosts);
        return status;
    }
    *ret_hosts = hosts;
    return STATUS_OK;
}

void hosts_destroy(struct hosts **hosts) {
    if (*hosts == NULL) return;
    bool ours = !hosts_are_anothers(*hosts);
    for (size_t i = 0; i < (*hosts)->count; i++) {
        struct host *host = (*hosts)->list[i];
        if (ours && (host->there || host->leaving)) (void)!hosts_order(host, "end", NULL, NULL);
        hosts_orders_clear(host);
        free(host->remotes);
        free(host);
    }
    if (ours) unlink((*hosts)->path);
    if ((*hosts)->text != NULL) explicit_bzero((*hosts)->text, strlen((*hosts)->text));
    free((*hosts)->text);
    control_close(&(*hosts)->control);
    free((*hosts)->list);
    free((*hosts)->endpoints);
    mem_free(&(*hosts)->preparations);
    mem_free(hosts);
}

/* ---- Who is there ---- */

static struct host *find(const struct hosts *hosts, const char *name) {
    for (size_t i = 0; i < hosts->count; i++)
        if (strcmp(hosts->list[i]->name, name) == 0) return hosts->list[i];
    return NULL;
}

static struct host *find_member(const struct hosts *hosts, const char *member) {
    for (size_t i = 0; i < hosts->count; i++) {
        const struct host *host = hosts->list[i];
        if ((host->there || host->leaving) && strcmp(host->member, member) == 0) return hosts->list[i];
    }
    return NULL;
}

static struct host *add(struct hosts *hosts, const char *name) {
    struct host **list = realloc(hosts->list, (hosts->count + 1) * sizeof *list);
    if (list == NULL) return NULL;
    hosts->list = list;
    struct host *host = calloc(1, sizeof *host);
    struct remote *remotes = calloc(hosts->settings.children + 1, sizeof *remotes);
    if (host == NULL || remotes == NULL) {
        free(host);
        free(remotes);
        return NULL;
    }
    host->hosts = hosts;
    host->remotes = remotes;
    host->place = (struct process_place){&hosts_place_operations, host};
    snprintf(host->name, sizeof host->name, "%s", name);
    list[hosts->count++] = host;
    return host;
}

/* Gives a host up: whatever ran there does not count from now on. */
static void lose(struct host *host, const char *why) {
    char text[HOST_NAME_SIZE + 160];
    struct hosts *hosts = host->hosts;
    size_t running = 0;
    for (size_t i = 0; i < hosts->settings.children; i++) {
        running += host->remotes[i].start > 0;
        if (host->remotes[i].start > 0) hosts_write_end(&host->remotes[i]);
        host->remotes[i].lost = host->remotes[i].start > 0;
    }
    bool warns = running > 0 && !host->leaving;
    host->there = host->leaving = false;
    hosts_orders_clear(host);
    snprintf(text, sizeof text, "the host %s %s%s", host->name, why,
             running > 0 ? "; what ran there goes on elsewhere" : "");
    if (warns)
        warn(hosts, "host-lost", text);
    else
        say(hosts, text);
    tell_changed(hosts);
}

static void refuse(struct hosts *hosts, const char *peer, const char *reason) {
    hosts_send(hosts, peer, HOST_REFUSED, json_pack("{s:s}", "reason", reason));
}

/* Returns whether the host of a name has to make room for another peer of this name: it may be dead. One that goes on
 * speaking while the other asks is not, and the other is refused. */
static bool makes_room(struct host *known, const char *peer) {
    double now = clock_monotonic();
    if (!(known->there || known->leaving) || strcmp(known->peer, peer) == 0 || now - known->heard_at > ALIVE)
        return true;
    if (strcmp(known->rival, peer) != 0) {
        snprintf(known->rival, sizeof known->rival, "%s", peer);
        known->rival_at = now;
    } else if (now - known->rival_at > 2 * ALIVE) {
        refuse(known->hosts, peer,
               "a host of this name is there already; give this one another by `icestream host --name`");
    }
    return false;
}

/* Returns whether a host may join; else answers it. */
static bool may_join(struct hosts *hosts, const char *peer, const json_t *join) {
    char reason[2 * HOST_REVISION_SIZE + 160], text[HOST_NAME_SIZE + sizeof reason + 32];
    struct host *known = find(hosts, host_text(join, "name"));
    if (strcmp(host_text(join, "revision"), hosts->settings.revision) != 0) {
        snprintf(reason, sizeof reason, "this host has icestream %s, and the launcher of the session has %s",
                 host_text(join, "revision"), hosts->settings.revision);
        refuse(hosts, peer, reason);
        snprintf(text, sizeof text, "the host %s was refused: %s", host_text(join, "name"), reason);
        warn(hosts, "host-refused", text);
        return false;
    }
    if (host_text(join, "name")[0] == '\0') return false;
    return known == NULL || makes_room(known, peer);
}

static void send_welcome(const struct host *host) {
    hosts_send(host->hosts, host->peer, HOST_WELCOME, json_pack("{s:s}", "member", host->member));
}

static void welcome(struct host *host) {
    struct hosts *hosts = host->hosts;
    send_welcome(host);
    if (hosts->endpoints == NULL) return;
    json_t *record = json_string(hosts->endpoints);
    (void)!hosts_order(host, "endpoints", json_pack("{s:o}", "record", record), NULL);
}

static void take_join(struct hosts *hosts, const char *peer, const json_t *join) {
    char text[HOST_NAME_SIZE + 160];
    if (!may_join(hosts, peer, join)) return;
    struct host *host = find(hosts, host_text(join, "name"));
    if (host == NULL) host = add(hosts, host_text(join, "name"));
    if (host == NULL) return; /* no memory: it asks again */
    /* Whoever has not heard the welcome yet asks again. */
    if (host->there && !host->answered && strcmp(host->peer, peer) == 0) {
        send_welcome(host);
        return;
    }
    if (host->there || host->leaving) lose(host, "has begun anew");
    snprintf(host->peer, sizeof host->peer, "%s", peer);
    snprintf(host->address, sizeof host->address, "%s", host_text(join, "address"));
    snprintf(host->member, sizeof host->member, "%d.%d", hosts->settings.run, ++hosts->members);
    host->cores = (int)host_number(join, "cores");
    host->gpus = (int)host_number(join, "gpus");
    host->there = true;
    host->answered = false;
    host->heard_at = clock_monotonic();
    host->beat_at = 0;
    welcome(host);
    snprintf(text, sizeof text, "the host %s has joined: %d cores, %d GPUs", host->name, host->cores, host->gpus);
    say(hosts, text);
    tell_changed(hosts);
}

/* ---- What they say ---- */

static size_t find_start(const struct host *host, int start) {
    size_t i = 0;
    while (i < host->hosts->settings.children && (host->remotes[i].start != start || host->remotes[i].lost))
        i++;
    return i;
}

static void take_process(struct host *host, const json_t *process) {
    int start = (int)host_number(process, "start");
    size_t child = start > 0 ? find_start(host, start) : host->hosts->settings.children;
    if (child == host->hosts->settings.children) return; /* forgotten already */
    struct remote *remote = &host->remotes[child];
    remote->writes = host_flag(process, "writes");
    if (host_number(process, "beats") > remote->beats && host_text(process, "beat")[0] != '\0') {
        remote->beats = host_number(process, "beats");
        hosts_write_beat(host, remote, host_text(process, "beat"));
    }
    if (!host_flag(process, "ended") || remote->ended) return;
    hosts_write_current(remote, process);
    hosts_write_end(remote);
    remote->wait_status = (int)host_number(process, "wait_status");
    snprintf(remote->error, sizeof remote->error, "%s", host_text(process, "error"));
    remote->ended = true;
}

static void take_listener(const struct host *host, const json_t *listener) {
    const struct hosts_settings *settings = &host->hosts->settings;
    int start = (int)host_number(listener, "start");
    size_t child = start > 0 ? find_start(host, start) : settings->children;
    if (child == settings->children || settings->listens == NULL) return;
    settings->listens(settings->context, child, host_text(listener, "edge"), host_text(listener, "data"),
                      host_text(listener, "ack"));
}

static bool is_empty(const struct host *host) {
    for (size_t i = 0; i < host->hosts->settings.children; i++)
        if (host->remotes[i].start > 0) return false;
    return true;
}

static void take_state(struct hosts *hosts, const char *peer, const json_t *state) {
    struct host *host = find_member(hosts, host_text(state, "member"));
    size_t i;
    json_t *entry;
    if (host == NULL) {
        hosts_send(hosts, peer, HOST_VOID, json_pack("{s:s}", "member", host_text(state, "member")));
        return;
    }
    snprintf(host->peer, sizeof host->peer, "%s", peer);
    host->heard_at = clock_monotonic();
    host->answered = true;
    hosts_orders_heard(host, host_number(state, "heard"));
    json_array_foreach(json_object_get(state, "processes"), i, entry) take_process(host, entry);
    json_array_foreach(json_object_get(state, "listeners"), i, entry) take_listener(host, entry);
    if (host_flag(state, "leaving") && host->there) {
        host->leaving = true;
        host->there = false;
        tell_changed(hosts);
    }
    if (host->leaving && is_empty(host)) lose(host, "has left");
}

static void take_message(struct hosts *hosts, const char *peer, const void *bytes, size_t length) {
    struct host_message message = {0};
    if (host_message_decode(bytes, length, &message, NULL) != STATUS_OK) return;
    if (message.kind == HOST_JOIN) take_join(hosts, peer, message.root);
    if (message.kind == HOST_STATE) take_state(hosts, peer, message.root);
    host_message_clear(&message);
}

static void receive(struct hosts *hosts) {
    for (int i = 0; i < AT_ONCE; i++) {
        char peer[CONTROL_PEER_SIZE];
        const void *bytes = NULL;
        size_t length = 0;
        struct err err = {0};
        if (control_receive(hosts->control, peer, &bytes, &length, &err) != STATUS_OK || bytes == NULL) return;
        if (peer[0] != '\0') take_message(hosts, peer, bytes, length);
    }
}

/* ---- Time ---- */

static void tend_host(struct host *host, double now) {
    if (!host->there && !host->leaving) return;
    if (now - host->heard_at > HOST_LOST) {
        lose(host, "is not heard any more");
        return;
    }
    hosts_orders_repeat(host);
    if (now - host->beat_at < HOST_BEAT) return;
    hosts_send(host->hosts, host->peer, HOST_BEAT_KIND, json_pack("{s:s}", "member", host->member));
    host->beat_at = now;
}

/* Others may clean up the folder; another launcher may have taken the session over, and its file stays. */
static void tend_file(struct hosts *hosts, double now) {
    if (now - hosts->file_at < FILE_PAUSE) return;
    hosts->file_at = now;
    if (!file_exists(hosts->path)) (void)!hosts_write_launcher(hosts, NULL);
}

/* Counts no silence of the time in which the launcher itself did not listen. */
static void excuse(struct hosts *hosts, double now) {
    double gap = now - hosts->tended_at;
    for (size_t i = 0; gap > HELD_UP && i < hosts->count; i++) {
        struct host *host = hosts->list[i];
        host->heard_at = host->heard_at + gap < now ? host->heard_at + gap : now;
    }
}

void hosts_tend(struct hosts *hosts) {
    double now = clock_monotonic();
    excuse(hosts, now); /* before a second host of a name asks whether the first one is silent */
    receive(hosts);
    for (size_t i = 0; i < hosts->count; i++)
        tend_host(hosts->list[i], now);
    tend_file(hosts, now);
    hosts->tended_at = now;
}

/* ---- For those who use them ---- */

size_t hosts_count(const struct hosts *hosts) {
    return hosts->count;
}

struct host_view hosts_view(const struct hosts *hosts, size_t index) {
    const struct host *host = hosts->list[index];
    return (struct host_view){.name = host->name,
                              .address = host->address,
                              .cores = host->cores,
                              .gpus = host->gpus,
                              .there = host->there,
                              .leaving = host->leaving};
}

const struct process_place *hosts_place(struct hosts *hosts, size_t host) {
    return &hosts->list[host]->place;
}

long long hosts_refused(struct hosts *hosts) {
    return control_refused(hosts->control);
}

void hosts_pass_endpoints(struct hosts *hosts, const char *text) {
    char *copy = strdup(text);
    if (copy == NULL) return; /* the next change tells all */
    free(hosts->endpoints);
    hosts->endpoints = copy;
    for (size_t i = 0; i < hosts->count; i++) {
        struct host *host = hosts->list[i];
        if (host->there || host->leaving)
            (void)!hosts_order(host, "endpoints", json_pack("{s:s}", "record", text), NULL);
    }
}
