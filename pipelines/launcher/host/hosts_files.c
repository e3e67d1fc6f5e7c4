/* Writes files of the session for its hosts, and on their behalf. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/host/hosts_private.h"
#include "pipelines/launcher/run/instance.h"

enum { BEAT_MAX = 1 << 17 };

static char *launcher_text(const struct hosts *hosts) {
    const struct hosts_settings *settings = &hosts->settings;
    json_t *object = json_pack("{s:i, s:s, s:i, s:i, s:s, s:s, s:{s:s, s:s}}", "v", HOST_MESSAGE_VERSION, "address",
                               settings->address, "port", hosts->port, "run", settings->run, "session_id",
                               settings->session_id, "revision", settings->revision, "curve", "public",
                               settings->public_key, "secret", settings->secret_key);
    char *text = object != NULL ? json_dumps(object, JSON_INDENT(1)) : NULL;
    json_decref(object);
    return text;
}

enum status hosts_write_launcher(struct hosts *hosts, struct err *err) {
    if (hosts->text == NULL) hosts->text = launcher_text(hosts);
    FAIL_IF(hosts->text == NULL, err, STATUS_NO_MEMORY, "%s: no memory", hosts->path);
    TRY(file_make_parents(hosts->path, 0777, err));
    return instance_write_private(hosts->path, hosts->text, err);
}

bool hosts_are_anothers(const struct hosts *hosts) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    enum status status = file_read_whole(hosts->path, BEAT_MAX, &text, &length, NULL);
    return status == STATUS_OK && hosts->text != NULL && strcmp(text, hosts->text) != 0;
}

/* Writes a file that readers find whole; nothing is lost if the machine ends before it is on the disk. */
static void put(const char *path, const void *bytes, size_t length) {
    char other[PATH_SIZE + 16];
    snprintf(other, sizeof other, "%s.of-host", path);
    int descriptor = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) return;
    bool whole = write(descriptor, bytes, length) == (ssize_t)length;
    if (close(descriptor) != 0 || !whole || rename(other, path) != 0) unlink(other);
}

static void put_json(const char *path, json_t *object) {
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    if (text != NULL) put(path, text, strlen(text));
    free(text);
    json_decref(object);
}

/* The clocks of hosts differ, and a process id means nothing on another host. */
void hosts_write_beat(const struct host *host, const struct remote *remote, const char *text) {
    json_t *beat = json_loads(text, 0, NULL);
    if (!json_is_object(beat)) {
        json_decref(beat);
        return;
    }
    json_object_set_new(beat, "host", json_string(host->name));
    json_object_set_new(beat, "time", json_real(clock_realtime()));
    put_json(remote->heartbeat, beat);
}

void hosts_write_end(const struct remote *remote) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    if (remote->beats == 0 || file_read_whole(remote->heartbeat, BEAT_MAX, &text, &length, NULL) != STATUS_OK) return;
    json_t *beat = json_loads(text, 0, NULL);
    json_object_set_new(beat, "ended", json_true());
    put_json(remote->heartbeat, beat);
}

/* The file has the form in which a stage keeps it (common/harness/instance.c). */
void hosts_write_current(const struct remote *remote, const json_t *process) {
    char *bytes = calloc(2, PATH_SIZE);
    if (bytes == NULL) return;
    snprintf(bytes, PATH_SIZE, "%s", host_text(process, "item"));
    snprintf(bytes + PATH_SIZE, PATH_SIZE - 1, "%s", host_text(process, "item_of_signal"));
    bytes[2 * PATH_SIZE - 1] = host_flag(process, "own_work");
    put(remote->current, bytes, 2 * (size_t)PATH_SIZE);
    free(bytes);
}
