#include "pipelines/launcher/graph/graph_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/memory.h"

static bool is_among(const char *key, const char *const *keys, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

/* Returns false for keys that may change between runs of a session: they decide where the work is done and who is told,
 * not its results. stage NULL: a key of `session`. */
static bool matters(const struct graph_stage *stage, const char *key) {
    static const char *const anywhere[] = {"threads", "gpu",    "device", "lanes", "transport",
                                           "listen",  "inputs", "on",     "hosts", "control_port"};
    static const char *const session[] = {"web", "notify", "defocus", "alarms", "engine", "slurm"};
    if (is_among(key, anywhere, sizeof anywhere / sizeof *anywhere)) return false;
    return stage != NULL || !is_among(key, session, sizeof session / sizeof *session);
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

/* Prints a key; a key that is no word (which `check` reports) in quotes. */
static bool print_key(char *key, FILE *out) {
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (key[0] == '-' || key[strspn(key, word)] != '\0') return print_text(key, false, out);
    fputs(key, out);
    return true;
}

static bool print_entry(const char *indent, char *key, const struct graph_value *value, FILE *out) {
    fputs(indent, out);
    bool well = print_key(key, out);
    fputs(value->is_list ? ": [" : ": ", out);
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
        if (!section->entries[i].derived)
            well &= print_entry(indent, section->entries[i].key, &section->entries[i].value, out);
    return well;
}

/* Returns whether the session keeps anything of a section. */
static bool is_kept(const struct graph_section *section) {
    for (size_t i = 0; i < section->count; i++)
        if (!section->entries[i].derived) return true;
    return false;
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
        fprintf(out, is_kept(&stage->section) ? "  %s:\n" : "  %s: {}\n", stage->section.name);
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

static bool is_program(const struct graph_entry *entry, const char *program) {
    return strcmp(entry->key, "program") == 0 && program != NULL && entry->value.count == 1 &&
           strcmp(entry->value.texts[0], program) == 0;
}

/* Returns whether two values are paths, perhaps written differently, of one file or folder. */
static bool is_same_place(const struct graph_value *a, const struct graph_value *b) {
    struct stat one, two;
    return a->count == 1 && b->count == 1 && a->texts[0][0] == '/' && b->texts[0][0] == '/' &&
           stat(a->texts[0], &one) == 0 && stat(b->texts[0], &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

/* Returns the entry of a key that the session keeps, or NULL. */
static const struct graph_entry *kept_entry(const struct graph_section *section, const char *key) {
    const struct graph_entry *entry = graph_entry(section, key);
    return entry != NULL && !entry->derived ? entry : NULL;
}

/* Visits what differs between two sections. An entry that names the resolved path of the stage's program does not
 * differ. */
static bool visit_section(const struct graph_section *old, const struct graph_section *new,
                          const struct graph_stage *stage, graph_difference_visit *visit, void *context) {
    for (size_t i = 0; i < old->count; i++) {
        const struct graph_entry *before = &old->entries[i], *after = kept_entry(new, before->key);
        if (before->derived || !matters(stage, before->key) ||
            (after != NULL && graph_value_equal(&before->value, &after->value)) ||
            (after != NULL && is_same_place(&before->value, &after->value)) ||
            (after != NULL && stage != NULL && is_program(before, stage->program)))
            continue;
        if (visit(&(struct graph_difference){old->name, before->key, stage, before, after}, context)) return true;
    }
    for (size_t i = 0; i < new->count; i++) {
        const struct graph_entry *after = &new->entries[i];
        if (after->derived || !matters(stage, after->key) || kept_entry(old, after->key) != NULL) continue;
        if (visit(&(struct graph_difference){old->name, after->key, stage, NULL, after}, context)) return true;
    }
    return false;
}

void graph_differences(const struct graph *old, const struct graph *new, graph_difference_visit *visit, void *context) {
    if (visit_section(&old->session, &new->session, NULL, visit, context)) return;
    for (size_t i = 0; i < old->stage_count; i++) {
        const struct graph_section *before = &old->stages[i].section;
        const struct graph_stage *after = graph_find(new, before->name);
        if (after == NULL ? visit(&(struct graph_difference){before->name, NULL, NULL, NULL, NULL}, context)
                          : visit_section(before, &after->section, after, visit, context))
            return;
    }
    for (size_t i = 0; i < new->stage_count; i++) {
        const struct graph_stage *after = &new->stages[i];
        if (graph_find(old, after->section.name) == NULL &&
            visit(&(struct graph_difference){after->section.name, NULL, after, NULL, NULL}, context))
            return;
    }
}

void graph_difference_text(const struct graph_difference *difference, char *text, size_t size) {
    const struct graph_entry *before = difference->before, *after = difference->after;
    _cleanup_(mem_free) char *was = before ? graph_value_text(&before->value) : NULL;
    _cleanup_(mem_free) char *is = after ? graph_value_text(&after->value) : NULL;
    if (difference->key == NULL)
        snprintf(text, size, "the stage %s is %s", difference->section, difference->stage != NULL ? "new" : "gone");
    else if (before == NULL)
        snprintf(text, size, "%s.%s was not set and is %s", difference->section, difference->key, is ? is : "");
    else if (after == NULL)
        snprintf(text, size, "%s.%s was %s and is not set", difference->section, difference->key, was ? was : "");
    else
        snprintf(text, size, "%s.%s was %s and is %s", difference->section, difference->key, was ? was : "",
                 is ? is : "");
}

struct first {
    char *text;
    size_t size;
};

static bool take_first(const struct graph_difference *difference, void *context) {
    struct first *first = context;
    graph_difference_text(difference, first->text, first->size);
    return true;
}

void graph_difference(const struct graph *old, const struct graph *new, char *text, size_t size) {
    struct first first = {text, size};
    text[0] = '\0';
    graph_differences(old, new, take_first, &first);
}
