#include "pipelines/launcher/graph/graph_sources.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static const char SELECTION[] = "selection";

bool graph_is_source(const struct graph_stage *stage) {
    return stage->from_count == 0 || stage->cumulative;
}

void graph_reach(const struct graph *graph, const size_t *order, size_t source, bool *leaves) {
    memset(leaves, 0, graph->stage_count * sizeof *leaves);
    for (size_t i = 0; i < graph->stage_count; i++) {
        const struct graph_stage *stage = &graph->stages[order[i]];
        leaves[order[i]] = order[i] == source;
        for (size_t k = 0; !graph_is_source(stage) && k < stage->from_count; k++)
            leaves[order[i]] |= leaves[stage->from[k]];
    }
}

/* Returns the program's own name; a graph whose programs were not asked has only the stage's. */
static const char *kind_of(const struct graph_stage *stage) {
    return stage->kind ? stage->kind : stage->section.name;
}

/* Reports that the items of a source come on two ways. A stage that names the source itself has that as one way. */
static void report_ways(const struct graph *graph, const struct graph_stage *stage, const struct graph_stage *source,
                        const size_t ways[2], struct problems *problems) {
    const struct graph_stage *one = &graph->stages[ways[0]], *other = &graph->stages[ways[1]];
    const char *first = one == source ? other->section.name : one->section.name;
    bool both = one != source && other != source;
    problems_add(
        problems, PROBLEM_ERROR, graph_entry(&stage->section, "from")->line,
        "%s.from: %s%s%s %s back to %s, so each of its items would arrive twice and only the first would count; "
        "name one of the two, give each a %s of its own, or use two sessions",
        stage->section.name, first, both ? " and " : "", both ? other->section.name : "", both ? "lead" : "leads",
        source->section.name, kind_of(source));
}

/* Looks at all inputs of a stage for items of one source; returns whether any come. reported: one problem a stage is
 * enough. */
static bool check_arrivals(const struct graph *graph, const struct graph_stage *stage, size_t source,
                           const bool *leaves, bool *reported, struct problems *problems) {
    size_t ways[2], count = 0;
    for (size_t k = 0; k < stage->from_count && count < 2; k++)
        if (leaves[stage->from[k]]) ways[count++] = stage->from[k];
    if (count == 2 && !*reported) {
        report_ways(graph, stage, &graph->stages[source], ways, problems);
        *reported = true;
    }
    return count > 0;
}

enum status graph_check_sources(struct graph *graph, const size_t *order, struct problems *problems, struct err *err) {
    size_t count = graph->stage_count, begins = 0;
    _cleanup_(mem_free) bool *leaves = calloc(count + 1, sizeof *leaves);
    _cleanup_(mem_free) bool *reported = calloc(count + 1, sizeof *reported);
    _cleanup_(mem_free) bool *reached = calloc(count + 1, sizeof *reached);
    FAIL_IF(leaves == NULL || reported == NULL || reached == NULL, err, STATUS_NO_MEMORY,
            "no memory to check the graph");
    graph->separate = false;
    for (size_t source = 0; source < count; source++) {
        bool feeds = false;
        if (!graph_is_source(&graph->stages[source])) continue;
        graph_reach(graph, order, source, leaves);
        for (size_t i = 0; i < count; i++) {
            if (!check_arrivals(graph, &graph->stages[i], source, leaves, &reported[i], problems)) continue;
            graph->separate |= reached[i];
            reached[i] = feeds = true;
        }
        begins += feeds && graph->stages[source].from_count == 0;
    }
    graph->separate |= begins > 1;
    return STATUS_OK;
}

void graph_check_selections(const struct graph *graph, json_t *const *provided, struct problems *problems) {
    for (size_t i = 0; i < graph->stage_count; i++) {
        const struct graph_stage *stage = &graph->stages[i];
        const char *need = json_string_value(json_object_get(stage->describe, "in"));
        if (stage->from_count < 2 || need == NULL || strstr(need, SELECTION) == NULL) continue;
        for (size_t k = 0; k < stage->from_count; k++) {
            if (json_object_get(provided[stage->from[k]], SELECTION) == NULL) continue;
            const struct graph_stage *other = &graph->stages[stage->from[k == 0]];
            problems_add(problems, PROBLEM_ERROR, graph_entry(&stage->section, "from")->line,
                         "%s.from: each selection of %s replaces all particles that came before it, and with them "
                         "those of %s; name one of the two, and give the other a %s of its own",
                         stage->section.name, graph->stages[stage->from[k]].section.name, other->section.name,
                         kind_of(stage));
            break;
        }
    }
}
