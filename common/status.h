/* The result of a call, and the message about it for the user.
 *
 * Functions that can fail return `enum status` and take `struct err *err` last. On failure they fill `err` and leave
 * every `ret_` output untouched. A caller that does not need the message passes NULL. Messages name the file, the value
 * found, what was expected and what to do. */
#ifndef ICESTREAM_COMMON_STATUS_H
#define ICESTREAM_COMMON_STATUS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum status {
    STATUS_OK = 0,
    STATUS_BAD_ARGUMENT, /* a parameter or an option is wrong */
    STATUS_NOT_FOUND,    /* a requested file, key, column or item is not there */
    STATUS_IO,           /* the system refused: open, read, write, rename, socket */
    STATUS_BAD_FORMAT,   /* the content contradicts the file's name or header */
    STATUS_TRUNCATED,    /* the content ends too early; more may still come */
    STATUS_NO_MEMORY,
    STATUS_UNAVAILABLE, /* the machine lacks something that may come back: room on the disk, a folder, a right to write
                           to it, file descriptors; the item is in order, and trying again later is right */
    STATUS_UNSUPPORTED, /* valid, but this build or device cannot do it */
    STATUS_BAD_STATE,   /* called in the wrong order */
    STATUS_DEVICE,      /* a device failed; the stage ends */
    STATUS_CANCELLED,   /* the stage was asked to stop */
    STATUS_REJECTED,    /* not an error: the item is fine but not wanted; the message is the reason */
};

struct err {
    enum status status;
    const char *file; /* place in the source, static storage */
    int line;
    char message[768];
};

/* Fills `err` (unless NULL) and returns `status`. */
enum status err_set(struct err *err, enum status status, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Puts "context: " before the message, to say what was being done, and returns `status`. */
enum status err_context(struct err *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return the status for a refusal (errno) of the system. When writing, everything that is not the fault of the name or
 * of the data is STATUS_UNAVAILABLE. When reading, a missing or unreadable file concerns that file only (STATUS_IO),
 * except for a lack of descriptors and for network file systems that are away. */
enum status status_of_writing(int reason);
enum status status_of_reading(int reason);
/* Returns the system's text for a refusal (errno) of a write; EFBIG names the limit of the process that is reached, if
 * it has one. */
const char *status_reason(int reason);

/* Returns whether the fault lies with a file; not with the machine, which may recover, nor with the caller. */
bool status_is_of_file(enum status status);

/* Returns a short English name: "bad format". */
const char *status_name(enum status status);

#define FAIL(err, status, ...) return err_set((err), (status), __FILE__, __LINE__, __VA_ARGS__)

#define FAIL_IF(condition, err, status, ...)                                                                           \
    do {                                                                                                               \
        if (condition) FAIL(err, status, __VA_ARGS__);                                                                 \
    } while (0)

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        enum status try_status_ = (call);                                                                              \
        if (try_status_ != STATUS_OK) return try_status_;                                                              \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
