/* Uses inotify directly. libinotifytools (3.22) keeps its state in globals without a lock, gives no descriptor to wait
 * on, and waits in whole seconds, where 0 means for ever. */
#include "stages/watcher/notices.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/files.h"

enum { EVENTS = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR, BUFFER = 1 << 16 };

struct notices {
    int descriptor;
    char **folders; /* by watch number; NULL: not in use */
    size_t folder_capacity;
    size_t used, taken; /* bytes of the buffer */
    alignas(struct inotify_event) char buffer[BUFFER];
};

enum status notices_open(struct notices **ret_notices, struct err *err) {
    struct notices *notices = calloc(1, sizeof *notices);
    FAIL_IF(notices == NULL, err, STATUS_NO_MEMORY, "no memory for notices of new files");
    notices->descriptor = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (notices->descriptor < 0) {
        int error = errno;
        free(notices);
        FAIL(err, STATUS_UNSUPPORTED, "inotify cannot be used: %s", strerror(error));
    }
    *ret_notices = notices;
    return STATUS_OK;
}

void notices_close(struct notices **notices) {
    if (notices == NULL || *notices == NULL) return;
    close((*notices)->descriptor);
    for (size_t i = 0; i < (*notices)->folder_capacity; i++)
        free((*notices)->folders[i]);
    free((*notices)->folders);
    free(*notices);
    *notices = NULL;
}

/* Sets the path of a watch number. */
static enum status name_watch(struct notices *notices, int watch, const char *folder, struct err *err) {
    size_t index = (size_t)watch;
    if (index >= notices->folder_capacity) {
        size_t capacity = 2 * index + 16;
        char **folders = realloc(notices->folders, capacity * sizeof *folders);
        FAIL_IF(folders == NULL, err, STATUS_NO_MEMORY, "no memory for %zu watched folders", capacity);
        memset(folders + notices->folder_capacity, 0, (capacity - notices->folder_capacity) * sizeof *folders);
        notices->folders = folders;
        notices->folder_capacity = capacity;
    }
    char **name = &notices->folders[index];
    if (*name != NULL && strcmp(*name, folder) == 0) return STATUS_OK;
    char *copy = strdup(folder);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the name of a folder");
    free(*name);
    *name = copy;
    return STATUS_OK;
}

enum status notices_add(struct notices *notices, const char *folder, struct err *err) {
    int watch = inotify_add_watch(notices->descriptor, folder, EVENTS);
    FAIL_IF(watch < 0 && (errno == ENOENT || errno == ENOTDIR), err, STATUS_NOT_FOUND, "%s is no longer a folder",
            folder);
    FAIL_IF(watch < 0, err, STATUS_UNSUPPORTED, "%s cannot be watched by inotify (%s), so it is only swept", folder,
            errno == ENOSPC ? "no more watches are allowed: raise fs.inotify.max_user_watches" : strerror(errno));
    enum status status = name_watch(notices, watch, folder, err);
    if (status != STATUS_OK) inotify_rm_watch(notices->descriptor, watch);
    return status;
}

/* Returns the next event in the buffer and fills the buffer when it is empty; NULL: no event now. */
static const struct inotify_event *next_event(struct notices *notices) {
    if (notices->taken == notices->used) {
        notices->taken = 0;
        ssize_t got = read(notices->descriptor, notices->buffer, sizeof notices->buffer);
        notices->used = got > 0 ? (size_t)got : 0;
    }
    if (notices->used - notices->taken < sizeof(struct inotify_event)) {
        notices->taken = notices->used;
        return NULL;
    }
    /* The system writes whole, aligned events. */
    const struct inotify_event *event = (const void *)(notices->buffer + notices->taken);
    notices->taken += sizeof *event + event->len;
    return event;
}

enum notice notices_next(struct notices *notices, char *path, size_t size) {
    const struct inotify_event *event;
    while ((event = next_event(notices)) != NULL) {
        if (event->mask & IN_Q_OVERFLOW) return NOTICE_LOST;
        char **folder =
            event->wd >= 0 && (size_t)event->wd < notices->folder_capacity ? &notices->folders[event->wd] : NULL;
        if (folder == NULL || *folder == NULL) continue;
        if (event->mask & IN_IGNORED) { /* the folder is gone; a new one of its name gets another number */
            free(*folder);
            *folder = NULL;
        } else if (event->len > 0 && path_join(*folder, event->name, path, size, NULL) == STATUS_OK)
            return NOTICE_PATH;
    }
    return NOTICE_NONE;
}
