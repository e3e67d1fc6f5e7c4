/* Keeps the list of what a watcher leaves out: pictures of micrographs, second names of a file, gain references, folders
 * of other sessions. The list lies in left_out.json in the stage's folder, [{"path", "reason", "time"}], the latest
 * LEFT_OUT_MAX of them, the oldest first; `icestream status --json` shows it. None of them counts as an item. */
#ifndef ICESTREAM_STAGES_WATCHER_LEFT_OUT_H
#define ICESTREAM_STAGES_WATCHER_LEFT_OUT_H

#include "common/status.h"

enum { LEFT_OUT_MAX = 1000 };

struct left_out;
/* Goes on with the list in the file `path`; an unreadable file, or none, is an empty list: the watcher finds again what
 * it leaves out. */
enum status left_out_open(const char *path, struct left_out **ret_list, struct err *err);
void left_out_close(struct left_out **list);
/* Adds a file or folder (absolute path), or gives the one that is there another reason. */
enum status left_out_add(struct left_out *list, const char *path, const char *reason, struct err *err);
/* Removes a file that is taken after all. */
void left_out_remove(struct left_out *list, const char *path);
/* Writes the file if the list has changed since. */
enum status left_out_write(struct left_out *list, struct err *err);

#endif
