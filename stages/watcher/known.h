/* Stores all files that the watcher has ever seen. Files are found by path, and taken files also by id and by inode.
 * The index of a file in known.files never changes; its address does when the list grows. */
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
    char *path; /* relative to the watched folder, owned */
    enum known_state state;
    /* asked: folder_options.past was asked. was_reported: reported as failed, in this run or in an earlier run. */
    bool asked, was_reported;
    bool given_up; /* it was taken, and another file of its id has taken its place */
    bool follows;  /* a micrograph whose item an earlier run made of a picture */
    double time;   /* of the last change, s since 1970 */
    int64_t size;  /* bytes */
    dev_t device;
    ino_t inode;
    int64_t revision; /* 0; of a file that was replaced after it was taken: when that was seen, ms since 1970 */
    double changed_at, check_at; /* s on the clock of folder.h: last change that was seen, next look */
};

enum { KNOWN_NONE = -1 };

struct known_table {
    struct known_slot *slots; /* capacity is a power of two, 0 at first */
    size_t capacity, used;
};

struct known {
    struct known_file *files;
    size_t count, capacity;
    struct known_table by_path, by_id, by_inode, by_stem;
    char **folders; /* [folder_count] that hold or held a file, relative to the watched folder; "" is that one */
    size_t folder_count, folder_capacity;
    struct known_table by_folder;
};

/* Frees the memory. */
void known_destroy(struct known *known);
/* Return the index of a file, or KNOWN_NONE. */
long known_find_path(const struct known *known, const char *path);
long known_find_id(const struct known *known, const char *id);
long known_find_inode(const struct known *known, dev_t device, ino_t inode);
/* Finds the files whose base name without ending is that of `path`, one with each call. *position is 0 before the first
 * call. Returns KNOWN_NONE after the last. */
long known_next_namesake(const struct known *known, const char *path, size_t *position);
/* Adds a file whose path is not known yet. Copies the path. */
enum status known_add(struct known *known, const char *path, long *ret_index, struct err *err);
/* Marks a file as taken: from now on it is found by this id and by its present inode too. */
enum status known_take(struct known *known, long index, const char *id, struct err *err);

#endif
