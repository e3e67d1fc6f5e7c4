/* Writes log lines: time, stage.instance, level, stable id, message:
 *   2026-01-31T12:00:00.123 lowpass-picker.0 WARN pick-none mic_0003: no peak above the threshold
 * The id is a short word that scripts can search for. One system call writes one line, so that the lines of several
 * threads and processes never mix.
 *
 * When a log has reached its size, it becomes NAME.1, NAME.1 becomes NAME.2, and so on; LOG_KEPT old logs stay. Several
 * processes may write to one log, and each of them may rename it. A process that has the log open goes on in the old
 * file until its next line, so no line is lost or torn. */
#ifndef ICESTREAM_COMMON_LOG_H
#define ICESTREAM_COMMON_LOG_H

#include <stdarg.h>
#include <stdint.h>

#include "common/status.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum {
    LOG_SIZE = 16 << 20, /* bytes */
    LOG_KEPT = 4,
};

struct log;

/* Opens a log. path: lines are appended to it; or NULL. Lines of stderr_level and above also go to standard error
 * (LOG_ERROR + 1: no lines do). When standard output or error is the same file as the log, it moves to the new file
 * whenever the log begins one. */
enum status log_open(const char *path, const char *who, enum log_level stderr_level, struct log **ret_log,
                     struct err *err);
/* Closes the log and frees it; accepts NULL. */
void log_close(struct log **log);
/* Sets the bytes after which a new file begins, instead of LOG_SIZE. */
void log_set_size(struct log *log, int64_t bytes);
/* Hands lines for standard error to a function, which prints them where something else is drawn too; NULL: to standard
 * error again. The function must not write to the log. log may be NULL. */
typedef void log_screen(void *context, const char *line);
void log_set_screen(struct log *log, log_screen *screen, void *context);
/* Writes one line; log may be NULL: nothing is written. */
void log_write(struct log *log, enum log_level level, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Writes one line as log_write does, with the arguments as a list. */
void log_write_list(struct log *log, enum log_level level, const char *id, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
/* Begins a new file when the log is full, and follows when another process has begun one. Call it now and then, because
 * standard error may also have filled the log. */
void log_renew(struct log *log);

/* Renames a log that has `bytes` or more, no matter which process writes to it. Does nothing when the file is missing
 * or shorter. When renaming fails, the log grows on. */
void log_rotate(const char *path, int64_t bytes);

#endif
