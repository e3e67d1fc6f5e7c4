/* Reads heartbeats. */
#include <errno.h>
#include <signal.h>

#include "common/memory.h"
#include "pipelines/launcher/status.h"

enum { HEARTBEAT_MAX = 1 << 16 };

json_t *status_heartbeat(const struct session *session, const char *instance) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    if (session_file(session, "log", instance, ".heartbeat.json", path, NULL) != STATUS_OK ||
        file_read_whole(path, HEARTBEAT_MAX, &text, &length, NULL) != STATUS_OK)
        return NULL;
    json_t *beat = json_loadb(text, length, 0, NULL);
    if (!json_is_object(beat)) {
        json_decref(beat);
        return NULL;
    }
    return beat;
}

bool status_lives(const json_t *beat) {
    json_int_t pid = json_integer_value(json_object_get(beat, "pid"));
    if (json_object_get(beat, "host") != NULL) return !json_is_true(json_object_get(beat, "ended"));
    return pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}
