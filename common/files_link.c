#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/files_private.h"

enum status file_link(const char *target, const char *path, struct err *err) {
    char folder[PATH_SIZE], aside[PATH_SIZE];
    TRY(path_folder(path, folder, sizeof folder, err));
    int length = snprintf(aside, sizeof aside, "%s/.%s%s.link", folder, path_name(path), file_writer_mark());
    FAIL_IF(length < 0 || (size_t)length >= sizeof aside, err, STATUS_BAD_ARGUMENT, "%s: the path is too long", path);
    (void)unlink(aside); /* of a process that was killed here */
    if (symlink(target, aside) != 0) {
        int reason = errno;
        if (reason == EPERM || reason == EOPNOTSUPP || reason == ENOSYS) return STATUS_OK;
        FAIL(err, status_of_writing(reason), "%s: the link to %s cannot be made: %s", path, target,
             status_reason(reason));
    }
    if (rename(aside, path) != 0) {
        int reason = errno;
        (void)unlink(aside);
        FAIL(err, status_of_writing(reason), "%s: the link to %s cannot be put in its place: %s", path, target,
             status_reason(reason));
    }
    return file_sync_folder(folder, err);
}
