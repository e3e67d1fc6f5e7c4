/* The session folder, as the launcher keeps it:
 *   graph.yaml  the resolved graph, with versions
 *   ledger/     one SQLite file for each stage; or postgresql.json, which says where the ledgers are instead
 *   log/        plan.json (what `status` needs), lock, sockets (their folder, or a file with its path); for each
 *               instance its orders (NAME.instance.json), log (NAME.log), heartbeat (NAME.heartbeat.json) and the item
 *               in process (NAME.current) */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SESSION_H
#define ICESTREAM_PIPELINES_LAUNCHER_SESSION_H

#include <jansson.h>
#include <stdbool.h>

#include "common/edges/ledger.h"
#include "common/edges/ledger_address.h"
#include "common/edges/ledger_lease.h"
#include "common/files.h"
#include "pipelines/launcher/plan.h"

enum { SESSION_ID_SIZE = 33 };

struct session {
    char path[PATH_SIZE];     /* absolute */
    int lock;                 /* −1: none */
    char id[SESSION_ID_SIZE]; /* random text, the same in every run; "": of a version without ids */
    int run;                  /* from 1; counts how often the session was started */
    bool separate;            /* products lie below STAGE/SOURCE/, as when the session began; set by session_begin */
    char server[LEDGER_URL_SIZE]; /* of the ledgers in PostgreSQL; "": they are files */
    bool holds;                   /* a run has begun, to which the ledgers there belong */
    struct ledger_lease *lease;   /* of who runs it; NULL: there is none, or others have it */
    double patience; /* s to wait for a ledger that a stage holds, and for others who change the session; 0: as long as
                        stages wait (LEDGER_PATIENCE), and for others without end */
};

/* Makes the folder when it is missing, takes the lock, and compares the graph with that of earlier runs. BAD_STATE:
 * another launcher runs this session. BAD_ARGUMENT: the graph has changed where it may not; the message names the
 * differences. */
enum status session_begin(const char *path, const struct plan *plan, struct session *ret_session, struct err *err);
/* Takes the lock of a session that session_find has found, so that nobody runs it meanwhile. BAD_STATE: another
 * launcher runs it. */
enum status session_hold(struct session *session, struct err *err);
/* Gives lock and lease back. */
void session_end(struct session *session);

/* Opens a session that exists, without the lock. */
enum status session_find(const char *path, struct session *ret_session, struct err *err);
/* Returns whether a launcher runs this session. */
bool session_is_running(const struct session *session);
/* Reads log/plan.json: {"run", "utc_offset" (s), "separate", "stages": [{"name", "program", "from": […], "instances": […], "cumulative",
 * "revisions"}]}. Earlier versions have "left_out", true for a stage that was not started. */
enum status session_read_plan(const struct session *session, json_t **ret_plan, struct err *err);
/* Returns whether a stage of the plan keeps a ledger: ours do. A program of others is known by what it acknowledges. */
bool session_keeps_ledger(const json_t *planned);
/* Returns whether a program is one of ours, by its name. */
bool session_is_ours(const char *program);
/* Returns whether the items that are done in a stage of the plan go on as they are; a cumulative stage sends what it made
 * from many. */
bool session_passes_on(const json_t *planned);
/* session_owner.c: BAD_STATE, with what to do, when files of the session belong to another user and are closed to this
 * one. */
enum status session_may_write(const struct session *session, struct err *err);
/* session_graph.c: compares graph.yaml with the graph when the file exists, and writes it. What has changed becomes a
 * change of the session (changes.h); a session in which nothing was finished takes the graph whole, and begins anew.
 * BAD_ARGUMENT: something has changed that never may. Prints what the session takes over. Needs the session's lock. */
enum status session_keep_graph(struct session *session, const struct graph *graph, struct err *err);
/* Reads graph.yaml, the graph as the last run was given it. */
enum status session_read_graph(const struct session *session, struct graph **ret_graph, struct err *err);
/* session_id.c: take the session's id from a plan; make sure that there is one, and that all ledgers belong to it. */
void session_take_id(struct session *session, const json_t *plan);
enum status session_need_id(struct session *session, const struct graph *graph, struct err *err);
/* Builds a path: "log", "watcher.0", ".log" → SESSION/log/watcher.0.log. */
enum status session_file(const struct session *session, const char *folder, const char *name, const char *ending,
                         char path[PATH_SIZE], struct err *err);
/* session_server.c: find where the ledgers are; use the server that the graph names, from the beginning of a run on; drop
 * all ledgers there. UNAVAILABLE: it cannot be reached. */
enum status session_find_server(struct session *session, struct err *err);
enum status session_use_server(struct session *session, const struct graph *graph, struct err *err);
enum status session_forget_server(struct session *session, struct err *err);
/* For all who change ledgers: BAD_ARGUMENT, with what to do, where those on the server are not this folder's, since it
 * is a copy; BAD_STATE where the server has lost them. begins: a run begins, which brings those that stand as files. */
enum status session_check_server(const struct session *session, bool begins, struct err *err);
/* Writes the ledgers that are in PostgreSQL as files, which all who read use until somebody changes a ledger. */
enum status session_export(const struct session *session, const json_t *plan, struct err *err);
/* Says that a ledger is open for changes, which the files will not have. */
enum status session_ledger_changes(const struct session *session, struct err *err);
/* Says in a copy of the session, whose ledgers are all files, that they stand. */
enum status session_copy_server(const struct session *session, const char *target, struct err *err);
/* Returns whether the ledgers in PostgreSQL lie as files as well, and nobody has changed one since. */
bool session_stands(const struct session *session);
/* session_lease.c: take the lease of a session in PostgreSQL, unless this process has it; waits for one that is not
 * renewed. BAD_STATE: another launcher runs it, which the message names. */
enum status session_take_lease(struct session *session, struct err *err);
/* BAD_STATE: another launcher has taken the lease of this one. */
enum status session_check_lease(const struct session *session, struct err *err);
/* Returns whether the lease was renewed a short while ago, or the session has none. Without it a launcher writes no
 * orders into the session: another one may run it by now. */
bool session_holds_lease(const struct session *session);
/* As session_check_lease, for a process that may have stood still: waits until it knows whether it has the lease, or for
 * 20 s. */
enum status session_await_lease(const struct session *session, struct err *err);
/* Lets another process take the lease of a cumulative stage at once: its instance has ended, hangs, or belongs to an
 * earlier launcher. Does nothing where the ledger of the stage is a file. */
enum status session_void_lease(const struct session *session, const char *stage, struct err *err);
/* Return whether a launcher, on any host, has the lease; whether the last one who had it did so on another host. */
bool session_is_leased(const struct session *session);
bool session_leased_elsewhere(const struct session *session);
/* Builds the path of a stage's ledger, or its address in PostgreSQL. */
enum status session_ledger_path(const struct session *session, const char *stage, bool read_only, char path[PATH_SIZE],
                                struct err *err);
/* Opens the ledger of a stage; *ret_ledger is NULL when the stage keeps none. UNAVAILABLE: other processes held the
 * ledger for longer than the session's patience. BAD_ARGUMENT: it is the ledger of another stage or session. */
enum status session_ledger(const struct session *session, const char *stage, bool read_only, struct ledger **ret_ledger,
                           struct err *err);

#endif
