/* Shared by folder.c (looks at files), folder_sweep.c (lists folders) and folder_queue.c (files that wait for a
 * look). */
#ifndef ICESTREAM_STAGES_WATCHER_FOLDER_PRIVATE_H
#define ICESTREAM_STAGES_WATCHER_FOLDER_PRIVATE_H

#include "common/files.h"
#include "common/pattern.h"
#include "stages/watcher/folder.h"
#include "stages/watcher/known.h"

/* A binary heap of files, each an index into known.files. The file to look at next is at the top (folder_before). */
struct queue {
    long *files; /* [capacity] */
    size_t count, capacity;
};

struct folder {
    struct folder_options options;
    struct pattern pattern;
    char *directory;      /* absolute */
    dev_t skip_device[2]; /* device and inode of each folder in options.skip */
    ino_t skip_inode[2];  /* 0: no folder */
    struct known known;
    struct queue waiting;    /* files that are new or due for another look */
    size_t waiting_reported; /* files in `waiting` that were reported as failed */
    long *growing;           /* [growing_capacity] indices of incomplete files that wait for their next look */
    size_t growing_count, growing_capacity;
    double wake_at;     /* time (as `now`) at which the next file of `growing` is due; INFINITY: none */
    double last_change; /* time (as `now`) at which a file last appeared, changed or became ready; −INFINITY: none */
    char path[PATH_SIZE], id[PATH_SIZE]; /* of the file of the last look; folder_find points to these */
};

/* Returns whether file a is looked at before file b: by options.order, then by path. */
bool folder_before(const struct folder *folder, long a, long b);
/* Adds a file to folder->waiting. */
enum status queue_push(struct folder *folder, long file, struct err *err);
/* Removes the next file from folder->waiting and returns its index. The queue must not be empty. */
long queue_pop(struct folder *folder);
/* Frees the list inside the queue, and empties the queue. */
void queue_destroy(struct queue *queue);

#endif
