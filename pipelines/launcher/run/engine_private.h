/* Declares an engine for its files: engine.c (what is common, ssh), engine_slurm.c. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_ENGINE_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_ENGINE_PRIVATE_H

#include "common/files.h"
#include "pipelines/launcher/run/engine.h"
#include "pipelines/launcher/run/tool.h"

enum { ENGINE_COMMAND_SIZE = 2 * PATH_SIZE, ENGINE_NAME_SIZE = 64, ENGINE_ID_SIZE = 32, ENGINE_WORDS = 64 };

/* The purpose of the tool that runs for a job. */
enum engine_step { ENGINE_ASKS, ENGINE_SUBMITS };

/* One connection of ssh, or one line of sbatch. */
struct engine_entry {
    const char *text; /* the host, or the options */
    struct tool tool;
    double start_at, started_at, pause; /* of clock_monotonic; s */
    bool told;                          /* a trouble was shown, and has not ended */
    /* Slurm alone. */
    enum engine_step step;
    char name[ENGINE_NAME_SIZE], id[ENGINE_ID_SIZE]; /* of the job; "": none is known */
};

struct engine {
    struct engine_options options;
    struct engine_entry *entries;
    size_t count;
    char command[ENGINE_COMMAND_SIZE]; /* for a shell on the other machine */
    char log[PATH_SIZE];
};

/* Shows a message. */
void engine_say(const struct engine *engine, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum status engine_slurm_create(struct engine *engine, struct err *err);
void engine_slurm_tend(struct engine *engine, struct engine_entry *entry);
/* Cancels all jobs. */
void engine_slurm_end(struct engine *engine);

#endif
