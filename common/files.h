/* Files and paths: writing so that a file is whole or not there, folders, names.
 *
 * A product is written beside its place as ".NAME.partial", synced, renamed, and its folder synced: after a crash or a
 * power cut there is the old file or the new one, never half of one. A partial file that a killed process left behind
 * is overwritten by the next one that writes the same product. */
#ifndef ICESTREAM_COMMON_FILES_H
#define ICESTREAM_COMMON_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/status.h"

enum { PATH_SIZE = 4096 }; /* bytes that a buffer for a path needs */

/* A file that is being written. Its folder must exist. Two writers of one path (threads or processes) take turns: the
 * second waits in file_create, and after 5 s takes over from one that stands still, whose commit then fails. */
struct file_output;
enum status file_create(const char *path, struct file_output **ret_output, struct err *err);
/* Where to write; fileno() of it may be used after fflush(). Owned by the output. */
FILE *file_output_stream(struct file_output *output);
/* Reports any write that failed, syncs and renames into place. Frees and nulls the output, also when it fails: then the
 * partial file is removed and what was at `path` stays. */
enum status file_commit(struct file_output **output, struct err *err);
/* The same of one of many files in a folder, which the caller syncs when all are in place (file_sync_folder): until then
 * a power cut may bring back what was there. */
enum status file_place(struct file_output **output, struct err *err);
/* Removes what was written; accepts NULL. Fits _cleanup_: after file_commit it does nothing. */
void file_discard(struct file_output **output);

/* Create, write, commit. */
enum status file_write_whole(const char *path, const void *bytes, size_t length, struct err *err);

/* One line more at the end of a file, synced; `text` has no line break. A last line that a crash cut short is replaced.
 * On failure the file is as it was. One writer at a time. */
enum status file_append_line(const char *path, const char *text, struct err *err);

/* The whole file and a terminating 0 that ret_length does not count, freed by the caller. More than `limit` bytes are
 * STATUS_BAD_FORMAT; folders and devices are refused. ret_length may be NULL. */
enum status file_read_whole(const char *path, size_t limit, char **ret_text, size_t *ret_length, struct err *err);

/* Opens for reading, close-on-exec; only regular files. A missing file is STATUS_NOT_FOUND, STATUS_UNAVAILABLE where its
 * folder is missing too. ret_size may be NULL. */
enum status file_open_read(const char *path, int *ret_descriptor, int64_t *ret_size, struct err *err);
/* Fails with what is to be said of a file that is not there: STATUS_UNAVAILABLE where its folder is missing too, since
 * both may come back (a disk that is not mounted, a folder that was moved). */
enum status file_missing(const char *path, struct err *err);
/* Closes and sets to −1; fits _cleanup_ of an int that starts as −1. */
void file_close(int *descriptor);
/* Exactly `length` bytes from `offset`; an end before that is STATUS_TRUNCATED. `path` is for the message. */
enum status file_read_at(int descriptor, const char *path, int64_t offset, void *bytes, size_t length, struct err *err);

bool file_exists(const char *path); /* of any kind; a dangling symbolic link does not count */
bool file_is_folder(const char *path);
/* mkdir -p: what is missing on the way is made with `mode` (less the umask) and outlives a power cut; a folder that exists
 * is left as it is. */
enum status file_make_folders(const char *path, mode_t mode, struct err *err);
/* The entries of a folder outlive a power cut. */
enum status file_sync_folder(const char *folder, struct err *err);
/* The same for all folders below it, and its own place in the one above: after a process that may have been killed before
 * it had synced what it made. */
enum status file_sync_folders(const char *folder, struct err *err);
/* The folders in which the file `path` lies. */
enum status file_make_parents(const char *path, mode_t mode, struct err *err);

/* The greatest number, above 0 and below `before`, that stands between prefix and suffix in the name of an entry of the
 * folder; 0: there is none. */
int file_last_number(const char *folder, const char *prefix, const char *suffix, int before);

/* Whether `path` is `folder` or lies below it, by their texts alone. ret_rest: what follows the folder, "" where they are
 * one; points into path; may be NULL. */
bool path_is_below(const char *path, const char *folder, const char **ret_rest);
/* "folder/name", or name alone where it is absolute or folder is "". */
enum status path_join(const char *folder, const char *name, char *ret_path, size_t size, struct err *err);
/* Without the last ending: "a.b/mic_1.mrc" → "a.b/mic_1"; a name without one, or that begins with its only dot, stays.
 */
enum status path_without_ending(const char *path, char *ret_path, size_t size, struct err *err);
/* The stem of the names of an item's products: the path, with a last part of more than 200 bytes shortened to at most 183
 * of them, "~" and 16 hexadecimal digits of the whole path's hash, so that with any suffix it stays below the 255 bytes
 * that a name may have, is the same every time, and is nobody else's. ret_stem may be `path`. */
enum status path_stem(const char *path, char *ret_stem, size_t size, struct err *err);
/* What precedes the last slash: "a/b" → "a", "b" → ".", "/b" → "/". */
enum status path_folder(const char *path, char *ret_path, size_t size, struct err *err);
/* The part after the last slash; points into path. */
const char *path_name(const char *path);

#endif
