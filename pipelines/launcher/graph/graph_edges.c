/* Checks the edges of a graph: which stage feeds which, and whether each finds what it needs in its items. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/params.h"
#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/graph/graph_check.h"
#include "pipelines/launcher/graph/graph_sources.h"

/* Set of members that stands for "unknown": what a program without --describe adds. */
static const char ANYTHING[] = "*";

static const char *describe_text(const struct graph_stage *stage, const char *key) {
    return json_string_value(json_object_get(stage->describe, key));
}

static size_t index_of(const struct graph *graph, const struct graph_stage *stage) {
    return (size_t)(stage - graph->stages);
}

static void unknown_from(struct graph *graph, const struct graph_stage *stage, const struct graph_entry *entry,
                         const char *name, struct problems *problems) {
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < graph->stage_count && count < 64; i++)
        if (&graph->stages[i] != stage) names[count++] = graph->stages[i].section.name;
    const char *near = text_nearest(name, names, count);
    problems_add(problems, PROBLEM_ERROR, entry->line, "%s.from: the graph has no stage \"%s\"%s%s%s",
                 stage->section.name, name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* Finds the stages that `from` names. */
static enum status resolve_from(struct graph *graph, struct graph_stage *stage, struct problems *problems,
                                struct err *err) {
    const struct graph_entry *entry = graph_entry(&stage->section, "from");
    if (entry == NULL) return STATUS_OK;
    _cleanup_(mem_free) char *text = graph_value_text(&entry->value);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    stage->from = calloc(strlen(text) + 1, sizeof *stage->from);
    FAIL_IF(stage->from == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    char *rest = NULL;
    for (char *name = strtok_r(text, ", ", &rest); name != NULL; name = strtok_r(NULL, ", ", &rest)) {
        struct graph_stage *up = graph_find(graph, name);
        if (up == NULL) {
            unknown_from(graph, stage, entry, name, problems);
            continue;
        }
        if (up == stage) {
            problems_add(problems, PROBLEM_ERROR, entry->line, "%s.from: a stage cannot feed itself", name);
            continue;
        }
        bool twice = false;
        for (size_t i = 0; i < stage->from_count; i++)
            twice |= stage->from[i] == index_of(graph, up);
        if (twice)
            problems_add(problems, PROBLEM_ERROR, entry->line, "%s.from: %s is named twice; once is enough",
                         stage->section.name, name);
        else
            stage->from[stage->from_count++] = index_of(graph, up);
    }
    return STATUS_OK;
}

/* Orders the stages so that each comes after those that feed it; *ret_count is less than all when there is a cycle. */
static void sort(const struct graph *graph, size_t *order, bool *sorted, size_t *ret_count) {
    size_t count = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < graph->stage_count; i++) {
            bool ready = !sorted[i];
            for (size_t k = 0; ready && k < graph->stages[i].from_count; k++)
                ready = sorted[graph->stages[i].from[k]];
            if (!ready) continue;
            sorted[i] = moved = true;
            order[count++] = i;
        }
    }
    *ret_count = count;
}

/* Walks upstream among the stages that could not be sorted until one comes again, and reports the cycle. */
static enum status report_cycle(const struct graph *graph, const bool *sorted, struct problems *problems,
                                struct err *err) {
    size_t at = 0;
    while (sorted[at])
        at++;
    for (size_t step = 0; step < graph->stage_count; step++)
        for (size_t k = 0; k < graph->stages[at].from_count; k++)
            if (!sorted[graph->stages[at].from[k]]) {
                at = graph->stages[at].from[k];
                break;
            }
    size_t first = at;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    FAIL_IF(out == NULL, err, STATUS_NO_MEMORY, "no memory to check the graph");
    fputs(graph->stages[first].section.name, out);
    do {
        for (size_t k = 0; k < graph->stages[at].from_count; k++)
            if (!sorted[graph->stages[at].from[k]]) {
                at = graph->stages[at].from[k];
                break;
            }
        fprintf(out, " < %s", graph->stages[at].section.name);
    } while (at != first);
    fclose(out);
    const struct graph_entry *entry = graph_entry(&graph->stages[first].section, "from");
    problems_add(problems, PROBLEM_ERROR, entry->line,
                 "%s.from: the stages go round in a circle: %s; items must flow from a source to an end",
                 graph->stages[first].section.name, text ? text : "");
    free(text);
    return STATUS_OK;
}

/* Adds the words of "micrograph picks" to a set. */
static enum status add_words(json_t *set, const char *words, struct err *err) {
    _cleanup_(mem_free) char *copy = strdup(words);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory to check the graph");
    char *rest = NULL;
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        FAIL_IF(json_object_set_new(set, word, json_true()) != 0, err, STATUS_NO_MEMORY,
                "no memory to check the graph");
    return STATUS_OK;
}

/* Returns whether the set has one member of "particles|selection": one is enough. */
static bool set_has_one_of(const json_t *set, const char *alternatives, size_t length) {
    if (json_object_get(set, ANYTHING) != NULL) return true;
    while (length > 0) {
        size_t part = 0;
        while (part < length && alternatives[part] != '|')
            part++;
        char word[128];
        if (part > 0 && part < sizeof word) {
            memcpy(word, alternatives, part);
            word[part] = '\0';
            if (json_object_get(set, word) != NULL) return true;
        }
        alternatives += part + (part < length);
        length -= part + (part < length);
    }
    return false;
}

/* Returns whether the stage has a parameter that stands for one of these members of its items (`gives` of
 * --describe). */
static bool gives_itself(const struct graph_stage *stage, const char *alternatives, size_t length) {
    size_t i;
    const json_t *param;
    json_t *set = json_object();
    json_array_foreach(json_object_get(stage->describe, "params"), i, param) {
        const char *name = json_string_value(json_object_get(param, "name"));
        const char *gives = json_string_value(json_object_get(param, "gives"));
        if (name != NULL && gives != NULL && graph_entry(&stage->section, name) != NULL)
            (void)json_object_set_new(set, gives, json_true());
    }
    bool given = set_has_one_of(set, alternatives, length);
    json_decref(set);
    return given;
}

/* Suggests a stage whose output would fit. */
static const char *who_gives(const struct graph *graph, const char *need, size_t length) {
    for (size_t i = 0; i < graph->stage_count; i++) {
        const char *out = describe_text(&graph->stages[i], "out");
        json_t *set = out ? json_object() : NULL;
        bool fits = set != NULL && add_words(set, out, NULL) == STATUS_OK && set_has_one_of(set, need, length);
        json_decref(set);
        if (fits) return graph->stages[i].section.name;
    }
    return NULL;
}

static void check_members(const struct graph *graph, const struct graph_stage *stage, const struct graph_stage *up,
                          const json_t *provided, struct problems *problems) {
    const char *need = describe_text(stage, "in");
    for (; need != NULL && *need != '\0'; need += strspn(need, " ")) {
        size_t length = strcspn(need, " ");
        if (!set_has_one_of(provided, need, length) && !gives_itself(stage, need, length)) {
            const char *giver = who_gives(graph, need, length);
            problems_add(problems, PROBLEM_ERROR, graph_entry(&stage->section, "from")->line,
                         "%s.from: %s needs items with %.*s, and those that come from %s have none%s%s%s",
                         stage->section.name, stage->section.name, (int)length, need, up->section.name,
                         giver ? "; did you mean `from: " : "", giver ? giver : "", giver ? "`?" : "");
        }
        need += length;
    }
}

static void check_source(const struct graph *graph, const struct graph_stage *stage, struct problems *problems) {
    const char *need = describe_text(stage, "in");
    const struct graph_entry *from = graph_entry(&stage->section, "from");
    if (need == NULL) return;
    if (need[0] == '\0' && from != NULL)
        problems_add(problems, PROBLEM_ERROR, from->line,
                     "%s.from: %s begins a stream and takes nothing; leave `from` out", stage->section.name,
                     stage->section.name);
    if (need[0] != '\0' && from == NULL) {
        const char *giver = who_gives(graph, need, strcspn(need, " "));
        problems_add(problems, PROBLEM_ERROR, stage->section.line, "%s: `from` is missing: which stage feeds it?%s%s%s",
                     stage->section.name, giver ? " Perhaps `from: " : "", giver ? giver : "", giver ? "`" : "");
    }
}

/* Collects what the items that leave a stage hold: what all its inputs hold, and what the stage adds. */
static enum status collect_members(const struct graph_stage *stage, json_t **provided, json_t *set, struct err *err) {
    if (stage->describe == NULL || describe_text(stage, "out") == NULL) return add_words(set, ANYTHING, err);
    for (size_t k = 0; !stage->cumulative && k < stage->from_count; k++) {
        const char *word;
        json_t *yes;
        json_object_foreach(provided[stage->from[k]], word, yes) {
            bool everywhere = true;
            for (size_t other = 0; other < stage->from_count; other++)
                everywhere &= set_has_one_of(provided[stage->from[other]], word, strlen(word));
            if (everywhere || strcmp(word, ANYTHING) == 0) TRY(add_words(set, word, err));
        }
    }
    return add_words(set, describe_text(stage, "out"), err);
}

static enum status walk(struct graph *graph, const size_t *order, json_t **provided, struct problems *problems,
                        struct err *err) {
    for (size_t i = 0; i < graph->stage_count; i++) {
        struct graph_stage *stage = &graph->stages[order[i]];
        for (size_t k = 0; k < stage->from_count; k++) {
            const struct graph_stage *up = &graph->stages[stage->from[k]];
            check_members(graph, stage, up, provided[stage->from[k]], problems);
        }
        TRY(collect_members(stage, provided, provided[order[i]], err));
    }
    return STATUS_OK;
}

enum status graph_check_edges(struct graph *graph, struct problems *problems, struct err *err) {
    size_t count = graph->stage_count, sorted_count = 0;
    if (count == 0) return STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        TRY(resolve_from(graph, &graph->stages[i], problems, err));
        check_source(graph, &graph->stages[i], problems);
    }
    _cleanup_(mem_free) size_t *order = calloc(count, sizeof *order);
    _cleanup_(mem_free) bool *sorted = calloc(count, sizeof *sorted);
    _cleanup_(mem_free) json_t **provided = calloc(count, sizeof *provided);
    FAIL_IF(order == NULL || sorted == NULL || provided == NULL, err, STATUS_NO_MEMORY, "no memory to check the graph");
    sort(graph, order, sorted, &sorted_count);
    if (sorted_count < count) return report_cycle(graph, sorted, problems, err);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count; i++)
        if ((provided[i] = json_object()) == NULL)
            status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory to check the graph");
    if (status == STATUS_OK) status = walk(graph, order, provided, problems, err);
    if (status == STATUS_OK) status = graph_check_sources(graph, order, problems, err);
    if (status == STATUS_OK) graph_check_selections(graph, provided, problems);
    for (size_t i = 0; i < count; i++)
        json_decref(provided[i]);
    return status;
}
