/* All files that the watcher has ever seen. Files are found by path; taken files also by id and by inode. The index of
 * a file stays; its address does not. */
#ifndef ICESTREAM_STAGES_WATCHER_KNOWN_H
#define ICESTREAM_STAGES_WATCHER_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/status.h"

enum known_state {
    KNOWN_WAITING,  /* not looked at yet, or due for another look */
    KNOWN_GROWING,  /* incomplete at the last look */
    KNOWN_REPORTED, /* incomplete, and reported as failed */
    KNOWN_DONE,     /* handed out, a duplicate, or no regular file */
    KNOWN_GONE,     /* deleted before it was taken */
};

struct known_file {
    char *path; /* relative, owned */
    enum known_state state;
    bool asked, was_reported;
    double time;
    int64_t size;
    dev_t device;
    ino_t inode;
    double changed_at, check_at;
};

enum { KNOWN_NONE = -1 };

struct known_table {
    struct known_slot *slots; /* capacity is a power of two, 0 at first */
    size_t capacity, used;
};

struct known {
    struct known_file *files;
    size_t count, capacity;
    struct known_table by_path, by_id, by_inode;
};

void known_destroy(struct known *known);
/* Return the index of a file, or KNOWN_NONE. */
long known_find_path(const struct known *known, const char *path);
long known_find_id(const struct known *known, const char *id);
long known_find_inode(const struct known *known, dev_t device, ino_t inode);
enum status known_add(struct known *known, const char *path, long *ret_index, struct err *err);
/* Enters a file under its id and under the inode that it has now. */
enum status known_take(struct known *known, long index, const char *id, struct err *err);

#endif
