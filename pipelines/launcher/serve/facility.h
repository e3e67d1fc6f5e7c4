/* The sessions of a folder: `icestream serve --sessions DIR`. A session is opened when somebody looks at it, and closed
 * when nobody has for a while. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_FACILITY_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_FACILITY_H

#include "pipelines/launcher/serve/serve.h"

struct facility;
enum status facility_open(const char *folder, struct http_server *server, struct log *log,
                          struct facility **ret_facility, struct err *err);
void facility_close(struct facility **facility);
/* Looks after the sessions that are open. */
void facility_tick(struct facility *facility);
/* Opens the session of that name, the name of its folder. NOT_FOUND: there is none. */
enum status facility_session(struct facility *facility, const char *name, struct serve **ret_serve, struct err *err);
/* Returns what GET /api/sessions answers (facility_list.h). */
enum status facility_sessions(struct facility *facility, json_t **ret_json, struct err *err);

#endif
