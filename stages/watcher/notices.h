/* Receives the system's notices that something happened in a folder (inotify). Notices are hints: some file systems
 * send none (NFS, SMB, Lustre), and the queue can overflow. One thread. */
#ifndef ICESTREAM_STAGES_WATCHER_NOTICES_H
#define ICESTREAM_STAGES_WATCHER_NOTICES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct notices;
/* Opens a list of watched folders, empty at first. */
enum status notices_open(struct notices **ret_notices, struct err *err);
void notices_close(struct notices **notices);

/* Watches a folder (absolute path), but not the folders below it. May be called again for a watched folder: the folder
 * is then known by the new path. STATUS_NOT_FOUND when the folder is gone, STATUS_UNSUPPORTED when the system allows no
 * more watches. */
enum status notices_add(struct notices *notices, const char *folder, struct err *err);

enum notice { NOTICE_NONE, NOTICE_PATH, NOTICE_LOST };
/* Returns the next notice, without waiting. NOTICE_PATH: something was created, written and closed, or moved here; its
 * absolute path is in path[size]. NOTICE_LOST: notices were lost, so the caller must sweep. */
enum notice notices_next(struct notices *notices, char *path, size_t size);

#endif
