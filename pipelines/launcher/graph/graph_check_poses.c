/* Checks that a stage that takes poses from its tables gets some: classes in 2D have angles in the plane alone. */
#include <string.h>

#include "pipelines/launcher/graph/graph_check_private.h"

/* Returns the entry that asks for poses of the table; NULL: there is none. */
static const struct graph_entry *asks_for_poses(const struct graph_stage *stage) {
    const struct graph_entry *poses = graph_entry(&stage->section, "poses");
    const struct graph_entry *kept = graph_entry(&stage->section, "skip_align");
    if (poses != NULL && poses->value.count == 1 && strcmp(poses->value.texts[0], "table") == 0) return poses;
    return kept != NULL && kept->value.count == 1 && strcmp(kept->value.texts[0], "true") == 0 ? kept : NULL;
}

static void warn(struct graph_checks *c, const struct graph_stage *stage, const struct graph_entry *entry,
                 const struct graph_stage *from) {
    bool classes = strcmp(from->kind, "classifier") == 0;
    problems_add(
        c->problems, PROBLEM_WARNING, entry->line,
        "%s%s.%s: %s gives its particles %s, so the poses that are to be kept or searched near are missing, and "
        "its tables will be refused; leave out `poses` and `skip_align`, or run icestream-refiner --i on a "
        "table with poses, such as run_data.star",
        graph_set_by(entry), stage->section.name, entry->key, from->section.name,
        classes ? "angles in the plane only (rlnAnglePsi)" : "no angles");
}

void graph_check_poses(struct graph_checks *c) {
    for (size_t i = 0; i < c->graph->stage_count; i++) {
        const struct graph_stage *stage = &c->graph->stages[i];
        const struct graph_entry *entry = asks_for_poses(stage);
        if (stage->describe == NULL || strcmp(stage->kind, "refiner") != 0 || entry == NULL) continue;
        for (size_t k = 0; k < stage->from_count; k++) {
            const struct graph_stage *from = &c->graph->stages[stage->from[k]];
            if (strcmp(from->kind, "classifier") == 0 || strcmp(from->kind, "extractor") == 0)
                warn(c, stage, entry, from);
        }
    }
}
