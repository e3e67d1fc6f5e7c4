/* Log lines: time, stage.instance, level, stable id, message:
 *   2026-01-31T12:00:00.123 lowpass-picker.0 WARN pick-none mic_0003: no peak above the threshold
 * The id is a short word that scripts can search for. A line is written with one call, so that the lines of several
 * threads and processes never mix.
 *
 * A log that has reached its size becomes NAME.1, NAME.1 becomes NAME.2 and so on; LOG_KEPT old ones are kept. Several
 * processes may write to one log, and any of them may rename it: whoever has it open goes on in the old file until its
 * next line, so none is lost or torn. */
#ifndef ICESTREAM_COMMON_LOG_H
#define ICESTREAM_COMMON_LOG_H

#include <stdarg.h>
#include <stdint.h>

#include "common/status.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum { LOG_SIZE = 16 << 20, LOG_KEPT = 4 }; /* bytes; old ones */

struct log;

/* path: appended to, or NULL. Lines of stderr_level and above also go to standard error (LOG_ERROR + 1: none do). A
 * standard output or error that is the same file as the log is moved to the new file whenever the log begins one. */
enum status log_open(const char *path, const char *who, enum log_level stderr_level, struct log **ret_log,
                     struct err *err);
void log_close(struct log **log);
/* Bytes after which a new file is begun, instead of LOG_SIZE. */
void log_set_size(struct log *log, int64_t bytes);
/* log may be NULL: nothing is written. */
void log_write(struct log *log, enum log_level level, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void log_write_list(struct log *log, enum log_level level, const char *id, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
/* To be called now and then: begins a new file when the log is full, as standard error may have filled it, and goes
 * along when somebody else has. */
void log_renew(struct log *log);

/* Renames a log of `bytes` or more, whoever writes to it. What is not there or too short is left; where a name cannot be
 * given the log grows on. */
void log_rotate(const char *path, int64_t bytes);

#endif
