/* The list of the sessions of a folder. A session that has changed since the list was last asked for is read again; one
 * that runs is kept open, so that reading it costs only what is new. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_FACILITY_LIST_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_FACILITY_LIST_H

#include <jansson.h>
#include <stdbool.h>

#include "common/files.h"

struct facility_list;
/* folder: absolute, without links; borrowed. */
enum status facility_list_create(const char *folder, struct facility_list **ret_list, struct err *err);
/* Closes what is open and frees the list; accepts NULL. */
void facility_list_destroy(struct facility_list **list);
/* Returns what GET /api/sessions answers: {"v": 1, "folder", "sessions": [{"name", "state", "run", "changed", "adds_up",
 * "stages": [{"stage", "in_flight", "done", "rejected", "failed"}], "alarms": […], "message"}]}, by name. state:
 * "running", "draining", "stopped" or "finished"; "reading" until a session was read for the first time; "unreadable", with a
 * message that says why; unknown values are null. The caller owns it. */
enum status facility_list_json(struct facility_list *list, json_t **ret_json, struct err *err);
/* Goes on with reading what was left over. Call it a few times a second. */
void facility_list_tick(struct facility_list *list);

/* Returns whether a folder of that name is a session below `folder`, and its path. A link that leads elsewhere is none:
 * whoever may see this folder may not see others. */
bool facility_path(const char *folder, const char *name, char path[PATH_SIZE]);

#endif
