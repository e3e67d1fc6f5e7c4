/* Declares a run for its files: run_prepare.c (preparations), run_sockets.c (sockets and instance files), run_deaths.c
 * (deaths and silence), run_again.c (items that are made again), run.c (everything else). */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_RUN_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_RUN_PRIVATE_H

#include "common/edges/transport_keys.h"
#include "common/files.h"
#include "common/log.h"
#include "pipelines/launcher/options.h"
#include "pipelines/launcher/progress.h"
#include "pipelines/launcher/replay.h"
#include "pipelines/launcher/run/deaths.h"
#include "pipelines/launcher/run/engine.h"
#include "pipelines/launcher/run/hung.h"
#include "pipelines/launcher/run/instance.h"
#include "pipelines/launcher/run/memory_kills.h"
#include "pipelines/launcher/run/supervisor.h"
#include "pipelines/launcher/session.h"
#include "pipelines/launcher/tally.h"

enum { RUN_ENV_MAX = 8 };

/* Texts of one child, to which its spec points. */
struct child_texts {
    char *argv[4];
    char *env[RUN_ENV_MAX];
    char program[PATH_SIZE], orders[PATH_SIZE], log[PATH_SIZE], heartbeat[PATH_SIZE], current[PATH_SIZE];
};

/* The sockets that a process binds, as far as the launcher has seen their files. */
struct run_binding {
    pid_t pid;
    bool seen;      /* all were there once */
    double gone_at; /* time at which some were missing after that; 0: none is missing */
};

/* The page of the session, a process of its own. */
struct run_page {
    bool wanted;
    pid_t pid;                        /* 0: not running */
    double begun_at, start_at, pause; /* of clock_monotonic; s */
};

struct run {
    const struct options *options;
    struct graph *graph; /* with the changes of the session */
    struct plan *plan;
    struct replay *replay;
    struct session session;
    json_t *planned;
    bool *released;          /* instances whose receivers have all ended */
    char sockets[PATH_SIZE]; /* folder of the ipc endpoints; "": none */
    struct run_binding *bindings;
    struct listeners *listeners; /* of the edges that leave instances on this host; NULL without tcp */
    struct run_hosts *hosts;     /* NULL: the session has one host */
    char endpoints[PATH_SIZE];   /* the record of endpoints; "": none */
    bool unmended;               /* the folder is gone and cannot be made again, which was reported */
    struct instance_orders orders;
    char public_key[TRANSPORT_KEY_SIZE], secret_key[TRANSPORT_KEY_SIZE]; /* what the orders point to, with tcp */
    struct supervisor_child *children;
    struct supervisor *supervisor; /* set once the supervisor runs */
    struct child_texts *texts;
    struct hung *hung;
    struct deaths *deaths; /* of each stage of the graph */
    bool *judged;          /* instances whose last death is in `deaths`, but not yet buried */
    struct memory_kills memory;
    struct tally tally;
    double tally_at, tally_cost;
    double begun_at;           /* s since 1970 */
    json_t *warned, *warnings; /* kinds of warnings that were shown in this run; all of the session, at its end */
    json_int_t warning_count;  /* at the last look */
    struct log *log;           /* the launcher's own log */
    double look_at;            /* time of the next work that is done only now and then */
    int miscounts;             /* in a row */
    int change;                /* number of the last change of the session that the stages were told of */
    bool unchanged;            /* the next one cannot be read or passed on, which was reported */
    struct run_page page;
    char engine_host[256];
    struct engine *engine;   /* NULL: hosts of other machines, if any, come by themselves */
    struct run_again *again; /* the items that stages want again; NULL: the stages do not run yet */
    struct progress progress;
    bool waits;         /* the machine lacks something, which was reported */
    char unheard[256];  /* the last reported reason why the items of an instance that hangs could not be passed on */
    struct err failure; /* error of a hook */
    bool failed;
    bool wrong_value; /* a stage has ended for good because one of its values or inputs is wrong */
};

/* run_warnings.c: shows a warning of the launcher and keeps it. context: the run. */
void run_warn(void *context, const char *id, const char *text);
/* Shows the stages' warnings of this run, each kind once. last: reads them again even if nothing seems to be new, and
 * keeps all of them in run->warnings for the end. */
void run_warnings_look(struct run *run, bool last);

/* Makes sockets, instance files and what each process is started with; releases the claims that an earlier run left. */
enum status run_prepare(struct run *run, struct err *err);

/* run_changes.c: puts the changes that the session has upon the graph; call it before run_prepare. Passes on the changes
 * that have come since; call it about once a second. */
enum status run_changes_begin(struct run *run, struct err *err);
void run_changes_tend(struct run *run, struct supervisor *supervisor);

/* run_again.c: sends items again that a stage wants again; call tend at each tick. expected: whether a stage adopts
 * templates of the session. pending: whether such a stage has items to do, or wants some again. end: call it when all
 * stages have ended; settles what was sent, and nobody has begun. */
enum status run_again_create(struct run *run, struct err *err);
void run_again_destroy(struct run *run);
bool run_again_expected(const struct run *run);
void run_again_tend(struct run *run, const struct supervisor *supervisor);
enum status run_again_pending(const struct run *run, bool *ret_pending, struct err *err);
enum status run_again_end(const struct run *run, struct err *err);

/* run_serve.c: starts the page if the graph or the command line wants it, and prints its address; call it before a stage
 * starts. Starts it again when it has ended; call it about once a second. Ends it. */
void run_serve_begin(struct run *run);
void run_serve_tend(struct run *run);
void run_serve_end(struct run *run);
/* Writes SESSION/web/report.html where the session has a page; call it when the session has ended. */
void run_serve_report(struct run *run);

/* run_engine.c: makes the engine that the graph wants; call it when hosts can join. Starts hosts that are not there;
 * call it about once a second. Ends what still runs; call it when the hosts were told that the run is over. */
enum status run_engine_begin(struct run *run, struct err *err);
void run_engine_tend(struct run *run);
void run_engine_end(struct run *run);

/* run_share.c: prepares a session whose files several hosts share: its orders say so, partial files get names of their
 * own, and those that earlier runs left are removed. Call it when run->orders and the plan are there, before instance
 * files are written. */
void run_share(struct run *run);
/* Removes the partial files that stages on all hosts have left; call it when no stage runs any more. */
void run_share_end(const struct run *run);

/* run_endpoints.c: opens the sockets of all edges with tcp, or makes their folder, and names them in the plan. */
enum status run_endpoints_make(struct run *run, struct err *err);
/* Tells the receivers of an instance that its edges have other endpoints by now, as the plan says: writes the record of
 * endpoints and the orders of the receivers anew. Those that do not read the record are started again. Call it when an
 * instance has moved to another host, before it starts there. Until it has succeeded, call it again. */
enum status run_endpoints_moved(struct run *run, struct supervisor *supervisor, size_t instance, struct err *err);

/* run_prepare.c: writes the environment of an instance anew, as its plan is now. */
enum status run_environment(struct run *run, size_t child, struct err *err);

/* run_hosts.c: names the record of endpoints, before instance files are written; listens for hosts; ends them. */
enum status run_hosts_prepare(struct run *run, struct err *err);
enum status run_hosts_begin(struct run *run, struct err *err);
void run_hosts_end(struct run *run);
/* Takes what hosts say, and follows them as they come and go. Call it at each tick. */
void run_hosts_tend(struct run *run, struct supervisor *supervisor);
/* Only takes what hosts say, and finds those that are lost: for a run that ends after an error. */
void run_hosts_listen(struct run *run);
/* Passes the instance file of a running instance on that was written anew. */
void run_hosts_pass_orders(struct run *run, size_t child);
/* Hooks of the supervisor. */
enum status run_where(void *context, size_t child, const struct process_place **ret_place, struct err *err);
enum status run_lost(void *context, size_t child, struct err *err);

/* Makes the folder of the sockets: SESSION/log/sockets, or a short path elsewhere, which the file of that name then
 * holds. Removes what an earlier launcher left. STATUS_UNAVAILABLE when none can be made. */
enum status run_sockets_make(struct run *run, struct err *err);
/* Makes the folder again if it is gone; restarts stages of others whose sockets were deleted. Call it at each tick;
 * due: about once a second. Between, it only notes who has bound its sockets by now. */
void run_sockets_tend(struct run *run, struct supervisor *supervisor, bool due);
/* Removes the folder of the sockets and what is in it. */
void run_sockets_remove(struct run *run);

/* Hooks of the supervisor; context: the run. */
enum status run_starting(void *context, size_t child, struct err *err);
enum status run_died(void *context, size_t child, int wait_status, int64_t *ret_finished, struct err *err);
const char *run_silent(void *context, struct supervisor *supervisor, size_t child);

#endif
