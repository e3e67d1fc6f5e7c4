/* The hosts of a session, for `status`. The launcher writes them into SESSION/hosts/hosts.json while it runs. */
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/status.h"

enum { TEXT_MAX = 1 << 20 };

/* Reads the file; NULL: the session does not run, or has one host. */
static json_t *read_hosts(const struct session *session) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    if (session_file(session, "hosts", "hosts", ".json", path, NULL) != STATUS_OK || !file_exists(path) ||
        !session_is_running(session) || file_read_whole(path, TEXT_MAX, &text, &length, NULL) != STATUS_OK)
        return NULL;
    return json_loadb(text, length, 0, NULL);
}

json_t *status_hosts_json(const struct session *session) {
    json_t *root = read_hosts(session), *list = json_object_get(root, "hosts");
    list = json_is_array(list) ? json_incref(list) : json_array();
    json_decref(root);
    return list;
}

static void print_instances(const json_t *instances, const char *host, FILE *out) {
    const char *name, *before = ": ";
    json_t *place;
    json_object_foreach((json_t *)instances, name, place) {
        const char *text = json_string_value(place);
        if (text == NULL || strcmp(text, host) != 0) continue;
        fprintf(out, "%s%s", before, name);
        before = ", ";
    }
    fputc('\n', out);
}

void status_hosts(const struct session *session, FILE *out) {
    json_t *root = read_hosts(session), *host;
    const json_t *instances = json_object_get(root, "instances");
    size_t i;
    if (root != NULL) {
        fputs("host launcher", out);
        print_instances(instances, "launcher", out);
    }
    json_array_foreach(json_object_get(root, "hosts"), i, host) {
        const char *name = json_string_value(json_object_get(host, "name"));
        if (name == NULL) continue;
        fprintf(out, "host %s (%lld cores, %lld GPUs)%s", name,
                (long long)json_integer_value(json_object_get(host, "cores")),
                (long long)json_integer_value(json_object_get(host, "gpus")),
                json_is_true(json_object_get(host, "there")) ? "" : ", not there");
        print_instances(instances, name, out);
    }
    json_decref(root);
}
