#include "pipelines/launcher/graph/graph_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* Returns false for keys that may change between runs of a session: they decide where the work is done, not its
 * results. */
static bool matters(const char *key) {
    static const char *const free_keys[] = {"threads", "gpu", "device", "lanes", "transport", "listen", "inputs"};
    for (size_t i = 0; i < sizeof free_keys / sizeof free_keys[0]; i++)
        if (strcmp(key, free_keys[i]) == 0) return false;
    return true;
}

/* Prints a text in JSON, which is YAML too; a number keeps its spelling. */
static bool print_text(char *given, bool is_plain, FILE *out) {
    const struct graph_value value = {.count = 1, .texts = &given, .is_plain = is_plain};
    json_t *json = graph_value_json(&value);
    char *text = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    json_decref(json);
    if (text != NULL) fputs(text[0] != '"' ? given : text, out);
    free(text);
    return text != NULL;
}

static bool print_entry(const char *indent, const char *key, const struct graph_value *value, FILE *out) {
    bool well = true;
    fprintf(out, value->is_list ? "%s%s: [" : "%s%s: ", indent, key);
    for (size_t i = 0; i < value->count; i++) {
        if (i > 0) fputs(", ", out);
        well &= print_text(value->texts[i], value->is_plain, out);
    }
    fputs(value->is_list ? "]\n" : "\n", out);
    return well;
}

static bool print_section(const struct graph_section *section, const char *indent, FILE *out) {
    bool well = true;
    for (size_t i = 0; i < section->count; i++)
        well &= print_entry(indent, section->entries[i].key, &section->entries[i].value, out);
    return well;
}

static const char *version_of(const struct graph_stage *stage) {
    const char *version = json_string_value(json_object_get(stage->describe, "version"));
    return version ? version : "unknown";
}

enum status graph_print(const struct graph *graph, char **ret_text, struct err *err) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    FAIL_IF(out == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    fprintf(out, "# The graph of this session, resolved.\nicestream:\n  version: \"%s\"\n  programs:\n",
            ICESTREAM_VERSION);
    bool well = true;
    for (size_t i = 0; i < graph->stage_count; i++) {
        char *texts[1] = {(char *)version_of(&graph->stages[i])};
        const struct graph_value version = {.count = 1, .texts = texts};
        well &= print_entry("    ", graph->stages[i].section.name, &version, out);
    }
    fputs(graph->session.count > 0 ? "session:\n" : "session: {}\n", out);
    well &= print_section(&graph->session, "  ", out);
    if (graph->programs.value.count > 0) well &= print_entry("", "programs", &graph->programs.value, out);
    fputs("stages:\n", out);
    for (size_t i = 0; i < graph->stage_count; i++) {
        const struct graph_stage *stage = &graph->stages[i];
        fprintf(out, stage->section.count > 0 ? "  %s:\n" : "  %s: {}\n", stage->section.name);
        well &= print_section(&stage->section, "    ", out);
    }
    well &= fclose(out) == 0 && text != NULL;
    if (!well) {
        free(text);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the graph");
    }
    *ret_text = text;
    return STATUS_OK;
}

/* Finds the first value of `old` that is missing in `new` or, with `forth`, differs there. `program` is the resolved
 * path of the stage's program: an entry that names this path does not differ. */
static bool section_differs(const struct graph_section *old, const struct graph_section *new, bool forth,
                            const char *program, char *text, size_t size) {
    for (size_t i = 0; i < old->count; i++) {
        const struct graph_entry *entry = &old->entries[i];
        const struct graph_entry *other = graph_entry(new, entry->key);
        if (!matters(entry->key) || (other != NULL && (!forth || graph_value_equal(&entry->value, &other->value))))
            continue;
        if (other != NULL && strcmp(entry->key, "program") == 0 && program != NULL && entry->value.count == 1 &&
            strcmp(entry->value.texts[0], program) == 0)
            continue;
        _cleanup_(mem_free) char *was = graph_value_text(&entry->value);
        _cleanup_(mem_free) char *is = other ? graph_value_text(&other->value) : NULL;
        if (!forth)
            snprintf(text, size, "%s.%s was not set and is %s", old->name, entry->key, was ? was : "");
        else if (other == NULL)
            snprintf(text, size, "%s.%s was %s and is not set", old->name, entry->key, was ? was : "");
        else
            snprintf(text, size, "%s.%s was %s and is %s", old->name, entry->key, was ? was : "", is ? is : "");
        return true;
    }
    return false;
}

void graph_difference(const struct graph *old, const struct graph *new, char *text, size_t size) {
    text[0] = '\0';
    if (section_differs(&old->session, &new->session, true, NULL, text, size) ||
        section_differs(&new->session, &old->session, false, NULL, text, size))
        return;
    for (size_t i = 0; i < old->stage_count; i++) {
        const struct graph_stage *before = &old->stages[i];
        const struct graph_stage *after = graph_find(new, before->section.name);
        if (after == NULL) {
            snprintf(text, size, "the stage %s is gone", before->section.name);
            return;
        }
        if (section_differs(&before->section, &after->section, true, after->program, text, size) ||
            section_differs(&after->section, &before->section, false, NULL, text, size))
            return;
    }
    for (size_t i = 0; i < new->stage_count; i++)
        if (graph_find(old, new->stages[i].section.name) == NULL) {
            snprintf(text, size, "the stage %s is new", new->stages[i].section.name);
            return;
        }
}
