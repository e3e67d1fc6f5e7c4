/* Files and paths: writes each file whole or not at all, makes folders, builds names.
 *
 * A product is first written beside its place as ".NAME.partial", then synced and renamed, and its folder is synced.
 * After a crash or a power cut there is the old file or the new one, never half of one. When a killed process has left
 * a partial file, the next process that writes the same product overwrites it. Where several hosts write, see
 * file_share. */
#ifndef ICESTREAM_COMMON_FILES_H
#define ICESTREAM_COMMON_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "common/status.h"

enum { PATH_SIZE = 4096 }; /* bytes of a buffer for a path */

/* A file that is being written. Its folder must exist. Two writers of one path (threads or processes) take turns: the
 * second waits in file_create. After 5 s it takes over from a writer that stands still, whose commit then fails. */
struct file_output;
enum status file_create(const char *path, struct file_output **ret_output, struct err *err);
/* Returns the stream to write to, which the output owns; fileno() of it may be used after fflush(). */
FILE *file_output_stream(struct file_output *output);
/* Finishes the file: reports any write that failed, syncs, and renames into place. Frees and nulls the output, even on
 * failure; a failure removes the partial file and leaves what was at `path`. */
enum status file_commit(struct file_output **output, struct err *err);
/* Does the same for one of many files in a folder, without syncing the folder. The caller calls file_sync_folder when
 * all are in place; until then a power cut may bring back the old files. */
enum status file_place(struct file_output **output, struct err *err);
/* Removes what was written; accepts NULL. Fits _cleanup_: does nothing after file_commit. */
void file_discard(struct file_output **output);

/* Gives all partial files of this process a name of its own, ".NAME.HOST-TOKEN.partial". Call it at the start of a process
 * that writes where other hosts write, too: no lock orders the writers of one path there; each writes its own partial
 * file, and the last one to finish counts. host NULL: the names are those of a single host again. token: ends in
 * at least 8 hexadecimal digits, others with each start. Not for a process that has other threads already. */
void file_share(const char *host, const char *token);
/* Removes partial files with such names in a folder and below it. host: only those that processes of this host have left
 * behind, which their locks tell. NULL: all, also those of writers that still run; their file_commit then fails with
 * STATUS_UNAVAILABLE, and they write the file again. What cannot be removed stays. */
void file_sweep(const char *folder, const char *host);

/* Returns when the content of a file last changed, in ns since 1970. */
int64_t file_mtime_ns(const struct stat *info);

/* Someone who wants to know which files a thread opens with file_open_read (all readers of formats do), and which it
 * places: the descriptor is open for reading, and the content is whole. An error from the observer is one of the call
 * that it observes. A function may be NULL. */
struct file_observer {
    void *context;
    enum status (*read)(void *context, const char *path, int descriptor, const struct stat *info, struct err *err);
    enum status (*written)(void *context, const char *path, int descriptor, const struct stat *info, struct err *err);
    void (*removed)(void *context, const char *path); /* with file_remove */
};
/* Sets the observer of the calling thread (NULL: nobody), which must outlive this, and returns the one before. A worker
 * (common/worker.h) has for each job the observer of the thread that starts the job. */
const struct file_observer *file_observe(const struct file_observer *observer);
/* Returns the observer of the calling thread, for the threads that help it; NULL: nobody. */
const struct file_observer *file_observed_by(void);

/* Removes a file that its writer no longer wants, such as one of an earlier iteration. A file that is not there is no
 * error. */
enum status file_remove(const char *path, struct err *err);

/* Makes a symbolic link at `path`, or lets the one that is there lead to another `target`: at every moment, also after
 * a kill or a power cut, path leads to the old target or to the new one. target counts from the folder of path. One
 * process at a time may do this for a path. Does nothing on a file system without symbolic links. */
enum status file_link(const char *target, const char *path, struct err *err);

/* Creates, writes and commits a file. */
enum status file_write_whole(const char *path, const void *bytes, size_t length, struct err *err);

/* Does the same unless there is a file of that name, which stays as it is; ret_new: false then. Of several writers, also
 * on several hosts, one alone makes the file. */
enum status file_write_new(const char *path, const void *bytes, size_t length, bool *ret_new, struct err *err);

/* Adds one line to the end of a file and syncs it; `text` has no line break. Replaces a last line that a crash cut
 * short. On failure the file stays as it was. Only one writer at a time. */
enum status file_append_line(const char *path, const char *text, struct err *err);

/* Reads the whole file and adds a terminating 0 that ret_length does not count; the caller frees it. STATUS_BAD_FORMAT
 * for more than `limit` bytes; refuses folders and devices. ret_length may be NULL. */
enum status file_read_whole(const char *path, size_t limit, char **ret_text, size_t *ret_length, struct err *err);

/* Opens a regular file for reading, close-on-exec. A missing file is STATUS_NOT_FOUND, or STATUS_UNAVAILABLE when its
 * folder is missing too. ret_size may be NULL. */
enum status file_open_read(const char *path, int *ret_descriptor, int64_t *ret_size, struct err *err);
/* Fails with the message for a missing file: STATUS_UNAVAILABLE when its folder is missing too, since both may come
 * back (a disk that is not mounted, a folder that was moved), else STATUS_NOT_FOUND. */
enum status file_missing(const char *path, struct err *err);
/* Closes the descriptor and sets it to −1; fits _cleanup_ of an int that starts as −1. */
void file_close(int *descriptor);
/* Reads exactly `length` bytes from `offset`; STATUS_TRUNCATED when the file ends before that. `path` is for the
 * message. */
enum status file_read_at(int descriptor, const char *path, int64_t offset, void *bytes, size_t length, struct err *err);

bool file_exists(const char *path); /* true for any kind of file; false for a dangling symbolic link */
/* Returns whether the path is a folder, also through a symbolic link. */
bool file_is_folder(const char *path);
/* Makes a folder and those above it, as mkdir -p does: new folders get `mode` (less the umask) and survive a power cut;
 * existing folders stay as they are. */
enum status file_make_folders(const char *path, mode_t mode, struct err *err);
/* Makes the entries of a folder survive a power cut. */
enum status file_sync_folder(const char *folder, struct err *err);
/* Does the same for all folders below it, and for its own entry in the folder above. Call it when an earlier process
 * may have been killed before it had synced what it made. */
enum status file_sync_folders(const char *folder, struct err *err);
/* Makes the folders in which the file `path` lies. */
enum status file_make_parents(const char *path, mode_t mode, struct err *err);

/* Returns the greatest number, above 0 and below `before`, that stands between prefix and suffix in the name of an
 * entry of the folder; 0: there is none. */
int file_last_number(const char *folder, const char *prefix, const char *suffix, int before);

/* Returns whether `path` is `folder` or lies below it, by their texts alone. ret_rest: the part after the folder, ""
 * when they are equal; points into path; may be NULL. */
bool path_is_below(const char *path, const char *folder, const char **ret_rest);
/* Takes "./", "//" and "x/.." out of an absolute path, and leaves links. Returns false, with the path as it was, if it
 * would then lead to another file (".." behind a link) or leads to none. */
bool path_plain(char path[PATH_SIZE]);
/* Returns "folder/name"; returns name alone when it is absolute or folder is "". */
enum status path_join(const char *folder, const char *name, char *ret_path, size_t size, struct err *err);
/* Returns the last part of a path, and its length without the last ending. A name without an ending, or whose only dot
 * comes first, counts whole. */
const char *path_base(const char *path, size_t *ret_length);
/* Removes the last ending: "a.b/mic_1.mrc" → "a.b/mic_1". A name without an ending, or whose only dot comes first,
 * stays. */
enum status path_without_ending(const char *path, char *ret_path, size_t size, struct err *err);
/* Returns the stem of the names of an item's products: the path itself, unless its last part has more than 200 bytes.
 * Such a part is shortened to at most 183 bytes, then "~" and 16 hexadecimal digits of the whole path's hash. With any
 * suffix it stays below the 255 bytes that a name may have, is the same every time, and belongs to this path only.
 * ret_stem may be `path`. */
enum status path_stem(const char *path, char *ret_stem, size_t size, struct err *err);
/* Returns what precedes the last slash: "a/b" → "a", "b" → ".", "/b" → "/". */
enum status path_folder(const char *path, char *ret_path, size_t size, struct err *err);
/* Returns the part after the last slash; points into path. */
const char *path_name(const char *path);

#endif
