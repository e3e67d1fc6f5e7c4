#include "stages/watcher/notices.h"

#include <errno.h>
#include <inotifytools/inotify.h>
#include <inotifytools/inotifytools.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"

enum { EVENTS = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR };

struct notices {
    size_t folders;
};

/* The library's own state is what there is one of. */
static atomic_flag library_in_use = ATOMIC_FLAG_INIT;

enum status notices_open(struct notices **ret_notices, struct err *err) {
    FAIL_IF(atomic_flag_test_and_set(&library_in_use), err, STATUS_BAD_STATE,
            "libinotifytools is in use already: only one folder can be watched by a process");
    struct notices *notices = calloc(1, sizeof *notices);
    if (notices == NULL || !inotifytools_initialize()) {
        int error = notices == NULL ? ENOMEM : inotifytools_error();
        free(notices);
        atomic_flag_clear(&library_in_use);
        FAIL(err, STATUS_UNSUPPORTED, "inotify cannot be used: %s", strerror(error));
    }
    *ret_notices = notices;
    return STATUS_OK;
}

void notices_close(struct notices **notices) {
    if (notices == NULL || *notices == NULL)
        return;
    inotifytools_cleanup();
    free(*notices);
    *notices = NULL;
    atomic_flag_clear(&library_in_use);
}

enum status notices_add(struct notices *notices, const char *folder, struct err *err) {
    if (inotifytools_wd_from_filename(folder) >= 0)
        return STATUS_OK;
    FAIL_IF(!inotifytools_watch_file(folder, EVENTS), err, STATUS_UNSUPPORTED,
            "%s cannot be watched by inotify (%s), so it is only swept", folder, strerror(inotifytools_error()));
    notices->folders++;
    return STATUS_OK;
}

enum notice notices_next(struct notices *notices, char *path, size_t size) {
    if (notices->folders == 0)
        return NOTICE_NONE;
    for (;;) {
        struct inotify_event *event = inotifytools_next_event(0);
        if (event == NULL)
            return NOTICE_NONE;
        if (event->mask & IN_Q_OVERFLOW)
            return NOTICE_LOST;
        if (event->mask & IN_IGNORED) { /* the folder is gone; one of that name may come again */
            inotifytools_remove_watch_by_wd(event->wd);
            continue;
        }
        const char *folder = event->len > 0 ? inotifytools_filename_from_wd(event->wd) : NULL;
        if (folder != NULL && path_join(folder, event->name, path, size, NULL) == STATUS_OK)
            return NOTICE_PATH;
    }
}
