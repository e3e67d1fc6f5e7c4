/* Log lines: time, stage.instance, level, stable id, message:
 *   2026-01-31T12:00:00.123 lowpass-picker.0 WARN pick-none mic_0003: no peak above the threshold
 * The id is a short word that scripts can search for. A line is written with one call, so that the lines of several
 * threads and processes never mix. */
#ifndef ICESTREAM_COMMON_LOG_H
#define ICESTREAM_COMMON_LOG_H

#include <stdarg.h>

#include "common/status.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log;

/* path: appended to, or NULL. Lines of stderr_level and above also go to standard error (LOG_ERROR + 1: none do). */
enum status log_open(const char *path, const char *who, enum log_level stderr_level, struct log **ret_log,
                     struct err *err);
void log_close(struct log **log);
/* log may be NULL: nothing is written. */
void log_write(struct log *log, enum log_level level, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void log_write_list(struct log *log, enum log_level level, const char *id, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));

#endif
