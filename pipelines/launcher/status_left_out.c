#include "pipelines/launcher/status_left_out.h"

#include "common/files.h"
#include "common/memory.h"

enum { TEXT_MAX = 1 << 24 };

/* Reads the list of one stage; NULL: it has none. */
static json_t *read_list(const struct session *session, const char *stage) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    if (session_file(session, stage, "left_out.json", "", path, NULL) != STATUS_OK || !file_exists(path) ||
        file_read_whole(path, TEXT_MAX, &text, &length, NULL) != STATUS_OK)
        return NULL;
    return json_loadb(text, length, 0, NULL);
}

json_t *status_left_out(const struct session *session, const json_t *plan) {
    json_t *all = json_array(), *planned, *row;
    size_t i, k;
    json_array_foreach(json_object_get(plan, "stages"), i, planned) {
        const char *stage = json_string_value(json_object_get(planned, "name"));
        json_t *list = stage != NULL ? read_list(session, stage) : NULL;
        json_array_foreach(list, k, row) {
            const char *path = json_string_value(json_object_get(row, "path"));
            const char *reason = json_string_value(json_object_get(row, "reason"));
            if (path == NULL || reason == NULL) continue;
            json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:f}", "stage", stage, "path", path, "reason", reason,
                                                 "time", json_number_value(json_object_get(row, "time"))));
        }
        json_decref(list);
    }
    return all;
}

void status_left_out_text(const struct session *session, const json_t *plan, FILE *out) {
    size_t i;
    json_t *planned;
    json_array_foreach(json_object_get(plan, "stages"), i, planned) {
        const char *stage = json_string_value(json_object_get(planned, "name"));
        json_t *list = stage != NULL ? read_list(session, stage) : NULL;
        size_t count = json_array_size(list);
        if (count > 0)
            fprintf(out, "%s: %zu file%s or folder%s left out (status --json lists them with the reason)\n", stage,
                    count, count == 1 ? "" : "s", count == 1 ? "" : "s");
        json_decref(list);
    }
}
