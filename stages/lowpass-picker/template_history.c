#include "stages/lowpass-picker/template_history.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/formats/mrc.h"
#include "common/memory.h"

enum { HISTORY_MOST = 1 << 24 };

void template_history_clear(struct template_history *h) {
    free(h->lines);
    *h = (struct template_history){0};
}

static bool take_text(const json_t *line, const char *key, char *text, size_t size) {
    const char *value = json_string_value(json_object_get(line, key));
    if (value == NULL || strlen(value) >= size) return false;
    memcpy(text, value, strlen(value) + 1);
    return true;
}

/* Takes a line that this picker can have written. */
static bool take_line(const json_t *line, struct adoption *a) {
    const json_t *from = json_object_get(line, "from");
    char event[16];
    *a = (struct adoption){.adopted = json_is_true(json_object_get(line, "adopted"))};
    if (!take_text(line, "event", event, sizeof event) || strcmp(event, "templates") != 0) return false;
    if (!take_text(from, "stage", a->stage, sizeof a->stage)) return false;
    a->stage_epoch = (int)json_integer_value(json_object_get(from, "epoch"));
    a->iteration = (int)json_integer_value(json_object_get(from, "iteration"));
    a->density = json_number_value(json_object_get(json_object_get(line, "density"), "data"));
    a->noise = json_number_value(json_object_get(json_object_get(line, "density"), "noise"));
    if (json_is_string(json_object_get(line, "reason"))) (void)take_text(line, "reason", a->reason, sizeof a->reason);
    if (!a->adopted) return true;
    a->after_item = json_is_true(json_object_get(line, "after_item"));
    a->epoch = (int)json_integer_value(json_object_get(line, "epoch"));
    return a->epoch > 0 && take_text(line, "file", a->file, sizeof a->file) && strchr(a->file, '/') == NULL &&
           take_text(line, "source", a->source, sizeof a->source) && take_text(line, "item", a->item, sizeof a->item);
}

static enum status take_lines(const char *text, struct template_history *h, struct err *err) {
    size_t lines = 1;
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    TRY(mem_new(lines, sizeof *h->lines, "history", &h->lines, err));
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        json_t *line = json_loadb(at, length, 0, NULL);
        if (take_line(line, &h->lines[h->count])) h->count++;
        json_decref(line);
        at += length + (at[length] == '\n');
    }
    return STATUS_OK;
}

enum status template_history_read(const char *path, struct template_history *h, struct err *err) {
    struct stat info = {0};
    if (stat(path, &info) != 0) {
        FAIL_IF(errno != ENOENT, err, STATUS_UNAVAILABLE, "%s: cannot be read: %s", path, strerror(errno));
        return STATUS_OK;
    }
    if (info.st_size == h->seen.st_size && info.st_ino == h->seen.st_ino &&
        file_mtime_ns(&info) == file_mtime_ns(&h->seen))
        return STATUS_OK;
    _cleanup_(mem_free) char *text = NULL;
    struct template_history now = {.seen = info};
    TRY(file_read_whole(path, HISTORY_MOST, &text, NULL, err));
    TRY(take_lines(text, &now, err));
    template_history_clear(h);
    *h = now;
    return STATUS_OK;
}

const struct adoption *template_history_last(const struct template_history *h) {
    for (size_t i = h->count; i > 0; i--)
        if (h->lines[i - 1].adopted) return &h->lines[i - 1];
    return NULL;
}

bool template_history_knows(const struct template_history *h, const char *stage, int stage_epoch) {
    for (size_t i = 0; i < h->count; i++)
        if (h->lines[i].stage_epoch == stage_epoch && strcmp(h->lines[i].stage, stage) == 0) return true;
    return false;
}

static char *line_text(const struct adoption *a) {
    json_t *line =
        json_pack("{s:f, s:s, s:b, s:{s:s, s:i, s:i}, s:i, s:{s:f, s:f}, s:{s:f, s:f}, s:f, s:{s:f, s:f}}", "time",
                  clock_realtime(), "event", "templates", "adopted", a->adopted, "from", "stage", a->stage, "epoch",
                  a->stage_epoch, "iteration", a->iteration, "micrographs", a->micrographs, "before", "sure",
                  a->before.sure, "f1", a->before.f1, "after", "sure", a->after.sure, "f1", a->after.f1, "again",
                  a->again, "density", "data", a->density, "noise", a->noise);
    if (a->adopted && line != NULL)
        json_object_update_new(line,
                               json_pack("{s:i, s:s, s:i, s:s, s:s, s:b}", "epoch", a->epoch, "file", a->file, "count",
                                         a->count, "source", a->source, "item", a->item, "after_item", a->after_item));
    if (a->reason[0] != '\0') json_object_set_new(line, "reason", json_string(a->reason));
    char *text = line != NULL ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    return text;
}

/* Adds the line. The caller holds the lock. */
static enum status add(const char *folder, const char *path, struct adoption *a, const struct image *images,
                       struct template_history *h, struct err *err) {
    char copy[PATH_SIZE];
    TRY(template_history_read(path, h, err));
    if (template_history_knows(h, a->stage, a->stage_epoch)) return STATUS_OK;
    if (a->adopted) {
        const struct adoption *last = template_history_last(h);
        int next = last != NULL ? last->epoch + 1 : 1;
        if (a->epoch != 0 && a->epoch != next) return STATUS_OK;
        a->epoch = next;
        a->count = images->nz;
        snprintf(a->file, sizeof a->file, "templates_e%03d.mrcs", a->epoch);
        TRY(path_join(folder, a->file, copy, sizeof copy, err));
        TRY(mrc_write(copy, images, MRC_STACK, MRC_FLOAT32, err));
    }
    _cleanup_(mem_free) char *text = line_text(a);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for a line of history");
    TRY(file_append_line(path, text, err));
    a->written = true;
    return template_history_read(path, h, err);
}

enum status template_history_add(const char *folder, struct adoption *decision, const struct image *images,
                                 struct template_history *history, struct err *err) {
    char path[PATH_SIZE], lock[PATH_SIZE];
    TRY(path_join(folder, TEMPLATE_HISTORY, path, sizeof path, err));
    TRY(path_join(folder, ".history.lock", lock, sizeof lock, err));
    _cleanup_(file_close) int descriptor = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    FAIL_IF(descriptor < 0 || flock(descriptor, LOCK_EX) != 0, err, status_of_writing(errno),
            "%s: cannot be locked: %s", lock, strerror(errno));
    return add(folder, path, decision, images, history, err);
}
