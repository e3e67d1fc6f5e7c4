#include "pipelines/launcher/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "common/harness/params.h"
#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/graph/graph_private.h"

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
    if (g == NULL) return;
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
        free(stage->on);
    }
    free(g->stages);
    free(g->folder);
    free(g);
    *graph = NULL;
}

struct graph_stage *graph_find(const struct graph *graph, const char *name) {
    for (size_t i = 0; i < graph->stage_count; i++)
        if (strcmp(graph->stages[i].section.name, name) == 0) return &graph->stages[i];
    return NULL;
}

struct graph_entry *graph_entry(const struct graph_section *section, const char *key) {
    for (size_t i = 0; i < section->count; i++)
        if (strcmp(section->entries[i].key, key) == 0) return &section->entries[i];
    return NULL;
}

enum status graph_entry_add(struct graph_section *section, const char *key, int line, struct graph_entry **ret_entry,
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

enum status graph_value_append(struct graph_value *value, const char *text, size_t length, struct err *err) {
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
    enum status status = graph_value_append(&value, text, strlen(text), err);
    struct graph_entry *entry = graph_entry(section, key);
    if (status == STATUS_OK && entry == NULL) status = graph_entry_add(section, key, 0, &entry, err);
    if (status != STATUS_OK) {
        value_clear(&value);
        return status;
    }
    value_clear(&entry->value);
    entry->value = value;
    entry->derived = false;
    return STATUS_OK;
}

static enum status append_json(struct graph_value *value, const json_t *scalar, struct err *err) {
    if (json_is_string(scalar))
        return graph_value_append(value, json_string_value(scalar), json_string_length(scalar), err);
    char *text = json_dumps(scalar, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    enum status status = graph_value_append(value, text, strlen(text), err);
    free(text);
    return status;
}

static void take_out(struct graph_section *section, struct graph_entry *entry) {
    free(entry->key);
    value_clear(&entry->value);
    size_t at = (size_t)(entry - section->entries);
    memmove(entry, entry + 1, (--section->count - at) * sizeof *entry);
}

enum status graph_put_json(struct graph_section *section, const char *key, const json_t *value, struct err *err) {
    struct graph_entry *entry = graph_entry(section, key);
    if (value == NULL || json_is_null(value)) {
        if (entry != NULL) take_out(section, entry);
        return STATUS_OK;
    }
    const json_t *first = json_is_array(value) ? json_array_get(value, 0) : value;
    struct graph_value next = {.is_list = json_is_array(value), .is_plain = !json_is_string(first)};
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && next.is_list && i < json_array_size(value); i++)
        status = append_json(&next, json_array_get(value, i), err);
    if (!next.is_list) status = append_json(&next, value, err);
    if (status == STATUS_OK && entry == NULL) status = graph_entry_add(section, key, 0, &entry, err);
    if (status != STATUS_OK) {
        value_clear(&next);
        return status;
    }
    value_clear(&entry->value);
    entry->value = next;
    entry->derived = false;
    return STATUS_OK;
}

/* Replaces a value for --set. */
static enum status set_value(struct graph_entry *entry, const char *text, struct err *err) {
    size_t length = strlen(text);
    value_clear(&entry->value);
    entry->value.is_plain = true;
    entry->line = 0;
    entry->derived = false;
    if (length < 2 || text[0] != '[' || text[length - 1] != ']')
        return graph_value_append(&entry->value, text, length, err);
    entry->value.is_list = true;
    for (const char *from = text + 1, *end = text + length - 1; from < end && entry->value.count < GRAPH_LIST_MAX;) {
        size_t part = strcspn(from, ",]");
        const char *next = from + part + 1;
        while (part > 0 && *from == ' ')
            from++, part--;
        while (part > 0 && from[part - 1] == ' ')
            part--;
        TRY(graph_value_append(&entry->value, from, part, err));
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
        if (*c == '-') *c = '_';
    struct graph_stage *stage = graph_find(graph, name);
    struct graph_section *section = stage ? &stage->section : &graph->session;
    if (stage == NULL && strcmp(name, "session") != 0) {
        const char *names[64];
        size_t count = 0;
        for (; count < graph->stage_count && count < 64; count++)
            names[count] = graph->stages[count].section.name;
        const char *near = text_nearest(name, names, count);
        problems_add(problems, PROBLEM_ERROR, 0, "--set %s: the graph has no stage \"%s\"%s%s%s", assignment, name,
                     near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
        goto out;
    }
    struct graph_entry *entry = graph_entry(section, key);
    if (entry == NULL) status = graph_entry_add(section, key, 0, &entry, err);
    if (status == STATUS_OK) status = set_value(entry, equals + 1, err);
out:
    free(name);
    free(key);
    return status;
}

/* ---- Values ---- */

char *graph_value_text(const struct graph_value *value) {
    size_t length = 1;
    for (size_t i = 0; i < value->count; i++)
        length += strlen(value->texts[i]) + 1;
    char *text = malloc(length);
    if (text == NULL) return NULL;
    char *end = text;
    for (size_t i = 0; i < value->count; i++) {
        if (i > 0) *end++ = ',';
        end = stpcpy(end, value->texts[i]);
    }
    *end = '\0';
    return text;
}

static json_t *text_json(const char *text, bool plain) {
    if (plain) {
        /* A bare number or boolean in JSON's own spelling; anything else ("1e", "0012", "nan") stays a text. */
        bool word = strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
        bool number = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
        json_error_t error = {.text = "no number"};
        json_t *value = word || number ? json_loads(text, JSON_DECODE_ANY, &error) : NULL;
        /* Without memory, jansson may give no reason: a number must not become a text then. */
        bool starved = error.text[0] == '\0' || json_error_code(&error) == json_error_out_of_memory;
        if (value != NULL || ((word || number) && starved)) return value;
    }
    return json_string(text);
}

json_t *graph_value_json(const struct graph_value *value) {
    if (!value->is_list) return text_json(value->count > 0 ? value->texts[0] : "", value->is_plain);
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
        if (strcmp(value->texts[i], text) == 0) return true;
    return false;
}

bool graph_value_equal(const struct graph_value *a, const struct graph_value *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->texts[i], b->texts[i]) != 0) return false;
    return true;
}
