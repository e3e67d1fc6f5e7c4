/* One session as `icestream serve` shows it, and what is done for it at regular times.
 *
 * A part (alarms, events, the report) keeps its own state behind a pointer here; the table of parts in serve_parts.c
 * makes it, calls it four times a second and frees it. Everything runs on the house thread. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_SERVE_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_SERVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/files.h"
#include "pipelines/launcher/serve/http.h"

struct view;
struct http_server;
struct events;
struct alarms;
struct api;
struct report_keeper;
struct log;

struct serve {
    char folder[PATH_SIZE];     /* of the session, absolute */
    int folder_fd;              /* of the same */
    bool away;                  /* the last look at the session failed; the view shows what it knew */
    double failed;              /* s of clock_monotonic: when a look last failed */
    bool one_of_many;           /* of `serve --sessions`: the session's own server keeps and tells its alarms */
    bool read_only;             /* nothing can be written below the session's web/ */
    struct view *view;          /* everything that is read of the session comes through it; never NULL in a handler */
    unsigned changed;           /* what view_poll found since the last tick: bits VIEW_*; valid during a tick */
    double now;                 /* s since 1970: of this request or tick */
    double now_monotonic;       /* s of clock_monotonic: the same moment */
    double begun;               /* s since 1970: when this server began */
    double listened;            /* s of clock_monotonic: when somebody last listened to events, or the begin */
    int64_t requests;           /* answered so far */
    struct log *log;            /* of the server; may be NULL */
    struct http_server *server; /* which has the listeners */
    struct events *events;      /* server-sent events (events.h) */
    struct alarms *alarms;      /* state of other parts; NULL until their begin has made it */
    struct api *api;
    struct report_keeper *report;
};

enum { SERVE_TICK_MS = 250, SERVE_ALONE = 120 /* s without listeners after which events are no longer kept */ };
#define SERVE_PATIENCE 0.25 /* s to wait for a ledger that others hold: nobody is served meanwhile */

/* A part that has state or work of its own. Any function may be NULL. */
struct serve_part {
    const char *name;
    enum status (*begin)(struct serve *serve, struct err *err); /* a failure is logged; the rest goes on without it */
    void (*tick)(struct serve *serve);                          /* every SERVE_TICK_MS, after the view was polled */
    void (*end)(struct serve *serve);
};
/* serve_parts.c: in the order of their calls, ended by a row without name. */
extern const struct serve_part serve_parts[];

/* Opens a regular file below the session for reading. path: relative to the session; it may neither leave the session,
 * also not through a link, nor be a folder or a device. NOT_FOUND otherwise. */
enum status serve_open_beneath(const struct serve *serve, const char *path, int *ret_descriptor, int64_t *ret_size,
                               struct err *err);
/* Opens a folder below the session in the same way, for readdir. Returns -1 where there is none. */
int serve_open_folder(const struct serve *serve, const char *path);
/* Builds the path of a file in the session's folder web, which it makes if it is not there. UNAVAILABLE where nothing
 * can be written. */
enum status serve_web_file(const struct serve *serve, const char *name, char path[PATH_SIZE], struct err *err);

/* Opens a session, and begins all parts. server and log are borrowed; both may be NULL. NOT_FOUND: no session is there. */
enum status serve_open(const char *folder, struct http_server *server, struct log *log, struct serve **ret_serve,
                       struct err *err);
/* Ends all parts and frees it; accepts NULL. */
void serve_close(struct serve **serve);
/* Looks what has changed, and calls all parts. */
void serve_tick(struct serve *serve);

/* Returns whether somebody listens, or did SERVE_ALONE ago or later and may come back for what he has missed. When not,
 * the events of before are forgotten, and those who come back begin anew. */
bool serve_is_heard(struct serve *serve);
/* Sends an event to all who listen, and keeps it for those who come back. event: one word ("status", "rows", "product",
 * "alarm"). Steals the reference. */
void serve_publish(struct serve *serve, const char *event, json_t *json);
/* The same for JSON in one line; NULL: it did not fit into memory. */
void serve_publish_text(struct serve *serve, const char *event, const char *data);
/* Returns how many listen. */
int serve_listeners(const struct serve *serve);

#endif
