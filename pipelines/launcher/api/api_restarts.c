/* Counts how often the processes of a session were started again, from what they say in their logs when they begin. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"
#include "pipelines/launcher/api/api_private.h"

enum { TAIL = 4 << 20 }; /* of a log; what lies before it is not counted */

/* Counts the lines "… INFO start run RUN, process PID, …" of an instance. */
static int64_t count_starts(struct serve *serve, const char *instance, int run) {
    char path[PATH_SIZE], said[64];
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    int64_t count = 0;
    snprintf(path, sizeof path, "log/%.200s.log", instance);
    const size_t size = (size_t)snprintf(said, sizeof said, " INFO start run %d, process ", run);
    if (api_open(serve, path, &file, NULL) != STATUS_OK) return 0;
    const int64_t from = file.size > TAIL ? file.size - TAIL : 0;
    const size_t length = (size_t)(file.size - from);
    _cleanup_(mem_free) char *bytes = malloc(length + 1);
    if (bytes == NULL || file_read_at(file.descriptor, path, from, bytes, length, NULL) != STATUS_OK) return 0;
    const char *end = bytes + length;
    for (const char *at = bytes; (at = memmem(at, (size_t)(end - at), said, size)) != NULL; at += size)
        count++;
    return count;
}

/* The log is read again only when the process is another one. */
int64_t api_restarts(struct serve *serve, const char *instance, const json_t *beat) {
    struct api *api = serve->api;
    const json_int_t pid = json_integer_value(json_object_get(beat, "pid")), run = view_run(serve->view);
    if (api->starts == NULL) api->starts = json_object();
    const json_t *known = json_object_get(api->starts, instance);
    if (known == NULL || json_integer_value(json_object_get(known, "pid")) != pid ||
        json_integer_value(json_object_get(known, "run")) != run) {
        const int64_t count = count_starts(serve, instance, (int)run);
        json_object_set_new(api->starts, instance,
                            json_pack("{s:I, s:I, s:I}", "pid", pid, "run", run, "count", (json_int_t)count));
        known = json_object_get(api->starts, instance);
    }
    const int64_t count = json_integer_value(json_object_get(known, "count"));
    return count > 0 ? count - 1 : 0;
}
