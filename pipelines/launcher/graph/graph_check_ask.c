/* Asks programs whether their parameters make sense: each stage knows what it will refuse at its start. */
#include <string.h>

#include "pipelines/launcher/graph/graph_check_private.h"

static const double CHECK_SECONDS = 30;

static void add_problem(struct graph_checks *c, const struct graph_stage *stage, const json_t *problem) {
    const char *key = json_string_value(json_object_get(problem, "key"));
    const char *message = json_string_value(json_object_get(problem, "message"));
    bool error = strcmp(json_string_value(json_object_get(problem, "level")), "error") == 0;
    const struct graph_entry *entry = key != NULL ? graph_entry(&stage->section, key) : NULL;
    if (entry == NULL && key != NULL) entry = graph_entry(&c->graph->session, key);
    problems_add(c->problems, error ? PROBLEM_ERROR : PROBLEM_WARNING,
                 entry != NULL ? entry->line : stage->section.line, "%s%s: %s",
                 entry != NULL ? graph_set_by(entry) : "", stage->section.name, message);
}

static enum status ask(struct graph_checks *c, const struct graph_stage *stage) {
    json_t *instance = json_pack("{s:i, s:s, s:o, s:o}", "v", 1, "name", stage->section.name, "session_params",
                                 graph_session_params(c->graph), "params", graph_stage_params(stage));
    FAIL_IF(instance == NULL, c->err, STATUS_NO_MEMORY, "no memory to check %s", stage->section.name);
    json_t *problems = NULL, *problem;
    struct err err = {0};
    enum status status = program_judge(stage->program, instance, CHECK_SECONDS, &problems, &err);
    json_decref(instance);
    if (status == STATUS_BAD_FORMAT) {
        problems_add(c->problems, PROBLEM_ERROR, stage->section.line, "%s: %s", stage->section.name, err.message);
        return STATUS_OK;
    }
    FAIL_IF(status != STATUS_OK, c->err, status, "%s", err.message);
    if (problems == NULL)
        problems_add(c->problems, PROBLEM_WARNING, stage->section.line,
                     "%s: %s gave no answer to --check, so its values are checked only when it starts",
                     stage->section.name, stage->program);
    size_t i;
    json_array_foreach(problems, i, problem) add_problem(c, stage, problem);
    json_decref(problems);
    return STATUS_OK;
}

enum status graph_check_ask(struct graph_checks *c) {
    for (size_t i = 0; i < c->graph->stage_count; i++) {
        const struct graph_stage *stage = &c->graph->stages[i];
        bool knows = json_is_true(json_object_get(stage->describe, "check"));
        if (knows && !stage->wrong) TRY(ask(c, stage));
    }
    return STATUS_OK;
}
