/* What the files of a run share: what is made before it begins (run_prepare.c), what follows from deaths and silence
 * (run_deaths.c), and the rest (run.c). */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_RUN_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_RUN_PRIVATE_H

#include "common/files.h"
#include "common/log.h"
#include "pipelines/launcher/options.h"
#include "pipelines/launcher/progress.h"
#include "pipelines/launcher/replay.h"
#include "pipelines/launcher/run/hung.h"
#include "pipelines/launcher/run/supervisor.h"
#include "pipelines/launcher/session.h"
#include "pipelines/launcher/tally.h"

enum { RUN_ENV_MAX = 8 };

/* Texts of one child, which its spec points into. */
struct child_texts {
    char *argv[4];
    char *env[RUN_ENV_MAX];
    char program[PATH_SIZE], orders[PATH_SIZE], log[PATH_SIZE], heartbeat[PATH_SIZE], current[PATH_SIZE];
};

struct run {
    const struct options *options;
    const struct graph *graph;
    struct plan *plan;
    struct replay *replay;
    struct session session;
    json_t *planned;
    bool *released;          /* instances that no receiver is left for */
    char sockets[PATH_SIZE]; /* folder of the ipc endpoints */
    struct supervisor_child *children;
    struct supervisor *supervisor; /* once it runs */
    struct child_texts *texts;
    struct hung *hung;
    struct tally tally;
    double tally_at, tally_cost;
    struct log *log; /* of the launcher itself */
    double look_at;  /* when what need not be done all the time is next done */
    int miscounts;   /* in a row */
    struct progress progress;
    bool waits;         /* the machine lacks something; said */
    char unheard[256];  /* why the items of one that hangs could not be let go, as last said */
    struct err failure; /* of a hook */
    bool failed;
};

/* Sockets, instance files and what each process is started with; claims that are left of an earlier run are let go. */
enum status run_prepare(struct run *run, struct err *err);
void run_remove_sockets(const char *path);

/* Hooks of the supervisor; context: the run. */
enum status run_died(void *context, size_t child, int wait_status, int64_t *ret_finished, struct err *err);
const char *run_silent(void *context, struct supervisor *supervisor, size_t child);

#endif
