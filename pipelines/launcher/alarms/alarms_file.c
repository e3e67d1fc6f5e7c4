#include "pipelines/launcher/alarms/alarms_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"

enum { FILE_MAX = 16 << 20 };

/* One write of a whole line: lines of two processes do not mix. */
enum status alarms_file_append(const char *path, json_t *line, struct err *err) {
    _cleanup_(mem_free) char *text = line != NULL ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(line);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for a line of %s", path);
    const size_t length = strlen(text);
    _cleanup_(mem_free) char *whole = malloc(length + 3);
    FAIL_IF(whole == NULL, err, STATUS_NO_MEMORY, "no memory for a line of %s", path);
    _cleanup_(file_close) int descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    FAIL_IF(descriptor < 0, err, status_of_writing(errno), "%s: %s", path, status_reason(errno));
    char last = '\n';
    const off_t size = lseek(descriptor, 0, SEEK_END);
    if (size > 0 && pread(descriptor, &last, 1, size - 1) != 1) last = '\n';
    const int written = snprintf(whole, length + 3, "%s%s\n", last == '\n' ? "" : "\n", text);
    errno = ENOSPC; /* the usual reason for a write that is cut short */
    FAIL_IF(write(descriptor, whole, (size_t)written) != written || fdatasync(descriptor) != 0, err,
            status_of_writing(errno), "%s cannot be written: %s", path, status_reason(errno));
    return STATUS_OK;
}

enum status alarms_file_silence(const char *path, const struct alarm_silence *silence, double now, const char *who,
                                const char *why, struct err *err) {
    return alarms_file_append(path,
                              json_pack("{s:f, s:s, s:s, s:s, s:f, s:s, s:s}", "time", now, "event", "silence", "alarm",
                                        silence->name, "subject", silence->subject, "until", silence->until, "who",
                                        who != NULL ? who : "", "why", why != NULL ? why : ""),
                              err);
}

static double number(const json_t *line, const char *key, double fallback) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

static const char *text_of(const json_t *line, const char *key) {
    const char *text = json_string_value(json_object_get(line, key));
    return text != NULL ? text : "";
}

static struct alarm *find(struct alarm_table *table, enum alarm_kind kind, const char *subject) {
    for (size_t i = 0; i < table->count; i++)
        if (table->alarms[i].kind == kind && strcmp(table->alarms[i].subject, subject) == 0) return &table->alarms[i];
    if (table->count == ALARM_TABLE) {
        /* The oldest one that has cleared makes place. */
        size_t oldest = ALARM_TABLE;
        for (size_t i = 0; i < ALARM_TABLE; i++)
            if (!alarm_fires(&table->alarms[i]) &&
                (oldest == ALARM_TABLE || table->alarms[i].ended < table->alarms[oldest].ended))
                oldest = i;
        if (oldest == ALARM_TABLE) return NULL;
        table->alarms[oldest] = table->alarms[--table->count];
    }
    struct alarm *alarm = &table->alarms[table->count++];
    *alarm = (struct alarm){.kind = kind, .value = NAN};
    snprintf(alarm->subject, sizeof alarm->subject, "%s", subject);
    return alarm;
}

static enum alarm_severity severity_of(const json_t *line, enum alarm_kind kind) {
    for (int i = ALARM_INFO; i <= ALARM_CRITICAL; i++)
        if (strcmp(text_of(line, "severity"), alarm_severity_name((enum alarm_severity)i)) == 0)
            return (enum alarm_severity)i;
    return alarm_rule(kind)->severity;
}

static void take_alarm(const json_t *line, const char *event, double time, struct alarm_table *table) {
    const enum alarm_kind kind = alarm_kind_find(text_of(line, "alarm"));
    if (kind == ALARM_KINDS || strlen(text_of(line, "subject")) >= ALARM_NAME) return;
    struct alarm *alarm = find(table, kind, text_of(line, "subject"));
    if (alarm == NULL) return;
    const bool told = strcmp(event, "told") == 0;
    if (told) {
        alarm->told = alarm_fires(alarm) ? time : 0;
        alarm->told_severity = severity_of(line, kind);
        return;
    }
    alarm->severity = severity_of(line, kind);
    alarm->value = number(line, "value", NAN);
    snprintf(alarm->text, sizeof alarm->text, "%s", text_of(line, "text"));
    if (strcmp(event, "clears") == 0) {
        alarm->ended = time;
        alarm->holds = 0;
    } else {
        if (strcmp(event, "fires") == 0 || alarm->started == 0) alarm->started = time;
        alarm->holds = alarm->started;
        alarm->ended = 0;
    }
}

static void take_line(const char *text, size_t length, bool silences, struct alarm_table *table) {
    json_t *line = json_loadb(text, length, 0, NULL);
    const char *event = text_of(line, "event");
    const double time = number(line, "time", 0);
    if (strcmp(event, "silence") == 0)
        alarms_table_silence(table, text_of(line, "alarm"), text_of(line, "subject"), number(line, "until", 0), time,
                             NULL);
    else if (!silences && (strcmp(event, "fires") == 0 || strcmp(event, "worse") == 0 || strcmp(event, "better") == 0 ||
                           strcmp(event, "clears") == 0 || strcmp(event, "told") == 0))
        take_alarm(line, event, time, table);
    json_decref(line);
}

/* Reads from a place in the file on, FILE_MAX bytes at most: of more, the end. *ret_begins: the text begins with a line. */
static enum status read_from(const char *path, int64_t *from, char **ret_text, size_t *ret_length, bool *ret_begins,
                             struct err *err) {
    int64_t size;
    _cleanup_(file_close) int descriptor = -1;
    _cleanup_(mem_free) char *text = NULL;
    TRY(file_open_read(path, &descriptor, &size, err));
    if (*from < 0 || *from > size) *from = 0; /* somebody has replaced the file */
    *ret_begins = size - *from <= FILE_MAX;
    if (!*ret_begins) *from = size - FILE_MAX;
    const size_t length = (size_t)(size - *from);
    text = malloc(length + 1);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    TRY(file_read_at(descriptor, path, *from, text, length, err));
    text[length] = '\0';
    *ret_text = text;
    *ret_length = length;
    text = NULL;
    return STATUS_OK;
}

enum status alarms_file_read(const char *path, bool silences, int64_t *offset, struct alarm_table *table,
                             struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    bool begins = true;
    int64_t from = *offset;
    struct stat info;
    if (stat(path, &info) != 0 || info.st_size == *offset) return STATUS_OK;
    TRY(read_from(path, &from, &text, &length, &begins, err));
    char *line = text, *end;
    for (; (end = memchr(line, '\n', length - (size_t)(line - text))) != NULL; line = end + 1) {
        if (begins) take_line(line, (size_t)(end - line), silences, table);
        begins = true;
    }
    *offset = from + (line - text);
    return STATUS_OK;
}
