/* The history of a session's alarms, SESSION/web/alarms.jsonl: one JSON object on each line.
 *   {"time", "event": "fires" | "worse" | "better" | "clears", "alarm", "subject", "severity", "text", "value", "since"}
 *   {"time", "event": "told", "alarm", "subject", "severity"}     somebody was told
 *   {"time", "event": "silence", "alarm", "subject", "until", "who", "why"}
 *   {"time", "event": "tell-failed", "message"}                   the program of session.notify failed 3 times
 * Times are s since 1970. Several processes may append; readers leave out what is no line of these. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_FILE_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_FILE_H

#include <jansson.h>

#include "common/files.h"
#include "pipelines/launcher/alarms/judge.h"

/* Appends a line and syncs the file. A last line that a crash cut short is ended first. Steals the reference. */
enum status alarms_file_append(const char *path, json_t *line, struct err *err);
/* Appends that somebody silences a rule, or "all", until a time; see alarms_table_silence. who and why may be NULL. */
enum status alarms_file_silence(const char *path, const struct alarm_silence *silence, double now, const char *who,
                                const char *why, struct err *err);
/* Reads the lines from *offset on into the table, and sets *offset behind the last whole line. Of a file that has grown by
 * more than 16 MiB the last 16 MiB count. A file that is not there is an empty one. silences: takes over lines of silences alone. */
enum status alarms_file_read(const char *path, bool silences, int64_t *offset, struct alarm_table *table,
                             struct err *err);

#endif
