#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/text.h"

struct log {
    int descriptor; /* -1: none; the number stays the same when the file changes */
    enum log_level stderr_level;
    char who[96];
    char path[PATH_SIZE];
    int64_t size;
    bool is_standard[3]; /* whether standard output and error are this file, too */
    log_screen *screen;
    void *context; /* of screen */
    bool torn;     /* the last line was not written to its end */
    pthread_mutex_t lock;
};

static int open_log(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static void find_standard(struct log *log) {
    struct stat own, other;
    if (fstat(log->descriptor, &own) != 0) return;
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++)
        log->is_standard[i] = fstat(i, &other) == 0 && same_file(&own, &other);
}

enum status log_open(const char *path, const char *who, enum log_level stderr_level, struct log **ret_log,
                     struct err *err) {
    struct log *log = calloc(1, sizeof *log);
    FAIL_IF(log == NULL, err, STATUS_NO_MEMORY, "no memory for the log");
    log->descriptor = -1;
    log->stderr_level = stderr_level;
    log->size = LOG_SIZE;
    snprintf(log->who, sizeof log->who, "%s", who);
    if (path != NULL) {
        snprintf(log->path, sizeof log->path, "%s", path);
        log->descriptor = open_log(path);
        if (log->descriptor < 0) {
            int reason = errno;
            free(log);
            FAIL(err, status_of_writing(reason), "%s: the log cannot be written: %s", path, status_reason(reason));
        }
        find_standard(log);
    }
    pthread_mutex_init(&log->lock, NULL);
    *ret_log = log;
    return STATUS_OK;
}

void log_close(struct log **log) {
    if (*log == NULL) return;
    if ((*log)->descriptor >= 0) close((*log)->descriptor);
    pthread_mutex_destroy(&(*log)->lock);
    mem_free(log);
}

void log_set_screen(struct log *log, log_screen *screen, void *context) {
    if (log == NULL) return;
    pthread_mutex_lock(&log->lock);
    log->screen = screen;
    log->context = context;
    pthread_mutex_unlock(&log->lock);
}

void log_set_size(struct log *log, int64_t bytes) {
    log->size = bytes;
}

/* Renames NAME to NAME.1 and so on, beginning with the oldest. */
static void rename_all(const char *path) {
    char from[PATH_SIZE + 8], to[PATH_SIZE + 8];
    for (int i = LOG_KEPT - 1; i >= 0; i--) {
        snprintf(from, sizeof from, i > 0 ? "%s.%d" : "%s", path, i);
        snprintf(to, sizeof to, "%s.%d", path, i + 1);
        /* A log that cannot be renamed grows on: logging must not stop the work. */
        if (rename(from, to) != 0 && errno != ENOENT) return;
    }
}

/* The lock makes processes that find the log full at the same time take turns: a process that has waited for the lock
 * finds that the file has another name by then. */
void log_rotate(const char *path, int64_t bytes) {
    struct stat held, named;
    int descriptor = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0) return;
    int locked;
    do
        locked = flock(descriptor, LOCK_EX);
    while (locked != 0 && errno == EINTR);
    if (fstat(descriptor, &held) == 0 && stat(path, &named) == 0 && same_file(&held, &named) && held.st_size > 0 &&
        held.st_size >= bytes)
        rename_all(path);
    close(descriptor);
}

/* Makes room for a line of that many bytes, in the file that has the log's name now. Needs the lock. */
static void renew(struct log *log, size_t bytes) {
    struct stat held, named;
    if (log->descriptor < 0 || fstat(log->descriptor, &held) != 0) return;
    bool is_named = stat(log->path, &named) == 0 && same_file(&held, &named);
    if (is_named && held.st_size + (int64_t)bytes <= log->size) return;
    if (is_named) log_rotate(log->path, log->size - (int64_t)bytes);
    int descriptor = open_log(log->path);
    if (descriptor < 0) return; /* the old file has to serve */
    if (fstat(descriptor, &named) == 0 && !same_file(&held, &named) &&
        dup3(descriptor, log->descriptor, O_CLOEXEC) >= 0)
        for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++)
            if (log->is_standard[i]) dup2(descriptor, i);
    close(descriptor);
}

void log_renew(struct log *log) {
    if (log == NULL) return;
    pthread_mutex_lock(&log->lock);
    renew(log, 0);
    pthread_mutex_unlock(&log->lock);
}

/* Ends a line that a full disk cut short before it writes the next line. */
static void write_line(struct log *log, char *room, size_t length) {
    room[0] = '\n';
    size_t skip = log->torn ? 0 : 1;
    ssize_t written = write(log->descriptor, room + skip, length + 1 - skip);
    /* There is nowhere left to report that the log cannot be written. */
    if (written > 0) log->torn = (size_t)written < length + 1 - skip;
}

void log_write_list(struct log *log, enum log_level level, const char *id, const char *format, va_list args) {
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    if (log == NULL || (log->descriptor < 0 && level < log->stderr_level)) return;
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    char room[2048], *line = room + 1; /* write_line may put a line break before it */
    size_t size = sizeof room - 2, used = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &local);
    used += (size_t)snprintf(line + used, size - used, ".%03d %s %s %s ", (int)(now.tv_nsec / 1000000), log->who,
                             names[level], id);
    vsnprintf(line + used, size - used, format, args);
    text_trim(line);
    used = strlen(line);
    /* One event is one line, whatever text the message quotes. */
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < 0x20) *p = ' ';
    line[used++] = '\n';
    if (log->descriptor >= 0) {
        pthread_mutex_lock(&log->lock);
        renew(log, used);
        write_line(log, room, used);
        pthread_mutex_unlock(&log->lock);
    }
    if (level < log->stderr_level) return;
    line[used] = '\0';
    pthread_mutex_lock(&log->lock);
    bool drawn = log->screen != NULL;
    if (drawn) log->screen(log->context, line);
    pthread_mutex_unlock(&log->lock);
    if (!drawn && write(STDERR_FILENO, line, used) < 0) return;
}

void log_write(struct log *log, enum log_level level, const char *id, const char *format, ...) {
    va_list args;
    va_start(args, format);
    log_write_list(log, level, id, format, args);
    va_end(args);
}
