#include "stages/watcher/left_out.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/edges/item.h"
#include "common/files.h"
#include "common/memory.h"

struct left_out {
    char *path;
    json_t *rows; /* of {"path", "reason", "time"} */
    bool changed;
};

enum { TEXT_MAX = 1 << 24 };

static bool is_row(const json_t *row) {
    return json_is_string(json_object_get(row, "path")) && json_is_string(json_object_get(row, "reason"));
}

/* Takes over the rows of an earlier run. */
static void read_rows(struct left_out *list) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length, i;
    if (!file_exists(list->path) || file_read_whole(list->path, TEXT_MAX, &text, &length, NULL) != STATUS_OK) return;
    json_t *old = json_loadb(text, length, 0, NULL), *row;
    json_array_foreach(old, i, row) if (is_row(row)) json_array_append(list->rows, row);
    json_decref(old);
}

enum status left_out_open(const char *path, struct left_out **ret_list, struct err *err) {
    _cleanup_(left_out_close) struct left_out *list = calloc(1, sizeof *list);
    FAIL_IF(list == NULL, err, STATUS_NO_MEMORY, "no memory for %s", path);
    list->path = strdup(path);
    list->rows = json_array();
    FAIL_IF(list->path == NULL || list->rows == NULL, err, STATUS_NO_MEMORY, "no memory for %s", path);
    read_rows(list);
    *ret_list = list;
    list = NULL;
    return STATUS_OK;
}

void left_out_close(struct left_out **list) {
    if (list == NULL || *list == NULL) return;
    json_decref((*list)->rows);
    free((*list)->path);
    free(*list);
    *list = NULL;
}

/* Copies a path; bytes that are not UTF-8, which JSON cannot hold, become question marks. */
static char *copy_text(const char *text) {
    char *copy = strdup(text);
    bool whole = copy == NULL || item_text_fits(copy);
    for (char *c = copy; !whole && *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    return copy;
}

/* Returns the index of a path, or the number of rows. */
static size_t find(const struct left_out *list, const char *path) {
    size_t i;
    const json_t *row;
    json_array_foreach(list->rows, i,
                       row) if (strcmp(json_string_value(json_object_get(row, "path")), path) == 0) return i;
    return json_array_size(list->rows);
}

enum status left_out_add(struct left_out *list, const char *path, const char *reason, struct err *err) {
    _cleanup_(mem_free) char *shown = copy_text(path);
    _cleanup_(mem_free) char *why = copy_text(reason);
    FAIL_IF(shown == NULL || why == NULL, err, STATUS_NO_MEMORY, "no memory for %s", path);
    size_t at = find(list, shown);
    const json_t *old = json_array_get(list->rows, at);
    if (old != NULL && strcmp(json_string_value(json_object_get(old, "reason")), why) == 0) return STATUS_OK;
    if (old != NULL) json_array_remove(list->rows, at);
    json_t *row = json_pack("{s:s, s:s, s:f}", "path", shown, "reason", why, "time", clock_realtime());
    bool added = row != NULL && json_array_append_new(list->rows, row) == 0;
    FAIL_IF(!added, err, STATUS_NO_MEMORY, "no memory for %s", path);
    while (json_array_size(list->rows) > LEFT_OUT_MAX)
        json_array_remove(list->rows, 0);
    list->changed = true;
    return STATUS_OK;
}

void left_out_remove(struct left_out *list, const char *path) {
    size_t at = find(list, path);
    if (at == json_array_size(list->rows)) return;
    json_array_remove(list->rows, at);
    list->changed = true;
}

enum status left_out_write(struct left_out *list, struct err *err) {
    if (!list->changed) return STATUS_OK;
    _cleanup_(mem_free) char *text = json_dumps(list->rows, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for %s", list->path);
    TRY(file_write_whole(list->path, text, strlen(text), err));
    list->changed = false;
    return STATUS_OK;
}
