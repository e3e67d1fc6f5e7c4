#include "common/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "common/text.h"

enum status err_set(struct err *err, enum status status, const char *file, int line, const char *format, ...) {
    if (err == NULL) return status;
    err->status = status;
    err->file = file;
    err->line = line;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    text_trim(err->message);
    return status;
}

enum status err_context(struct err *err, enum status status, const char *format, ...) {
    if (err == NULL) return status;
    char before[sizeof err->message];
    memcpy(before, err->message, sizeof before);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof err->message)
        snprintf(err->message + used, sizeof err->message - (size_t)used, ": %s", before);
    text_trim(err->message);
    return status;
}

static bool among(int reason, const int *reasons, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (reasons[i] == reason) return true;
    return false;
}

enum status status_of_reading(int reason) {
    static const int passing[] = {EMFILE, ENFILE, ESTALE, ETIMEDOUT, ENOTCONN, EHOSTDOWN, ENOLCK, EAGAIN};
    if (reason == ENOMEM) return STATUS_NO_MEMORY;
    return among(reason, passing, sizeof passing / sizeof *passing) ? STATUS_UNAVAILABLE : STATUS_IO;
}

/* Returns whether a write failed at the process's limit on the size of files. Without one, EFBIG is the file system's
 * own limit. */
static bool is_file_limit(int reason) {
    struct rlimit limit;
    return reason == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

const char *status_reason(int reason) {
    return is_file_limit(reason) ? "the limit on the size of files is reached (ulimit -f; `prlimit --fsize=unlimited "
                                   "--pid PID` lifts it while the program runs)"
                                 : strerror(reason);
}

enum status status_of_writing(int reason) {
    static const int passing[] = {ENOSPC, EDQUOT, EROFS, EACCES, EPERM, ENOENT, EIO, ENODEV, ENXIO, EBUSY};
    return among(reason, passing, sizeof passing / sizeof *passing) || is_file_limit(reason)
               ? STATUS_UNAVAILABLE
               : status_of_reading(reason);
}

bool status_is_of_file(enum status status) {
    return status == STATUS_BAD_FORMAT || status == STATUS_TRUNCATED || status == STATUS_UNSUPPORTED ||
           status == STATUS_NOT_FOUND || status == STATUS_IO;
}

const char *status_name(enum status status) {
    switch (status) {
    case STATUS_OK:
        return "ok";
    case STATUS_BAD_ARGUMENT:
        return "bad argument";
    case STATUS_NOT_FOUND:
        return "not found";
    case STATUS_IO:
        return "input/output error";
    case STATUS_BAD_FORMAT:
        return "bad format";
    case STATUS_TRUNCATED:
        return "truncated";
    case STATUS_NO_MEMORY:
        return "out of memory";
    case STATUS_UNAVAILABLE:
        return "unavailable";
    case STATUS_UNSUPPORTED:
        return "unsupported";
    case STATUS_BAD_STATE:
        return "bad state";
    case STATUS_DEVICE:
        return "device failed";
    case STATUS_CANCELLED:
        return "cancelled";
    case STATUS_REJECTED:
        return "rejected";
    }
    return "unknown status";
}
