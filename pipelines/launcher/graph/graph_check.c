#include "pipelines/launcher/graph/graph_check.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/item.h"
#include "common/files.h"
#include "common/harness/params.h"
#include "common/harness/rules.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/graph/graph_check_private.h"
#include "pipelines/launcher/graph/graph_glob.h"

static const double DESCRIBE_SECONDS = 10;

bool graph_is_common_key(const char *key) {
    size_t count;
    const struct param *common = stage_common_params(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, common[i].name) == 0) return true;
    return false;
}

const char *graph_set_by(const struct graph_entry *entry) {
    return entry->line > 0 ? "" : "--set ";
}

void graph_check_value(struct graph_checks *c, const json_t *described, const struct graph_section *section,
                       const struct graph_entry *entry, const char *text) {
    struct err err = {0};
    char where[160];
    snprintf(where, sizeof where, "%s%s", graph_set_by(entry), section->name);
    if (params_check_json(described, entry->key, text, where, &err) != STATUS_OK)
        problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s", err.message);
}

const json_t *graph_find_param(const json_t *described, const char *key) {
    size_t i;
    const json_t *param;
    json_array_foreach(described, i, param) {
        const char *name = json_string_value(json_object_get(param, "name"));
        if (name != NULL && strcmp(name, key) == 0) return param;
    }
    return NULL;
}

/* Chooses one of our stages by its name, or a program from `programs`: nothing else is ever started. */
static enum status choose_program(struct graph_checks *c, const char *word, char **ret_path, struct err *err) {
    if (graph_is_stage_name(word)) return program_find(word, ret_path, err);
    FAIL_IF(word[0] != '/', err, STATUS_BAD_ARGUMENT,
            "the program \"%s\" is neither the name of a stage nor an absolute path; give its whole path, and list it "
            "under `programs:` too",
            word);
    FAIL_IF(!graph_value_holds(&c->graph->programs.value, word), err, STATUS_BAD_ARGUMENT,
            "the program %s is not listed under `programs:` of the graph, so that it is not started; if you trust it, "
            "add programs: [%s]",
            word, word);
    TRY(program_check(word, err));
    *ret_path = strdup(word);
    FAIL_IF(*ret_path == NULL, err, STATUS_NO_MEMORY, "no memory for the path of %s", word);
    return STATUS_OK;
}

static void report_program(struct graph_checks *c, const struct graph_stage *stage, const char *word, int line,
                           const struct err *why) {
    bool unknown = why->status == STATUS_NOT_FOUND && word[0] != '/';
    const char *near = unknown ? text_nearest(word, (const char *const *)c->programs.names, c->programs.count) : NULL;
    if (near != NULL)
        problems_add(c->problems, PROBLEM_ERROR, line, "%s: %s; did you mean \"%s\"?", stage->section.name,
                     why->message, near);
    else if (unknown)
        problems_add(c->problems, PROBLEM_ERROR, line,
                     "%s: %s; name one with `program:` (`icestream stages` lists those there are)", stage->section.name,
                     why->message);
    else
        problems_add(c->problems, PROBLEM_ERROR, line, "%s: %s", stage->section.name, why->message);
}

/* Finds the program of a stage, and asks it to describe itself. */
static enum status find_program(struct graph_checks *c, struct graph_stage *stage) {
    const struct graph_entry *entry = graph_entry(&stage->section, "program");
    const char *word = entry == NULL ? stage->section.name : entry->value.count == 1 ? entry->value.texts[0] : "";
    int line = entry ? entry->line : stage->section.line;
    struct err err = {0};
    stage->kind = stage->section.name;
    enum status status = choose_program(c, word, &stage->program, &err);
    FAIL_IF(status == STATUS_NO_MEMORY, c->err, status, "%s", err.message);
    if (status != STATUS_OK) {
        report_program(c, stage, word, line, &err);
        return STATUS_OK;
    }
    status = program_describe(stage->program, DESCRIBE_SECONDS, &stage->describe, &err);
    if (status == STATUS_BAD_FORMAT) {
        problems_add(c->problems, PROBLEM_ERROR, line, "%s: %s", stage->section.name, err.message);
        return STATUS_OK;
    }
    FAIL_IF(status != STATUS_OK, c->err, status, "%s", err.message);
    if (stage->describe == NULL && word[0] != '/') {
        problems_add(c->problems, PROBLEM_ERROR, line, "%s: %s is no stage: it does not answer --describe",
                     stage->section.name, stage->program);
        return STATUS_OK;
    }
    if (stage->describe == NULL) {
        problems_add(c->problems, PROBLEM_WARNING, line,
                     "%s: %s does not answer --describe; its keys are passed on unchecked", stage->section.name,
                     stage->program);
        return STATUS_OK;
    }
    stage->kind = json_string_value(json_object_get(stage->describe, "name"));
    stage->cumulative = json_is_true(json_object_get(stage->describe, "cumulative"));
    return STATUS_OK;
}

static void check_programs(struct graph_checks *c) {
    const struct graph_value *programs = &c->graph->programs.value;
    for (size_t i = 0; i < programs->count; i++)
        if (programs->texts[i][0] != '/')
            problems_add(c->problems, PROBLEM_ERROR, c->graph->programs.line,
                         "programs: \"%s\" is not an absolute path; what may be started is named from / on",
                         programs->texts[i]);
}

/* Checks the first bytes of a file where they show its kind. The stage that reads the file would say more, but only
 * after it has started. */
static void check_beginning(struct graph_checks *c, const struct graph_stage *stage, const struct graph_entry *entry,
                            const char *path) {
    const json_t *param = graph_find_param(program_params(stage->describe), entry->key);
    const char *begins = json_string_value(json_object_get(param, "begins"));
    const char *help = json_string_value(json_object_get(param, "help"));
    char head[64] = "";
    if (begins == NULL || strlen(begins) >= sizeof head) return;
    FILE *file = fopen(path, "rb");
    size_t length = file != NULL ? fread(head, 1, strlen(begins), file) : 0;
    if (file != NULL) fclose(file);
    if (length < strlen(begins) || memcmp(head, begins, length) != 0)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.%s: \"%s\" is not such a file: it does not begin with \"%.*s\" (%s)", graph_set_by(entry),
                     stage->section.name, entry->key, path, (int)strcspn(begins, "\n"), begins, help ? help : "");
}

/* Returns whether a path can stand in items, tables and logs. */
static bool is_readable(const char *path) {
    bool readable = item_text_fits(path);
    for (const char *at = path; *at != '\0' && readable; at++)
        readable = !iscntrl((unsigned char)*at);
    return readable;
}

static void refuse_path(struct graph_checks *c, const struct graph_stage *stage, const struct graph_entry *entry,
                        const char *path) {
    char shown[256];
    size_t length = 0;
    for (; path[length] != '\0' && length < sizeof shown - 1; length++)
        shown[length] = isprint((unsigned char)path[length]) ? path[length] : '?';
    shown[length] = '\0';
    problems_add(c->problems, PROBLEM_ERROR, entry->line,
                 "%s%s.%s: the path \"%s\" holds a line break, a control character or bytes that are not UTF-8, which "
                 "items and tables cannot hold; rename it, or give a link to it that has a plain name",
                 graph_set_by(entry), stage->section.name, entry->key, shown);
}

/* Finds where a file that need not be there yet will come: its folder exists beside the graph or in the working
 * directory. */
static bool will_come(const struct graph_checks *c, const struct graph_stage *stage, const struct graph_entry *entry,
                      char path[PATH_SIZE]) {
    const json_t *param = graph_find_param(program_params(stage->describe), entry->key);
    const char *text = entry->value.texts[0];
    char folder[PATH_SIZE];
    if (!json_is_true(json_object_get(param, "may_come"))) return false;
    for (int i = 0; i < 2; i++)
        if (path_join(i == 0 ? c->graph->folder : "", text, path, PATH_SIZE, NULL) == STATUS_OK &&
            path_folder(path, folder, sizeof folder, NULL) == STATUS_OK && file_is_folder(folder))
            return true;
    return false;
}

/* Checks a path that must exist, and makes it absolute, as found beside the graph or in the working directory. */
static enum status check_path(struct graph_checks *c, struct graph_stage *stage, struct graph_entry *entry) {
    const char *text = entry->value.count == 1 ? entry->value.texts[0] : "";
    char path[PATH_SIZE], absolute[PATH_SIZE];
    bool found =
        text[0] != '\0' && path_join(c->graph->folder, text, path, sizeof path, NULL) == STATUS_OK && file_exists(path);
    if (!found && text[0] != '\0') {
        found = file_exists(text);
        snprintf(path, sizeof path, "%s", text);
    }
    bool coming = !found && text[0] != '\0' && will_come(c, stage, entry, path);
    if (coming)
        problems_add(c->problems, PROBLEM_WARNING, entry->line, "%s%s.%s: \"%s\" is not there yet; items wait for it",
                     graph_set_by(entry), stage->section.name, entry->key, text);
    found = found || coming;
    if (!found && c->graph->begun && text[0] == '/') {
        problems_add(c->problems, PROBLEM_WARNING, entry->line,
                     "%s%s.%s: \"%s\" is not there now (a disk that is not mounted?); its stage waits for it",
                     graph_set_by(entry), stage->section.name, entry->key, text);
        return STATUS_OK;
    }
    if (!found) {
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.%s: there is no file or folder \"%s\" (tried beside the graph and in the working "
                     "directory)",
                     graph_set_by(entry), stage->section.name, entry->key, text);
        return STATUS_OK;
    }
    if (!coming) check_beginning(c, stage, entry, path);
    char here[PATH_SIZE] = "";
    FAIL_IF(path[0] != '/' && realpath(".", here) == NULL, c->err, STATUS_IO, "the working directory is gone");
    TRY(path_join(here, strncmp(path, "./", 2) == 0 ? path + 2 : path, absolute, sizeof absolute, c->err));
    if (!coming && !is_readable(absolute)) {
        refuse_path(c, stage, entry, absolute);
        return STATUS_OK;
    }
    return graph_put(&stage->section, entry->key, absolute, false, c->err);
}

static void check_gpu_index(struct graph_checks *c, struct graph_stage *stage, const struct graph_entry *entry,
                            long index) {
    if (!c->machine->cuda)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.gpu: this build is for the CPU only; leave `gpu` out, or build with the preset cuda",
                     graph_set_by(entry), stage->section.name);
    else if (index >= c->machine->gpus)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.gpu: %ld is asked for, but this machine has %d GPU%s, counted from 0; use `gpu: auto`",
                     graph_set_by(entry), stage->section.name, index, c->machine->gpus,
                     c->machine->gpus == 1 ? "" : "s");
}

static enum status check_gpu(struct graph_checks *c, struct graph_stage *stage, const struct graph_entry *entry) {
    const struct graph_value *value = &entry->value;
    if (value->count == 1 && strcmp(value->texts[0], "auto") == 0) {
        stage->gpu_auto = true;
        return STATUS_OK;
    }
    if (value->count == 1 && strcmp(value->texts[0], "none") == 0) return STATUS_OK;
    _cleanup_(mem_free) char *text = graph_value_text(value);
    stage->gpus = calloc(value->count + strlen(text ? text : "") + 1, sizeof *stage->gpus);
    FAIL_IF(text == NULL || stage->gpus == NULL, c->err, STATUS_NO_MEMORY, "no memory for the graph");
    const char *from = text;
    while (isdigit((unsigned char)*from)) {
        char *end;
        long index = strtol(from, &end, 10);
        if (index > 1023 || (*end != ',' && *end != '\0')) break;
        stage->gpus[stage->gpu_count++] = (int)index;
        from = *end == ',' ? end + 1 : end;
        if (*end == '\0') break;
    }
    if (*from != '\0' || stage->gpu_count == 0) {
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.gpu: \"%s\" is not auto, none, a number or a list of numbers, as in [0, 1]",
                     graph_set_by(entry), stage->section.name, text);
        return STATUS_OK;
    }
    int highest = 0;
    for (size_t i = 0; i < stage->gpu_count; i++)
        highest = stage->gpus[i] > highest ? stage->gpus[i] : highest;
    check_gpu_index(c, stage, entry, highest);
    return STATUS_OK;
}

static enum status check_device(struct graph_checks *c, struct graph_stage *stage, const struct graph_entry *entry,
                                const char *text) {
    unsigned index;
    int used = 0;
    if (sscanf(text, "cuda:%4u%n", &index, &used) == 1 && text[used] == '\0')
        check_gpu_index(c, stage, entry, (long)index);
    else if (strcmp(text, "auto") != 0 && strcmp(text, "cpu") != 0)
        problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s%s.device: \"%s\" is not auto, cpu or cuda:N",
                     graph_set_by(entry), stage->section.name, text);
    stage->device = strdup(text);
    FAIL_IF(stage->device == NULL, c->err, STATUS_NO_MEMORY, "no memory for the graph");
    return STATUS_OK;
}

static bool is_count(const char *key) {
    return strcmp(key, "replicas") == 0 || strcmp(key, "lanes") == 0 || strcmp(key, "threads") == 0;
}

static enum status check_common_key(struct graph_checks *c, struct graph_stage *stage, struct graph_entry *entry,
                                    const char *text) {
    if (is_count(entry->key)) {
        size_t before = c->problems->errors;
        graph_check_value(c, c->common_params, &stage->section, entry, text);
        if (c->problems->errors > before) return STATUS_OK;
        int number = atoi(text); /* 0 for "auto": as if the key were missing */
        if (number > 0 && strcmp(entry->key, "replicas") == 0)
            stage->replicas = number;
        else if (number > 0 && strcmp(entry->key, "lanes") == 0)
            stage->lanes = number;
        else if (number > 0)
            stage->threads = number;
        return STATUS_OK;
    }
    if (strcmp(entry->key, "gpu") == 0) return check_gpu(c, stage, entry);
    if (strcmp(entry->key, "on") == 0) return graph_check_on(c, stage, entry, text);
    if (strcmp(entry->key, "device") == 0) return check_device(c, stage, entry, text);
    if (strcmp(entry->key, "reject_if") == 0) {
        struct rules rules;
        struct err err = {0};
        if (rules_parse(text, &rules, &err) != STATUS_OK)
            problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s%s: %s", graph_set_by(entry), stage->section.name,
                         err.message);
    }
    return STATUS_OK;
}

static enum status check_entry(struct graph_checks *c, struct graph_stage *stage, struct graph_entry *entry) {
    const json_t *described = program_params(stage->describe);
    _cleanup_(mem_free) char *text = graph_value_text(&entry->value);
    FAIL_IF(text == NULL, c->err, STATUS_NO_MEMORY, "no memory for the graph");
    if (!graph_check_has_value(c, described, true, &stage->section, entry)) return STATUS_OK;
    if (graph_is_common_key(entry->key)) return check_common_key(c, stage, entry, text);
    if (stage->describe == NULL) return STATUS_OK;
    const json_t *param = graph_find_param(described, entry->key);
    if (param == NULL) {
        char advice[192];
        snprintf(advice, sizeof advice, "`%s --help` lists its keys", path_name(stage->program));
        graph_unknown_key(c, described, true, &stage->section, entry, advice);
        return STATUS_OK;
    }
    const char *type = json_string_value(json_object_get(param, "type"));
    if (type != NULL && strcmp(type, "path") == 0) return check_path(c, stage, entry);
    if (type != NULL && strcmp(type, "glob") == 0) return graph_glob_check(c->graph, stage, entry, c->problems, c->err);
    graph_check_value(c, described, &stage->section, entry, text);
    return STATUS_OK;
}

static void check_required(struct graph_checks *c, const struct graph_stage *stage) {
    size_t i;
    const json_t *param;
    json_array_foreach(program_params(stage->describe), i, param) {
        const char *name = json_string_value(json_object_get(param, "name"));
        const char *help = json_string_value(json_object_get(param, "help"));
        if (name != NULL && json_is_true(json_object_get(param, "required")) &&
            graph_entry(&stage->section, name) == NULL)
            problems_add(c->problems, PROBLEM_ERROR, stage->section.line, "%s: `%s` is required: %s",
                         stage->section.name, name, help ? help : "");
    }
}

static bool has_value(const struct graph_entry *entry, const char *text) {
    return entry != NULL && entry->value.count == 1 && strcmp(entry->value.texts[0], text) == 0;
}

static void note_defaults(struct graph_checks *c, const struct graph_stage *stage) {
    const struct graph_section *section = &stage->section;
    if (strcmp(stage->kind, "lowpass-picker") == 0 && graph_entry(section, "templates") == NULL) {
        const struct graph_entry *method = graph_entry(section, "method");
        if (method == NULL || has_value(method, "auto"))
            problems_add(c->problems, PROBLEM_NOTE, section->line, "%s: no `templates`, so it %s in log mode",
                         section->name, graph_entry(section, "templates_from") != NULL ? "begins" : "picks");
        else if (has_value(method, "template"))
            problems_add(c->problems, PROBLEM_ERROR, method->line,
                         "%s%s: `method: template` needs `templates`; give a stack of them, or use `method: log`",
                         graph_set_by(method), section->name);
        if (!has_value(method, "template") && graph_entry(section, "diameter") == NULL &&
            graph_entry(section, "log_diameter") == NULL)
            problems_add(c->problems, PROBLEM_ERROR, section->line,
                         "%s: `diameter` is required without templates: the particle's, in Å", section->name);
    }
    if (strcmp(stage->kind, "crystal-scorer") == 0 && graph_entry(section, "model") == NULL &&
        graph_entry(section, "keep_features") == NULL)
        problems_add(c->problems, PROBLEM_ERROR, section->line,
                     "%s: `model` is required, as icestream-crystal-scorer --train makes one; or `keep_features: true`",
                     section->name);
    /* Other hosts may have GPUs. */
    if (stage->gpu_auto && !c->graph->spread && (!c->machine->cuda || c->machine->gpus == 0))
        problems_add(c->problems, PROBLEM_NOTE, graph_entry(section, "gpu")->line, "%s: %s, so it runs on the CPU",
                     section->name, c->machine->cuda ? "there is no GPU" : "this build is for the CPU only");
}

static enum status check_stage(struct graph_checks *c, struct graph_stage *stage) {
    stage->replicas = 1;
    TRY(find_program(c, stage));
    size_t before = c->problems->errors;
    json_t *lanes = json_object_get(stage->describe, "lanes");
    stage->lanes = json_is_integer(lanes) && json_integer_value(lanes) > 0 ? (int)json_integer_value(lanes) : 3;
    for (size_t i = 0; i < stage->section.count; i++)
        if (stage->program != NULL || graph_is_common_key(stage->section.entries[i].key))
            TRY(check_entry(c, stage, &stage->section.entries[i]));
    if (stage->cumulative && stage->replicas > 1)
        problems_add(c->problems, PROBLEM_ERROR, graph_entry(&stage->section, "replicas")->line,
                     "%s%s.replicas: it keeps what it has learnt from all items, so there can be one only; leave "
                     "`replicas` out",
                     graph_set_by(graph_entry(&stage->section, "replicas")), stage->section.name);
    stage->wrong = c->problems->errors > before;
    return STATUS_OK;
}

enum status graph_check(struct graph *graph, const struct machine *machine, struct problems *problems,
                        struct err *err) {
    struct graph_checks c = {.graph = graph, .machine = machine, .problems = problems, .err = err};
    TRY(program_list(&c.programs, err));
    size_t common_count;
    const struct param *common = stage_common_params(&common_count);
    c.common_params = params_describe(common, common_count);
    enum status status = c.common_params ? graph_check_session(&c) : STATUS_NO_MEMORY;
    check_programs(&c);
    for (size_t i = 0; status == STATUS_OK && i < graph->stage_count; i++)
        status = check_stage(&c, &graph->stages[i]);
    if (status == STATUS_OK) status = graph_derive(graph, problems, err);
    for (size_t i = 0; status == STATUS_OK && i < graph->stage_count; i++) {
        size_t before = problems->errors;
        check_required(&c, &graph->stages[i]);
        note_defaults(&c, &graph->stages[i]);
        graph->stages[i].wrong |= problems->errors > before;
    }
    if (status == STATUS_OK) status = graph_check_edges(graph, problems, err);
    if (status == STATUS_OK) status = graph_derive_scaled(graph, err);
    if (status == STATUS_OK) status = graph_derive_movies(graph, problems, err);
    if (status == STATUS_OK) status = graph_derive_ctf(graph, err);
    if (status == STATUS_OK && problems->errors == 0) status = graph_derive_memory(graph, machine, problems, err);
    if (status == STATUS_OK) graph_check_pixel_size(&c);
    if (status == STATUS_OK) status = graph_check_ask(&c);
    if (status == STATUS_OK) graph_check_rules(&c);
    if (status == STATUS_OK) graph_check_poses(&c);
    if (status == STATUS_OK) graph_check_templates(&c);
    json_decref(c.common_params);
    program_names_clear(&c.programs);
    FAIL_IF(status == STATUS_NO_MEMORY || problems->no_memory, err, STATUS_NO_MEMORY, "no memory to check the graph");
    return status;
}
