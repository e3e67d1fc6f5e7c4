/* Starts `icestream host SESSION` on other machines: through ssh, or as jobs of Slurm. An engine is no more than command
 * lines: the hosts join the session by themselves, the launcher sees over its control channel which are there, and what
 * ssh, sbatch and squeue exit with says nothing about them. An engine belongs to one thread and never blocks but in
 * engine_end. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_ENGINE_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_ENGINE_H

#include <stddef.h>

#include "common/status.h"

enum engine_kind { ENGINE_LOCAL, ENGINE_SSH, ENGINE_SLURM };
/* The choices of `session: {engine: …}` and --engine, in the order of enum engine_kind. */
#define ENGINE_CHOICES "local|ssh|slurm"

struct engine_options {
    enum engine_kind kind;
    const char *program; /* absolute path of icestream, the same on all hosts */
    const char *session; /* absolute path of the session, the same on all hosts */
    /* ssh: names of hosts, one connection each. Slurm: texts of options, one sbatch each ("--partition gpu --gres gpu:1
     * --array 0-3"); none: one sbatch without options. */
    const char *const *entries;
    size_t count;
    const char *own;         /* the name of this machine, to which no connection is made; NULL: not known */
    double pause, pause_max; /* s before ssh starts again, doubled each time that it ended soon; the longest */
    double ask;              /* s between questions to Slurm whether a job is still there */
    double patience;         /* s to wait at the end for what runs, before it is ended */
    void (*say)(void *context, const char *text); /* shows a message to the user */
    void *context;
};
/* Fills in pause, pause_max, ask and patience: 1, 30; 60; 10. */
void engine_defaults(struct engine_options *options);

/* Finds the kind that a text names. BAD_ARGUMENT: none. */
enum status engine_kind_read(const char *text, enum engine_kind *ret_kind, struct err *err);
/* Checks the name of a host for ssh, and options for sbatch. BAD_ARGUMENT: the message says what is wrong. */
enum status engine_check_host(const char *name, struct err *err);
enum status engine_check_slurm(const char *text, struct err *err);

/* Makes an engine; engine_tend starts the hosts. Texts are borrowed, but for program. ENGINE_LOCAL: NULL. What the programs say goes to
 * SESSION/log/engine.log, what a host says to SESSION/log/host-NAME.log or host-JOB.log. */
struct engine;
enum status engine_create(const struct engine_options *options, struct engine **ret_engine, struct err *err);
/* Starts hosts that are not there; call it about once a second. Jobs that an earlier launcher has left go on; a job is
 * submitted anew when none of that name is in the queue. SESSION/hosts/slurm.json names the jobs: {"v": 1, "jobs":
 * [{"name", "options", "id"}]}. */
void engine_tend(struct engine *engine);
/* Ends what runs and cancels the jobs; call it when the hosts were told that the run is over. Accepts NULL. */
void engine_end(struct engine **engine);

#endif
