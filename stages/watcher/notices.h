/* Notices of the system that something happened in a folder (inotify). They are a hint: some file systems never send
 * one (NFS, SMB, Lustre), and the queue can overflow. One thread. */
#ifndef ICESTREAM_STAGES_WATCHER_NOTICES_H
#define ICESTREAM_STAGES_WATCHER_NOTICES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct notices;
enum status notices_open(struct notices **ret_notices, struct err *err);
void notices_close(struct notices **notices);

/* Watches a folder (absolute path), not what is below it. To be said again at any time: one that is watched stays so,
 * and is known by this path from now on. STATUS_NOT_FOUND when it is gone, STATUS_UNSUPPORTED when the system allows no
 * more watches. */
enum status notices_add(struct notices *notices, const char *folder, struct err *err);

enum notice { NOTICE_NONE, NOTICE_PATH, NOTICE_LOST };
/* The next notice, without waiting. PATH: something was made, written to its end or moved here; its absolute path is in
 * path[size]. LOST: some notices were lost: sweep. */
enum notice notices_next(struct notices *notices, char *path, size_t size);

#endif
