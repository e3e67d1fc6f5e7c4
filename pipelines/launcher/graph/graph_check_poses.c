/* Checks what a refiner begins with. One that takes poses from its tables must get some: classes in 2D have angles in the
 * plane alone, and an extractor has those of its coordinates. Without poses and without a reference it makes a first map. */
#include <string.h>
#include <strings.h>

#include "pipelines/launcher/graph/graph_check_private.h"

static bool is_true(const char *text) {
    static const char *const yes[] = {"true", "yes", "on", "1"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(text, yes[i]) == 0) return true;
    return false;
}

/* Returns the entry that asks for poses of the table; NULL: there is none. */
static const struct graph_entry *asks_for_poses(const struct graph_stage *stage) {
    const struct graph_entry *poses = graph_entry(&stage->section, "poses");
    const struct graph_entry *kept = graph_entry(&stage->section, "skip_align");
    if (poses != NULL && poses->value.count == 1 && strcmp(poses->value.texts[0], "table") == 0) return poses;
    return kept != NULL && kept->value.count == 1 && is_true(kept->value.texts[0]) ? kept : NULL;
}

/* Returns whether the tables of a stage have no angles of three dimensions. Coordinates of an extractor may be a table
 * with poses, which it passes on. */
static bool lacks_poses(const struct graph_stage *from) {
    const struct graph_entry *coordinates = graph_entry(&from->section, "coordinates");
    bool given = coordinates != NULL && coordinates->value.count == 1 && *coordinates->value.texts[0] != 0;
    return strcmp(from->kind, "classifier") == 0 || (strcmp(from->kind, "extractor") == 0 && !given);
}

static void warn(struct graph_checks *c, const struct graph_stage *stage, const struct graph_entry *entry,
                 const struct graph_stage *from) {
    bool classes = strcmp(from->kind, "classifier") == 0;
    problems_add(
        c->problems, PROBLEM_WARNING, entry->line,
        "%s%s.%s: %s gives its particles %s, so the poses that are to be kept or searched near are missing or wrong; "
        "leave out `poses` and `skip_align`, or run icestream-refiner --i on a "
        "table with poses, such as run_data.star",
        graph_set_by(entry), stage->section.name, entry->key, from->section.name,
        classes ? "angles in the plane only (rlnAnglePsi)" : "no angles");
}

static void note_first_map(struct graph_checks *c, const struct graph_stage *stage) {
    if (graph_entry(&stage->section, "reference") == NULL)
        problems_add(c->problems, PROBLEM_NOTE, stage->section.line,
                     "%s: no `reference`, so it makes its first map from the particles", stage->section.name);
}

void graph_check_poses(struct graph_checks *c) {
    for (size_t i = 0; i < c->graph->stage_count; i++) {
        const struct graph_stage *stage = &c->graph->stages[i];
        const struct graph_entry *entry = asks_for_poses(stage);
        if (stage->describe == NULL || strcmp(stage->kind, "refiner") != 0) continue;
        if (entry == NULL) note_first_map(c, stage);
        for (size_t k = 0; entry != NULL && k < stage->from_count; k++) {
            const struct graph_stage *from = &c->graph->stages[stage->from[k]];
            if (lacks_poses(from)) warn(c, stage, entry, from);
        }
    }
}
