#include "pipelines/launcher/host/agent.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/host/agent_private.h"
#include "pipelines/launcher/run/signals.h"

/* s: between looks at launcher.json; between reports while nothing happens; of silence before a new connection. */
static const double LOOK = 1, TELL = 1, SILENT = HOST_LOST;
enum { WAIT_MS = 100, AT_ONCE = 1000, FILE_MAX = 1 << 16 };

/* ---- The launcher ---- */

static bool copy(const json_t *object, const char *key, char *text, size_t size) {
    return snprintf(text, size, "%s", host_text(object, key)) < (int)size && text[0] != '\0';
}

static bool read_launcher(const char *text, struct agent_launcher *ret_launcher) {
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const json_t *curve = json_object_get(root, "curve");
    struct agent_launcher launcher = {.port = (int)host_number(root, "port"), .run = (int)host_number(root, "run")};
    bool good = host_number(root, "v") == HOST_MESSAGE_VERSION && launcher.port > 0 && launcher.port < 65536 &&
                copy(root, "address", launcher.address, sizeof launcher.address) &&
                copy(curve, "public", launcher.public_key, sizeof launcher.public_key) &&
                copy(curve, "secret", launcher.secret_key, sizeof launcher.secret_key);
    snprintf(launcher.session_id, sizeof launcher.session_id, "%s", host_text(root, "session_id"));
    json_decref(root);
    if (good) *ret_launcher = launcher;
    return good;
}

/* Finds the address of this host from which another address is reached. Nothing is sent. */
static void find_address(const struct agent *agent, char address[65]) {
    struct sockaddr_in target = {.sin_family = AF_INET, .sin_port = htons((uint16_t)agent->launcher.port)}, own = {0};
    socklen_t length = sizeof own;
    snprintf(address, 65, "%s", agent->options->address != NULL ? agent->options->address : "127.0.0.1");
    if (agent->options->address != NULL || inet_pton(AF_INET, agent->launcher.address, &target.sin_addr) != 1) return;
    int descriptor = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return;
    if (connect(descriptor, (struct sockaddr *)&target, sizeof target) == 0 &&
        getsockname(descriptor, (struct sockaddr *)&own, &length) == 0)
        inet_ntop(AF_INET, &own.sin_addr, address, 65);
    close(descriptor);
}

static void disconnect(struct agent *agent) {
    control_close(&agent->control);
}

static enum status connect_anew(struct agent *agent, struct err *err) {
    const struct agent_launcher *launcher = &agent->launcher;
    disconnect(agent);
    agent->joined_at = clock_monotonic();
    return control_join(launcher->address, launcher->port, launcher->public_key, launcher->secret_key, agent->peer,
                        &agent->control, err);
}

/* Turns to another launcher, or for the first time to one: what ran for the one before does not count any more. */
static enum status turn_to(struct agent *agent, char **text, const struct agent_launcher *launcher, struct err *err) {
    char address[65];
    agent_kill_all(agent);
    disconnect(agent);
    listeners_destroy(&agent->listeners);
    agent->member[0] = '\0';
    agent->heard = 0;
    json_decref(agent->record);
    agent->record = NULL;
    free(agent->launcher.text);
    agent->launcher = *launcher;
    agent->launcher.text = NULL;
    find_address(agent, address);
    memcpy(agent->address, address, sizeof agent->address);
    TRY(listeners_create(agent->address, &agent->listeners, err));
    TRY(connect_anew(agent, err));
    agent->launcher.text = *text;
    *text = NULL;
    agent->heard_at = clock_monotonic();
    agent->told_at = 0;
    return STATUS_OK;
}

/* Returns whether a launcher belongs to an earlier run of the same session. It may live, but nobody works for it. */
static bool is_earlier(const struct agent_launcher *launcher, const struct agent_launcher *now) {
    return launcher->run < now->run && strcmp(launcher->session_id, now->session_id) == 0;
}

/* Looks whether there is a launcher, and whether it is still the same one. The file is compared by its content: times say
 * nothing where files come from other hosts. */
static enum status look_for_launcher(struct agent *agent, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    struct agent_launcher launcher;
    double now = clock_monotonic();
    if (now - agent->looked_at < LOOK) return STATUS_OK;
    agent->looked_at = now;
    enum status status = file_read_whole(agent->path, FILE_MAX, &text, &length, NULL);
    /* A launcher whose session is over removes its file, and says so; here that was not heard. */
    if (status == STATUS_NOT_FOUND && agent->launcher.text != NULL && now - agent->heard_at > SILENT)
        agent->over = true;
    if (status != STATUS_OK) return STATUS_OK;
    bool known = agent->launcher.text != NULL, same = known && strcmp(agent->launcher.text, text) == 0;
    if (same || !read_launcher(text, &launcher) || (known && is_earlier(&launcher, &agent->launcher))) return STATUS_OK;
    status = turn_to(agent, &text, &launcher, err);
    return status == STATUS_UNAVAILABLE ? STATUS_OK : status; /* this looks again */
}

/* ---- The loop ---- */

static void receive(struct agent *agent) {
    for (int i = 0; i < AT_ONCE && agent->control != NULL; i++) {
        char peer[CONTROL_PEER_SIZE];
        const void *bytes = NULL;
        size_t length = 0;
        struct err err = {0};
        if (control_receive(agent->control, peer, &bytes, &length, &err) != STATUS_OK || bytes == NULL) return;
        agent_take(agent, bytes, length);
    }
}

static void speak(struct agent *agent) {
    double since = clock_monotonic() - agent->told_at;
    if (agent->control == NULL) return;
    if (agent->member[0] == '\0') {
        if (since > TELL && !agent->leaving) agent_tell_join(agent);
    } else if (agent->changed || since > TELL) {
        agent_tell_state(agent);
    }
}

/* Handles silence: children go on for as long as the launcher may come back. */
static void stay_in_touch(struct agent *agent) {
    double silent = clock_monotonic() - agent->heard_at;
    if (silent < SILENT) return;
    if (!agent->told_alone)
        fprintf(stderr, "icestream: no launcher is heard; what runs here goes on for up to %.0f s\n",
                agent->options->alone);
    agent->told_alone = true;
    if (agent->launcher.text == NULL || clock_monotonic() - agent->joined_at < SILENT) return;
    /* A connection may be lost for good. Without a new one, this is done again later. */
    (void)!connect_anew(agent, NULL);
}

static void leave(struct agent *agent) {
    agent->changed = true;
    if (!agent->leaving) {
        agent->kill_at = clock_monotonic() + agent->options->stop_kill;
        agent_signal_all(agent, SIGTERM);
    }
    agent->leaving = true;
}

static void take_signals(struct agent *agent) {
    struct signalfd_siginfo info;
    while (read(agent->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD) leave(agent);
}

/* Returns whether all has ended, and the launcher has taken note of it or cannot. */
static bool has_left(struct agent *agent) {
    double now = clock_monotonic();
    if (!agent->leaving) return false;
    if (now > agent->kill_at) agent_signal_all(agent, SIGKILL);
    return (agent->count == 0 && !agent->changed) || agent->member[0] == '\0' || now > agent->kill_at + HOST_LOST;
}

static enum status step(struct agent *agent, struct err *err) {
    TRY(look_for_launcher(agent, err));
    receive(agent);
    take_signals(agent);
    agent_look(agent);
    agent_write_late(agent);
    stay_in_touch(agent);
    speak(agent);
    return control_wait(agent->control, agent->signals, WAIT_MS, err);
}

static enum agent_outcome outcome_of(const struct agent *agent) {
    if (agent->refused) return AGENT_REFUSED;
    if (agent->leaving) return AGENT_LEFT;
    return agent->over ? AGENT_OVER : AGENT_ALONE;
}

static enum status loop(struct agent *agent, enum agent_outcome *ret_outcome, struct err *err) {
    while (!agent->over && !agent->refused && !has_left(agent) &&
           clock_monotonic() - agent->heard_at < agent->options->alone)
        TRY(step(agent, err));
    *ret_outcome = outcome_of(agent);
    return STATUS_OK;
}

/* ---- Begin and end ---- */

static enum status make_folder(struct agent *agent, struct err *err) {
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] != '/') parent = "/tmp";
    int length = snprintf(agent->folder, sizeof agent->folder, "%s/icestream-host-XXXXXX", parent);
    FAIL_IF(length >= (int)sizeof agent->folder, err, STATUS_BAD_ARGUMENT, "TMPDIR is too long a path");
    if (mkdtemp(agent->folder) != NULL) return STATUS_OK;
    agent->folder[0] = '\0';
    FAIL(err, STATUS_UNAVAILABLE, "%s: no folder can be made there: %s", parent, strerror(errno));
}

static void remove_folder(const char *path) {
    DIR *folder = path[0] != '\0' ? opendir(path) : NULL;
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry != NULL; entry = readdir(folder))
        if (entry->d_name[0] != '.') unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL) closedir(folder);
    if (path[0] != '\0') rmdir(path);
}

/* Two agents may have one name by mistake; as peers they differ. */
static enum status begin(struct agent *agent, struct err *err) {
    unsigned long long number = 0;
    const struct agent_options *options = agent->options;
    int length = snprintf(agent->path, sizeof agent->path, "%s/hosts/launcher.json", options->session);
    FAIL_IF(length >= (int)sizeof agent->path, err, STATUS_BAD_ARGUMENT, "%s: too long a path", options->session);
    FAIL_IF(getrandom(&number, sizeof number, 0) != sizeof number, err, STATUS_IO, "no random number: %s",
            strerror(errno));
    snprintf(agent->peer, sizeof agent->peer, "%.30s.%016llx", options->name, number);
    agent->heard_at = clock_monotonic();
    return make_folder(agent, err);
}

enum status agent_run(const struct agent_options *options, enum agent_outcome *ret_outcome, struct err *err) {
    struct agent agent = {.options = options, .signals = -1};
    enum status status = signals_open(&agent.old_mask, &agent.signals, err);
    if (status == STATUS_OK) status = begin(&agent, err);
    if (status == STATUS_OK) status = loop(&agent, ret_outcome, err);
    agent_kill_all(&agent);
    disconnect(&agent);
    listeners_destroy(&agent.listeners);
    remove_folder(agent.folder);
    free(agent.children);
    json_decref(agent.record);
    free(agent.launcher.text);
    explicit_bzero(&agent.launcher, sizeof agent.launcher);
    signals_close(agent.signals, &agent.old_mask);
    return status;
}
