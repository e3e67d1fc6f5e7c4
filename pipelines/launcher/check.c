#include "pipelines/launcher/check.h"

#include <stdio.h>
#include <string.h>

#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/run/supervisor.h"

/* A stage's kind is what `program` or its name says: no program has been asked yet. */
static enum status apply_preset(struct graph *graph, const struct preset *preset, struct err *err) {
    for (size_t i = 0; i < graph->stage_count; i++) {
        struct graph_section *section = &graph->stages[i].section;
        const struct graph_entry *program = graph_entry(section, "program");
        const char *word = program && program->value.count == 1 ? program->value.texts[0] : section->name;
        if (strcmp(word, preset->kind) == 0) TRY(graph_put(section, preset->key, preset->value, false, err));
    }
    return STATUS_OK;
}

static enum status read_and_check(const char *path, const struct options *options, const struct preset *preset,
                                  const struct machine *machine, struct problems *problems, struct graph **ret_graph,
                                  struct err *err) {
    TRY(graph_read(path, problems, ret_graph, err));
    for (size_t i = 0; i < options->set_count; i++)
        TRY(graph_set(*ret_graph, options->sets[i], problems, err));
    if (options->engine != NULL) {
        char engine[64];
        snprintf(engine, sizeof engine, "session.engine=%.40s", options->engine);
        TRY(graph_set(*ret_graph, engine, problems, err));
    }
    if (preset != NULL) TRY(apply_preset(*ret_graph, preset, err));
    /* The text could not be understood; its problems are reported already. */
    if ((*ret_graph)->stage_count > 0) TRY(graph_check(*ret_graph, machine, problems, err));
    return STATUS_OK;
}

int check_graph(const char *path, const struct options *options, const struct preset *preset, struct graph **ret_graph,
                struct plan *ret_plan) {
    struct machine machine;
    struct problems problems;
    struct graph *graph = NULL;
    struct err err = {0};
    machine_inspect(&machine);
    problems_init(&problems, path);
    enum status status = read_and_check(path, options, preset, &machine, &problems, &graph, &err);
    bool wrong = problems.errors > 0;
    problems_print(&problems, stderr);
    if (problems.no_memory && status == STATUS_OK)
        status = err_set(&err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory");
    problems_clear(&problems);
    if (status == STATUS_OK && !wrong) status = plan_create(graph, &machine, ret_plan, &err);
    if (status == STATUS_OK && !wrong && ret_plan->instance_count == 0) {
        plan_clear(ret_plan);
        status = err_set(&err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__, "%s: no stage is left to run", path);
    }
    if (status != STATUS_OK) fprintf(stderr, "icestream: %s\n", err.message);
    if (status == STATUS_OK && !wrong) {
        *ret_graph = graph;
        return EXIT_OK;
    }
    graph_destroy(&graph);
    if (status == STATUS_UNAVAILABLE) return EXIT_UNAVAILABLE;
    return status == STATUS_NO_MEMORY || status == STATUS_IO ? EXIT_ERROR : EXIT_USAGE;
}

int command_check(const struct options *options) {
    struct graph *graph;
    struct plan plan;
    int code = check_graph(options->words[0], options, NULL, &graph, &plan);
    if (code != EXIT_OK) return code;
    plan_print(&plan, stdout);
    plan_clear(&plan);
    graph_destroy(&graph);
    return EXIT_OK;
}
