/* Checks the columns that rules (reject_if) name: a rule on a column that no item has leaves nothing out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/star.h"
#include "common/harness/rules.h"
#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/graph/graph_check_private.h"

enum { COLUMNS_MAX = 256, NAME_SIZE = 112 };

struct columns {
    char names[COLUMNS_MAX][NAME_SIZE];
    size_t count;
    bool known; /* false: some stage on the way may set any column */
};

static void add(struct columns *columns, const char *name, size_t length) {
    if (columns->count == COLUMNS_MAX || length >= NAME_SIZE)
        columns->known = false;
    else
        snprintf(columns->names[columns->count++], NAME_SIZE, "%.*s", (int)length, name);
}

/* Adds the columns of the tables that a watcher joins to its items. A table that is away may have any. */
static void add_table(struct columns *columns, const char *path) {
    struct star_file *file = NULL;
    if (star_read(path, &file, NULL) != STATUS_OK) {
        columns->known = false;
        return;
    }
    for (size_t t = 0; t < star_table_count(file); t++)
        for (size_t i = 0; i < star_column_count(star_table_at(file, t)); i++) {
            const char *name = star_column_name(star_table_at(file, t), i);
            add(columns, name, strlen(name));
        }
    star_destroy(&file);
}

static void add_stage(struct columns *columns, const struct graph_stage *stage) {
    const char *text = json_string_value(json_object_get(stage->describe, "columns"));
    if (text == NULL) columns->known = false;
    for (const char *at = text; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, " ");
        if (length > 0) add(columns, at, length);
        at += length + strspn(at + length, " ");
    }
    const struct graph_entry *table = graph_entry(&stage->section, "ctf");
    if (table != NULL && strcmp(stage->kind, "watcher") == 0 && table->value.count == 1)
        add_table(columns, table->value.texts[0]);
}

/* Adds the columns of a stage and of those before it; each stage counts once. */
static void gather(const struct graph *graph, size_t index, bool *seen, struct columns *columns) {
    if (seen[index]) return;
    seen[index] = true;
    add_stage(columns, &graph->stages[index]);
    for (size_t k = 0; k < graph->stages[index].from_count; k++)
        gather(graph, graph->stages[index].from[k], seen, columns);
}

static void warn(struct graph_checks *c, const struct graph_stage *stage, const struct graph_entry *entry,
                 const char *column, const struct columns *columns) {
    const char *names[COLUMNS_MAX];
    for (size_t i = 0; i < columns->count; i++)
        names[i] = columns->names[i];
    const char *near = text_nearest(column, names, columns->count);
    problems_add(
        c->problems, PROBLEM_WARNING, entry->line,
        "%s%s.reject_if: neither %s nor a stage before it sets the column %s, so this rule leaves nothing out%s%s%s",
        graph_set_by(entry), stage->section.name, stage->section.name, column,
        near != NULL          ? "; did you mean \""
        : columns->count == 0 ? "; a `ctf` of the watcher, or a "
                                "ctf-estimator, gives columns of the CTF"
                              : "",
        near != NULL ? near : "", near != NULL ? "\"?" : "");
}

static void check(struct graph_checks *c, size_t index, const struct graph_entry *entry, struct columns *columns,
                  bool *seen) {
    const struct graph_stage *stage = &c->graph->stages[index];
    struct rules rules;
    _cleanup_(mem_free) char *text = graph_value_text(&entry->value);
    if (text == NULL || rules_parse(text, &rules, NULL) != STATUS_OK) return;
    columns->count = 0;
    columns->known = true;
    memset(seen, 0, c->graph->stage_count * sizeof *seen);
    gather(c->graph, index, seen, columns);
    for (int r = 0; r < rules.count && columns->known; r++) {
        /* A point is a path to a member of the item, such as picks.count. */
        bool found = strchr(rules.rules[r].column, '.') != NULL;
        for (size_t i = 0; i < columns->count && !found; i++)
            found = strcmp(rules.rules[r].column, columns->names[i]) == 0;
        if (!found) warn(c, stage, entry, rules.rules[r].column, columns);
    }
}

void graph_check_rules(struct graph_checks *c) {
    _cleanup_(mem_free) struct columns *columns = calloc(1, sizeof *columns);
    _cleanup_(mem_free) bool *seen = calloc(c->graph->stage_count + 1, sizeof *seen);
    c->problems->no_memory |= columns == NULL || seen == NULL;
    for (size_t i = 0; columns != NULL && seen != NULL && i < c->graph->stage_count; i++) {
        const struct graph_stage *stage = &c->graph->stages[i];
        const struct graph_entry *entry = graph_entry(&stage->section, "reject_if");
        if (entry != NULL && stage->describe != NULL && !stage->wrong) check(c, i, entry, columns, seen);
    }
}
