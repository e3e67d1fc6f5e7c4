#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/memory.h"

struct log {
    int descriptor; /* -1: none */
    enum log_level stderr_level;
    char who[96];
};

enum status log_open(const char *path, const char *who, enum log_level stderr_level, struct log **ret_log,
                     struct err *err) {
    struct log *log = calloc(1, sizeof *log);
    FAIL_IF(log == NULL, err, STATUS_NO_MEMORY, "no memory for the log");
    log->descriptor = -1;
    log->stderr_level = stderr_level;
    snprintf(log->who, sizeof log->who, "%s", who);
    if (path != NULL) {
        log->descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (log->descriptor < 0) {
            free(log);
            FAIL(err, STATUS_IO, "%s: the log cannot be written: %s", path, strerror(errno));
        }
    }
    *ret_log = log;
    return STATUS_OK;
}

void log_close(struct log **log) {
    if (*log == NULL) return;
    if ((*log)->descriptor >= 0) close((*log)->descriptor);
    mem_free(log);
}

void log_write_list(struct log *log, enum log_level level, const char *id, const char *format, va_list args) {
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    if (log == NULL || (log->descriptor < 0 && level < log->stderr_level)) return;
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    char line[2048];
    size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &local);
    used += (size_t)snprintf(line + used, sizeof line - used, ".%03d %s %s %s ", (int)(now.tv_nsec / 1000000), log->who,
                             names[level], id);
    int length = vsnprintf(line + used, sizeof line - used - 1, format, args);
    used += length > 0 ? strlen(line + used) : 0;
    /* One line is one event, whatever a message quotes. */
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < 0x20) *p = ' ';
    line[used++] = '\n';
    /* Nowhere is left to report that the log cannot be written. */
    if (log->descriptor >= 0 && write(log->descriptor, line, used) < 0) return;
    if (level >= log->stderr_level && write(STDERR_FILENO, line, used) < 0) return;
}

void log_write(struct log *log, enum log_level level, const char *id, const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_write_list(log, level, id, format, args);
    va_end(args);
}
