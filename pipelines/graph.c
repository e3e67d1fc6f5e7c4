#include "pipelines/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/params.h"
#include "pipelines/graph_private.h"

static void value_clear(struct graph_value *value) {
    for (size_t i = 0; i < value->count; i++)
        free(value->texts[i]);
    free(value->texts);
    *value = (struct graph_value){0};
}

static void entry_clear(struct graph_entry *entry) {
    free(entry->key);
    value_clear(&entry->value);
    *entry = (struct graph_entry){0};
}

static void section_clear(struct graph_section *section) {
    for (size_t i = 0; i < section->count; i++)
        entry_clear(&section->entries[i]);
    free(section->entries);
    free(section->name);
    *section = (struct graph_section){0};
}

void graph_destroy(struct graph **graph) {
    struct graph *g = *graph;
    if (g == NULL)
        return;
    section_clear(&g->session);
    entry_clear(&g->programs);
    for (size_t i = 0; i < g->stage_count; i++) {
        struct graph_stage *stage = &g->stages[i];
        section_clear(&stage->section);
        free(stage->program);
        json_decref(stage->describe);
        free(stage->from);
        free(stage->gpus);
        free(stage->device);
    }
    free(g->stages);
    free(g->folder);
    free(g);
    *graph = NULL;
}

struct graph_stage *graph_find(const struct graph *graph, const char *name) {
    for (size_t i = 0; i < graph->stage_count; i++)
        if (strcmp(graph->stages[i].section.name, name) == 0)
            return &graph->stages[i];
    return NULL;
}

struct graph_entry *graph_entry(const struct graph_section *section, const char *key) {
    for (size_t i = 0; i < section->count; i++)
        if (strcmp(section->entries[i].key, key) == 0)
            return &section->entries[i];
    return NULL;
}

/* An empty entry of that key at the end. */
static enum status entry_add(struct graph_section *section, const char *key, int line, struct graph_entry **ret_entry,
                             struct err *err) {
    struct graph_entry *entries = realloc(section->entries, (section->count + 1) * sizeof *entries);
    FAIL_IF(entries == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    section->entries = entries;
    char *copy = strdup(key);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    entries[section->count] = (struct graph_entry){.key = copy, .line = line};
    *ret_entry = &entries[section->count++];
    return STATUS_OK;
}

static enum status value_append(struct graph_value *value, const char *text, size_t length, struct err *err) {
    char **texts = realloc(value->texts, (value->count + 1) * sizeof *texts);
    FAIL_IF(texts == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    value->texts = texts;
    texts[value->count] = strndup(text, length);
    FAIL_IF(texts[value->count] == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    value->count++;
    return STATUS_OK;
}

enum status graph_put(struct graph_section *section, const char *key, const char *text, bool plain, struct err *err) {
    struct graph_value value = {.is_plain = plain};
    enum status status = value_append(&value, text, strlen(text), err);
    struct graph_entry *entry = graph_entry(section, key);
    if (status == STATUS_OK && entry == NULL)
        status = entry_add(section, key, 0, &entry, err);
    if (status != STATUS_OK) {
        value_clear(&value);
        return status;
    }
    value_clear(&entry->value);
    entry->value = value;
    return STATUS_OK;
}

/* Reading. */

struct reader {
    yaml_document_t document;
    struct problems *problems;
    struct err *err;
};

static int line_of(const yaml_node_t *node) {
    return (int)node->start_mark.line + 1;
}

/* The text of a scalar node, or NULL; a NUL inside would hide what follows it. */
static const char *scalar_text(const yaml_node_t *node) {
    if (node->type != YAML_SCALAR_NODE)
        return NULL;
    const char *text = (const char *)node->data.scalar.value;
    return strlen(text) == node->data.scalar.length ? text : NULL;
}

static bool is_null(const yaml_node_t *node) {
    const char *text = scalar_text(node);
    return text != NULL && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

static enum status read_list(struct reader *r, const yaml_node_t *node, const char *owner, const char *key,
                             struct graph_value *value) {
    value->is_list = true;
    value->is_plain = true;
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
        const yaml_node_t *element = yaml_document_get_node(&r->document, *i);
        const char *text = element ? scalar_text(element) : NULL;
        if (text == NULL || value->count == GRAPH_LIST_MAX) {
            problems_add(r->problems, PROBLEM_ERROR, element ? line_of(element) : line_of(node),
                         "%s.%s: a list holds up to %d plain values, as in [a, b]", owner, key, GRAPH_LIST_MAX);
            return STATUS_OK;
        }
        if (element->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
            value->is_plain = false;
        TRY(value_append(value, text, strlen(text), r->err));
    }
    return STATUS_OK;
}

/* One "key: value" of a section. */
static enum status read_entry(struct reader *r, const yaml_node_t *key_node, const yaml_node_t *value_node,
                              struct graph_section *section) {
    const char *key = scalar_text(key_node);
    if (key == NULL || key[0] == '\0') {
        problems_add(r->problems, PROBLEM_ERROR, line_of(key_node), "%s: a key is a plain word", section->name);
        return STATUS_OK;
    }
    if (graph_entry(section, key) != NULL) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(key_node),
                     "%s.%s is given twice, first in line %d; keep one of the two", section->name, key,
                     graph_entry(section, key)->line);
        return STATUS_OK;
    }
    if (is_null(value_node))
        return STATUS_OK;
    if (value_node->type == YAML_MAPPING_NODE) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(value_node),
                     "%s.%s: a value or a list is expected here, not a mapping; check the indentation", section->name,
                     key);
        return STATUS_OK;
    }
    struct graph_entry *entry;
    TRY(entry_add(section, key, line_of(key_node), &entry, r->err));
    if (value_node->type == YAML_SEQUENCE_NODE)
        return read_list(r, value_node, section->name, key, &entry->value);
    const char *text = scalar_text(value_node);
    if (text == NULL) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(value_node), "%s.%s: the value holds a NUL", section->name,
                     key);
        text = "";
    }
    entry->value.is_plain = value_node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return value_append(&entry->value, text, strlen(text), r->err);
}

static enum status read_section(struct reader *r, const yaml_node_t *node, struct graph_section *section) {
    if (is_null(node))
        return STATUS_OK;
    if (node->type != YAML_MAPPING_NODE) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(node),
                     "%s: keys and values are expected, as in %s: {key: value}", section->name, section->name);
        return STATUS_OK;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++)
        TRY(read_entry(r, yaml_document_get_node(&r->document, p->key),
                       yaml_document_get_node(&r->document, p->value), section));
    return STATUS_OK;
}

bool graph_is_stage_name(const char *name) {
    return name[0] != '\0' && strlen(name) <= 64 && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(name);
}

/* Folders of the session that a stage's products must not fall into. */
static bool is_reserved_name(const char *name) {
    static const char *const reserved[] = {"session", "ledger", "log", "replay"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strcmp(name, reserved[i]) == 0)
            return true;
    return false;
}

static enum status read_stage(struct reader *r, const yaml_node_t *name_node, const yaml_node_t *node,
                              struct graph *graph) {
    const char *name = scalar_text(name_node);
    if (name == NULL || !graph_is_stage_name(name) || is_reserved_name(name)) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(name_node),
                     "\"%.80s\" cannot name a stage; letters, digits, - and _ can (but for session, ledger, log and "
                     "replay)",
                     name ? name : "");
        return STATUS_OK;
    }
    if (graph_find(graph, name) != NULL) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(name_node),
                     "stage %s is there twice, first in line %d; give the second another name and `program: %s`", name,
                     graph_find(graph, name)->section.line, name);
        return STATUS_OK;
    }
    struct graph_stage *stages = realloc(graph->stages, (graph->stage_count + 1) * sizeof *stages);
    FAIL_IF(stages == NULL, r->err, STATUS_NO_MEMORY, "no memory for the graph");
    graph->stages = stages;
    struct graph_stage *stage = &stages[graph->stage_count];
    *stage = (struct graph_stage){.section = {.name = strdup(name), .line = line_of(name_node)}};
    FAIL_IF(stage->section.name == NULL, r->err, STATUS_NO_MEMORY, "no memory for the graph");
    graph->stage_count++;
    return read_section(r, node, &stage->section);
}

static enum status read_stages(struct reader *r, const yaml_node_t *node, struct graph *graph) {
    if (node->type != YAML_MAPPING_NODE) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(node),
                     "stages: a mapping of stage names to their parameters is expected, as in watcher: {directory: "
                     "/data}");
        return STATUS_OK;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++)
        TRY(read_stage(r, yaml_document_get_node(&r->document, p->key), yaml_document_get_node(&r->document, p->value),
                       graph));
    if (graph->stage_count == 0)
        problems_add(r->problems, PROBLEM_ERROR, line_of(node), "stages: there is no stage");
    return STATUS_OK;
}

/* The list of programs that the graph may start. */
static enum status read_programs(struct reader *r, const yaml_node_t *node, struct graph *graph) {
    graph->programs.line = line_of(node);
    if (is_null(node))
        return STATUS_OK;
    if (node->type == YAML_SEQUENCE_NODE)
        return read_list(r, node, "graph", "programs", &graph->programs.value);
    problems_add(r->problems, PROBLEM_ERROR, line_of(node),
                 "programs: a list of absolute paths is expected, as in programs: [/opt/mine/stage.py]");
    return STATUS_OK;
}

static enum status read_top(struct reader *r, struct graph *graph) {
    /* "icestream" is what `run` adds to the graph.yaml of a session: versions. */
    static const char *const known[] = {"session", "stages", "programs", "icestream"};
    enum { SESSION, STAGES, PROGRAMS, VERSIONS, KNOWN };
    bool seen[KNOWN] = {false};
    const yaml_node_t *root = yaml_document_get_root_node(&r->document);
    if (root == NULL || root->type != YAML_MAPPING_NODE) {
        problems_add(r->problems, PROBLEM_ERROR, root ? line_of(root) : 1,
                     "a graph is a mapping with the keys `session` and `stages`");
        return STATUS_OK;
    }
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
        const yaml_node_t *key_node = yaml_document_get_node(&r->document, p->key);
        const yaml_node_t *value = yaml_document_get_node(&r->document, p->value);
        const char *key = scalar_text(key_node);
        size_t which = 0;
        while (which < KNOWN && (key == NULL || strcmp(key, known[which]) != 0))
            which++;
        if (which == KNOWN) {
            const char *near = key ? params_nearest(key, known, 3) : NULL;
            problems_add(r->problems, PROBLEM_ERROR, line_of(key_node),
                         "unknown key \"%.80s\"%s%s%s; a graph has `session`, `programs` and `stages`", key ? key : "",
                         near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
            continue;
        }
        if (seen[which]) {
            problems_add(r->problems, PROBLEM_ERROR, line_of(key_node), "`%s` is there twice; join the two", key);
        } else if (which == SESSION) {
            graph->session.line = line_of(key_node);
            TRY(read_section(r, value, &graph->session));
        } else if (which == STAGES) {
            TRY(read_stages(r, value, graph));
        } else if (which == PROGRAMS) {
            TRY(read_programs(r, value, graph));
        } else if (which == VERSIONS) {
            graph->begun = true;
        }
        seen[which] = true;
    }
    if (!seen[STAGES])
        problems_add(r->problems, PROBLEM_ERROR, line_of(root), "the key `stages` is missing");
    return STATUS_OK;
}

static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static enum status parse(yaml_parser_t *parser, struct reader *r, struct graph *graph) {
    if (!yaml_parser_load(parser, &r->document)) {
        FAIL_IF(parser->error == YAML_MEMORY_ERROR, r->err, STATUS_NO_MEMORY, "no memory for the graph");
        char context[128] = "";
        if (parser->context != NULL)
            snprintf(context, sizeof context, " %s that begins in line %zu", parser->context,
                     parser->context_mark.line + 1);
        problems_add(r->problems, PROBLEM_ERROR, (int)parser->problem_mark.line + 1,
                     "this is not YAML: %s%s; check the brackets, quotes and indentation (no tabs)",
                     parser->problem ? parser->problem : "unreadable", context);
        return STATUS_OK;
    }
    enum status status = read_top(r, graph);
    yaml_document_delete(&r->document);
    return status;
}

enum status graph_parse(const char *name, const char *text, size_t length, struct problems *problems,
                        struct graph **ret_graph, struct err *err) {
    FAIL_IF(length > GRAPH_TEXT_MAX, err, STATUS_BAD_FORMAT, "%s: %zu bytes is too long for a graph (up to %d)", name,
            length, GRAPH_TEXT_MAX);
    bool good = true;
    TRY(graph_check_shape(text, length, problems, &good, err));
    struct graph *graph = calloc(1, sizeof *graph);
    FAIL_IF(graph == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    graph->folder = folder_of(name);
    graph->session.name = strdup("session");
    yaml_parser_t parser;
    if (graph->folder == NULL || graph->session.name == NULL || !yaml_parser_initialize(&parser)) {
        graph_destroy(&graph);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the graph");
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    struct reader reader = {.problems = problems, .err = err};
    enum status status = good ? parse(&parser, &reader, graph) : STATUS_OK;
    yaml_parser_delete(&parser);
    if (status != STATUS_OK) {
        graph_destroy(&graph);
        return status;
    }
    *ret_graph = graph;
    return STATUS_OK;
}

enum status graph_read(const char *path, struct problems *problems, struct graph **ret_graph, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(file_read_whole(path, GRAPH_TEXT_MAX, &text, &length, err));
    return graph_parse(path, text, length, problems, ret_graph, err);
}

/* --set. */

static enum status set_value(struct graph_entry *entry, const char *text, struct err *err) {
    size_t length = strlen(text);
    value_clear(&entry->value);
    entry->value.is_plain = true;
    entry->line = 0;
    if (length < 2 || text[0] != '[' || text[length - 1] != ']')
        return value_append(&entry->value, text, length, err);
    entry->value.is_list = true;
    for (const char *from = text + 1, *end = text + length - 1; from < end && entry->value.count < GRAPH_LIST_MAX;) {
        size_t part = strcspn(from, ",]");
        const char *next = from + part + 1;
        while (part > 0 && *from == ' ')
            from++, part--;
        while (part > 0 && from[part - 1] == ' ')
            part--;
        TRY(value_append(&entry->value, from, part, err));
        from = next;
    }
    return STATUS_OK;
}

enum status graph_set(struct graph *graph, const char *assignment, struct problems *problems, struct err *err) {
    const char *dot = strchr(assignment, '.');
    const char *equals = strchr(assignment, '=');
    FAIL_IF(dot == NULL || equals == NULL || dot > equals || dot == assignment || dot + 1 == equals, err,
            STATUS_BAD_ARGUMENT, "--set %s: expected STAGE.KEY=VALUE, as in --set extractor.box=256", assignment);
    char *name = strndup(assignment, (size_t)(dot - assignment));
    char *key = strndup(dot + 1, (size_t)(equals - dot - 1));
    enum status status = STATUS_OK;
    if (name == NULL || key == NULL) {
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the graph");
        goto out;
    }
    for (char *c = key; *c != '\0'; c++)
        if (*c == '-')
            *c = '_';
    struct graph_stage *stage = graph_find(graph, name);
    struct graph_section *section = stage ? &stage->section : &graph->session;
    if (stage == NULL && strcmp(name, "session") != 0) {
        const char *names[64];
        size_t count = 0;
        for (; count < graph->stage_count && count < 64; count++)
            names[count] = graph->stages[count].section.name;
        const char *near = params_nearest(name, names, count);
        problems_add(problems, PROBLEM_ERROR, 0, "--set %s: the graph has no stage \"%s\"%s%s%s", assignment, name,
                     near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
        goto out;
    }
    struct graph_entry *entry = graph_entry(section, key);
    if (entry == NULL)
        status = entry_add(section, key, 0, &entry, err);
    if (status == STATUS_OK)
        status = set_value(entry, equals + 1, err);
out:
    free(name);
    free(key);
    return status;
}

/* Values. */

char *graph_value_text(const struct graph_value *value) {
    size_t length = 1;
    for (size_t i = 0; i < value->count; i++)
        length += strlen(value->texts[i]) + 1;
    char *text = malloc(length);
    if (text == NULL)
        return NULL;
    char *end = text;
    for (size_t i = 0; i < value->count; i++) {
        if (i > 0)
            *end++ = ',';
        end = stpcpy(end, value->texts[i]);
    }
    *end = '\0';
    return text;
}

static json_t *text_json(const char *text, bool plain) {
    if (plain) {
        /* A bare number or boolean in JSON's own spelling; anything else ("1e", "0012", "nan") stays text. */
        bool word = strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
        bool number = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
        json_t *value = word || number ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        if (value != NULL)
            return value;
    }
    return json_string(text);
}

json_t *graph_value_json(const struct graph_value *value) {
    if (!value->is_list)
        return text_json(value->count > 0 ? value->texts[0] : "", value->is_plain);
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < value->count; i++)
        if (json_array_append_new(array, text_json(value->texts[i], value->is_plain)) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

bool graph_value_holds(const struct graph_value *value, const char *text) {
    for (size_t i = 0; i < value->count; i++)
        if (strcmp(value->texts[i], text) == 0)
            return true;
    return false;
}

bool graph_value_equal(const struct graph_value *a, const struct graph_value *b) {
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->texts[i], b->texts[i]) != 0)
            return false;
    return true;
}
