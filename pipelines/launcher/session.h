/* The session folder, as the launcher keeps it:
 *   graph.yaml  the graph that it runs, resolved, with versions
 *   ledger/     one SQLite file a stage
 *   log/        plan.json (what status needs to know), lock, sockets (their folder), and of each instance: its orders (NAME.instance.json), log
 *               (NAME.log), heartbeat (NAME.heartbeat.json) and what is in process (NAME.current) */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SESSION_H
#define ICESTREAM_PIPELINES_LAUNCHER_SESSION_H

#include <jansson.h>
#include <stdbool.h>

#include "common/edges/ledger.h"
#include "common/files.h"
#include "pipelines/launcher/plan.h"

struct session {
    char path[PATH_SIZE]; /* absolute */
    int lock;             /* −1: none */
    int run;              /* from 1; counts the times it was started */
    double patience;      /* s to wait for a ledger that a stage holds; 0: as long as stages wait */
};

/* Makes the folder where needed, takes the lock, and compares the graph with that of earlier runs. BAD_STATE: another
 * launcher runs it. BAD_ARGUMENT: the graph has changed; the message names the difference. */
enum status session_begin(const char *path, const struct plan *plan, struct session *ret_session, struct err *err);
void session_end(struct session *session);

/* A session that exists, without the lock. */
enum status session_find(const char *path, struct session *ret_session, struct err *err);
bool session_is_running(const struct session *session);
/* log/plan.json: {"run", "stages": [{"name", "program", "from": […], "instances": […], "cumulative", "left_out"}]} */
enum status session_read_plan(const struct session *session, json_t **ret_plan, struct err *err);
/* "log", "watcher.0", ".log" → SESSION/log/watcher.0.log */
enum status session_file(const struct session *session, const char *folder, const char *name, const char *ending,
                         char path[PATH_SIZE], struct err *err);
/* *ret_ledger is NULL when the stage keeps none. UNAVAILABLE: others held it for longer than the session's patience. */
enum status session_ledger(const struct session *session, const char *stage, bool read_only, struct ledger **ret_ledger,
                           struct err *err);

/* graph.yaml (graph_print.c). */
enum status graph_print(const struct graph *graph, char **ret_text, struct err *err);
/* The first difference that matters to results, as text; "" when there is none. */
void graph_difference(const struct graph *old, const struct graph *new, char *text, size_t size);

/* What an instance is told (instance.c). */
struct instance_orders {
    double until_idle;    /* negative: none */
    int64_t log_size;     /* bytes */
    const char *recorded; /* the folder that is played again, to which files may be linked; NULL: none */
    const char *curve_public, *curve_secret; /* NULL: no encryption */
};
enum status instance_write(const struct session *session, const struct plan *plan, size_t instance,
                           const struct instance_orders *orders, struct err *err);

#endif
