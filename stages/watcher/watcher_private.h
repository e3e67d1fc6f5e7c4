/* What the parts of the watcher share: the queue of files that wait for a look, the sweep. */
#ifndef ICESTREAM_STAGES_WATCHER_WATCHER_PRIVATE_H
#define ICESTREAM_STAGES_WATCHER_WATCHER_PRIVATE_H

#include "common/files.h"
#include "common/pattern.h"
#include "stages/watcher/known.h"
#include "stages/watcher/watcher.h"

/* A heap of files; the first to hand out is at its top. */
struct queue {
    long *files;
    size_t count, capacity;
};

struct watcher {
    struct watcher_options options;
    struct pattern pattern;
    char *directory; /* absolute */
    dev_t skip_device[2];
    ino_t skip_inode[2]; /* 0: none */
    struct known known;
    struct queue waiting;
    size_t waiting_reported; /* of them, reported before */
    long *growing;
    size_t growing_count, growing_capacity;
    double wake_at; /* none of them is due before */
    double last_change;
    char path[PATH_SIZE], id[PATH_SIZE];
};

bool watcher_before(const struct watcher *watcher, long a, long b);
enum status queue_push(struct watcher *watcher, long file, struct err *err);
long queue_pop(struct watcher *watcher);
void queue_destroy(struct queue *queue);

#endif
