/* Shared by folder.c (looks at files), folder_sweep.c (lists folders) and folder_queue.c (files that wait for a
 * look). */
#ifndef ICESTREAM_STAGES_WATCHER_FOLDER_PRIVATE_H
#define ICESTREAM_STAGES_WATCHER_FOLDER_PRIVATE_H

#include "common/files.h"
#include "common/pattern.h"
#include "stages/watcher/folder.h"
#include "stages/watcher/known.h"

/* A heap of files; the first to look at is at its top. */
struct queue {
    long *files;
    size_t count, capacity;
};

struct folder {
    struct folder_options options;
    struct pattern pattern;
    char *directory; /* absolute */
    dev_t skip_device[2];
    ino_t skip_inode[2]; /* 0: none */
    struct known known;
    struct queue waiting;
    size_t waiting_reported; /* how many of them were reported before */
    long *growing;
    size_t growing_count, growing_capacity;
    double wake_at; /* the earliest look at a growing file */
    double last_change;
    char path[PATH_SIZE], id[PATH_SIZE];
};

bool folder_before(const struct folder *folder, long a, long b);
enum status queue_push(struct folder *folder, long file, struct err *err);
long queue_pop(struct folder *folder);
void queue_destroy(struct queue *queue);

#endif
