/* Reads a graph from YAML, with line numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/files.h"
#include "common/harness/params.h"
#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/graph/graph_private.h"

struct reader {
    yaml_document_t document;
    struct problems *problems;
    struct err *err;
};

static int line_of(const yaml_node_t *node) {
    return (int)node->start_mark.line + 1;
}

/* Returns the text of a scalar node, or NULL; a NUL inside the text would hide what follows it. */
static const char *scalar_text(const yaml_node_t *node) {
    if (node->type != YAML_SCALAR_NODE) return NULL;
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
        if (element->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) value->is_plain = false;
        TRY(graph_value_append(value, text, strlen(text), r->err));
    }
    return STATUS_OK;
}

/* Returns whether a text can be a key: no line breaks or other control characters, and not beyond all length. */
static bool is_key(const char *text) {
    enum { KEY_MOST = 128 };
    size_t length = 0;
    for (; text[length] != '\0'; length++)
        if (length == KEY_MOST || (unsigned char)text[length] < ' ' || text[length] == 0x7f) return false;
    return length > 0;
}

/* Reads one "key: value" of a section. */
static enum status read_entry(struct reader *r, const yaml_node_t *key_node, const yaml_node_t *value_node,
                              struct graph_section *section) {
    const char *key = scalar_text(key_node);
    if (key == NULL || !is_key(key)) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(key_node), "%s: a key is a plain word", section->name);
        return STATUS_OK;
    }
    if (graph_entry(section, key) != NULL) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(key_node),
                     "%s.%s is given twice, first in line %d; keep one of the two", section->name, key,
                     graph_entry(section, key)->line);
        return STATUS_OK;
    }
    if (value_node->type == YAML_MAPPING_NODE) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(value_node),
                     "%s.%s: a value or a list is expected here, not a mapping; check the indentation", section->name,
                     key);
        return STATUS_OK;
    }
    struct graph_entry *entry;
    TRY(graph_entry_add(section, key, line_of(key_node), &entry, r->err));
    if (is_null(value_node)) return STATUS_OK; /* an error, unless --set gives the value: see graph_check_has_value */
    if (value_node->type == YAML_SEQUENCE_NODE) return read_list(r, value_node, section->name, key, &entry->value);
    const char *text = scalar_text(value_node);
    if (text == NULL) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(value_node), "%s.%s: the value holds a NUL", section->name,
                     key);
        text = "";
    }
    entry->value.is_plain = value_node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return graph_value_append(&entry->value, text, strlen(text), r->err);
}

static enum status read_section(struct reader *r, const yaml_node_t *node, struct graph_section *section) {
    if (is_null(node)) return STATUS_OK;
    if (node->type != YAML_MAPPING_NODE) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(node),
                     "%s: keys and values are expected, as in %s: {key: value}", section->name, section->name);
        return STATUS_OK;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++)
        TRY(read_entry(r, yaml_document_get_node(&r->document, p->key), yaml_document_get_node(&r->document, p->value),
                       section));
    return STATUS_OK;
}

bool graph_is_stage_name(const char *name) {
    return name[0] != '\0' && strlen(name) <= 64 && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(name);
}

/* Returns whether the name is that of a session folder in which a stage's products must not lie. */
static bool is_reserved_name(const char *name) {
    static const char *const reserved[] = {"session", "ledger", "leases", "log", "replay"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strcmp(name, reserved[i]) == 0) return true;
    return false;
}

static enum status read_stage(struct reader *r, const yaml_node_t *name_node, const yaml_node_t *node,
                              struct graph *graph) {
    const char *name = scalar_text(name_node);
    if (name == NULL || !graph_is_stage_name(name) || is_reserved_name(name)) {
        problems_add(r->problems, PROBLEM_ERROR, line_of(name_node),
                     "\"%.80s\" cannot name a stage; letters, digits, - and _ can (but for session, ledger, leases, "
                     "log and replay)",
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
    if (graph->stage_count == 0) problems_add(r->problems, PROBLEM_ERROR, line_of(node), "stages: there is no stage");
    return STATUS_OK;
}

/* Reads the list of programs that the graph may start. */
static enum status read_programs(struct reader *r, const yaml_node_t *node, struct graph *graph) {
    graph->programs.line = line_of(node);
    if (is_null(node)) return STATUS_OK;
    if (node->type == YAML_SEQUENCE_NODE) return read_list(r, node, "graph", "programs", &graph->programs.value);
    problems_add(r->problems, PROBLEM_ERROR, line_of(node),
                 "programs: a list of absolute paths is expected, as in programs: [/opt/mine/stage.py]");
    return STATUS_OK;
}

static enum status read_top(struct reader *r, struct graph *graph) {
    /* `run` adds "icestream" (versions) to the graph.yaml of a session. */
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
            const char *near = key ? text_nearest(key, known, 3) : NULL;
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
    if (!seen[STAGES]) problems_add(r->problems, PROBLEM_ERROR, line_of(root), "the key `stages` is missing");
    return STATUS_OK;
}

static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* Reports a line such as "classes:8", which YAML takes for one word. Returns whether it is such a line. */
static bool report_lost_blank(struct reader *r, size_t line, const char *text, size_t length) {
    const char *end = text + length;
    for (size_t i = 0; i < line && text != end; i++) {
        const char *next = memchr(text, '\n', (size_t)(end - text));
        text = next != NULL ? next + 1 : end;
    }
    while (text != end && *text == ' ')
        text++;
    const char *rest = text;
    while (rest != end && strchr("\r\n#", *rest) == NULL)
        rest++;
    const char *colon = memchr(text, ':', (size_t)(rest - text));
    if (colon == NULL || colon == text || colon + 1 == rest || colon[1] == ' ' || rest - text > 80) return false;
    int key = (int)(colon - text), value = (int)(rest - colon - 1);
    problems_add(r->problems, PROBLEM_ERROR, (int)line + 1,
                 "\"%.*s\" has no value: a blank follows the colon; did you mean \"%.*s: %.*s\"?", (int)(rest - text),
                 text, key, text, value, colon + 1);
    return true;
}

static enum status parse(yaml_parser_t *parser, struct reader *r, const char *text, size_t length,
                         struct graph *graph) {
    if (!yaml_parser_load(parser, &r->document)) {
        FAIL_IF(parser->error == YAML_MEMORY_ERROR, r->err, STATUS_NO_MEMORY, "no memory for the graph");
        if (parser->context != NULL && report_lost_blank(r, parser->context_mark.line, text, length)) return STATUS_OK;
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
    enum status status = good ? parse(&parser, &reader, text, length, graph) : STATUS_OK;
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
