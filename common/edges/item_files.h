/* Keeps in an item the size, time and digest of each file that it names, so that a later stage notices a file that was
 * replaced under its name. Member "files" of the item, by path:
 *   "files": {"/data/grid1/mic_0001.mrc": {"size": 67109888, "mtime_ns": …, "inode": …, "digest": "…"}}
 * Whoever first reads a file adds its digest; "inode" and "digest" may be missing. */
#ifndef ICESTREAM_COMMON_EDGES_ITEM_FILES_H
#define ICESTREAM_COMMON_EDGES_ITEM_FILES_H

#include <stdint.h>

#include "common/edges/item.h"

struct item_file {
    int64_t size, mtime_ns; /* bytes; ns since 1970 */
    uint64_t inode;         /* 0: not known */
    const char *digest;     /* "": not known; borrowed from the item */
};

/* Reads what the item says about a file; returns false, and leaves ret_file as it is, if it says nothing. */
bool item_file(const struct item *item, const char *path, struct item_file *ret_file);
/* Replaces what the item says about a file. */
enum status item_set_file(struct item *item, const char *path, const struct item_file *file, struct err *err);
/* Returns whether a member of the item, other than "files", is this text. */
bool item_names(const struct item *item, const char *path);
/* Visits each text of the item that looks like a path (it holds a slash): not those of "id", "source" and "files". */
typedef enum status item_path_visit(const char *path, void *context, struct err *err);
enum status item_each_path(const struct item *item, item_path_visit *visit, void *context, struct err *err);

#endif
