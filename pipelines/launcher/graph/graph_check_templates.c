/* Checks the stages whose templates a picker adopts (`templates_from`). They are no edges of the graph: their items go
 * another way. */
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/graph/graph_check_private.h"

static void check_maker(struct graph_checks *c, const struct graph_stage *picker, const struct graph_entry *entry,
                        const char *name) {
    const struct graph_stage *maker = graph_find(c->graph, name);
    if (maker == NULL)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.templates_from: the graph has no stage \"%s\"; name its classifier or refiner",
                     graph_set_by(entry), picker->section.name, name);
    else if (maker->kind != NULL && strcmp(maker->kind, "classifier") != 0 && strcmp(maker->kind, "refiner") != 0)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.templates_from: %s makes no templates; name a classifier or a refiner", graph_set_by(entry),
                     picker->section.name, name);
}

void graph_check_templates(struct graph_checks *c) {
    for (size_t i = 0; i < c->graph->stage_count; i++) {
        const struct graph_stage *stage = &c->graph->stages[i];
        const struct graph_entry *entry = graph_entry(&stage->section, "templates_from");
        if (stage->describe == NULL || stage->kind == NULL || strcmp(stage->kind, "lowpass-picker") != 0 ||
            entry == NULL)
            continue;
        for (size_t k = 0; k < entry->value.count; k++)
            check_maker(c, stage, entry, entry->value.texts[k]);
        if (graph_entry(&stage->section, "templates") != NULL)
            problems_add(c->problems, PROBLEM_NOTE, entry->line,
                         "%s: begins with `templates`; those of `templates_from` replace them once they find more",
                         stage->section.name);
    }
}
