/* The engine of a run: what starts hosts on other machines (engine.h). */
#include <unistd.h>

#include "pipelines/launcher/program.h"
#include "pipelines/launcher/run/run_private.h"

static void say(void *context, const char *text) {
    struct run *run = context;
    log_write(run->log, LOG_INFO, "engine", "%s", text);
    progress_say(&run->progress, text);
}

enum status run_engine_begin(struct run *run, struct err *err) {
    const struct graph_entry *engine = graph_entry(&run->graph->session, "engine");
    struct engine_options options = {.session = run->session.path, .say = say, .context = run};
    char folder[PATH_SIZE], program[PATH_SIZE];
    if (engine == NULL || engine->value.count != 1) return STATUS_OK;
    TRY(engine_kind_read(engine->value.texts[0], &options.kind, err));
    const struct graph_entry *entries =
        graph_entry(&run->graph->session, options.kind == ENGINE_SSH ? "hosts" : "slurm");
    if (entries != NULL) {
        options.entries = (const char *const *)entries->value.texts;
        options.count = entries->value.count;
    }
    TRY(program_own_folder(folder, sizeof folder, err));
    TRY(path_join(folder, "icestream", program, sizeof program, err));
    options.program = program;
    if (gethostname(run->engine_host, sizeof run->engine_host - 1) == 0) options.own = run->engine_host;
    engine_defaults(&options);
    return engine_create(&options, &run->engine, err);
}

void run_engine_tend(struct run *run) {
    engine_tend(run->engine);
}

void run_engine_end(struct run *run) {
    engine_end(&run->engine);
}
