/* Gives stages that share a GPU their parts of its memory. A stage that has its GPU to itself takes what is free there;
 * the first of several stages would leave nothing to the others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/graph/graph_check_private.h"
#include "pipelines/launcher/plan.h"

/* All in GiB. Each process takes OWN for CUDA, libraries, and the buffers of a stage that states no memory. UNKNOWN is
 * given where nobody tells how much memory a GPU has. A refiner's host memory never follows from a GPU: its sums do. */
enum { OWN = 2, UNKNOWN = 4, HOST = 4 };

/* Stages that state no memory and take more than OWN: movies are held whole (22 GiB for super-resolution),
 * crystal-scorers look at ten images at a time, and pickers hold a micrograph for each of 17 threads (2.4 to 4 GiB in all
 * up to 24 million pixels). `part`: of the whole GPU, if that is more. */
static const struct {
    const char *kind;
    double gib, part;
} LARGE[] = {{"motion-corrector", 6, 0.3}, {"crystal-scorer", 4, 0}, {"lowpass-picker", 4, 0}};

/* The memory that an instance of a stage asks for on its GPU. */
struct claim {
    double gib;  /* stated, or needed without a statement; beside OWN */
    bool states; /* gib is stated by `memory` */
    bool shares; /* takes all memory that is left */
    bool open;   /* shares, and its `memory` is auto: the launcher states its part */
};

/* The memory that all instances on a GPU ask for together. */
struct demand {
    int users, sharers; /* instances */
    double gib;         /* without the parts of the instances that share */
};

/* The part of a GPU that a stage gets. gpu −1: it shares none. */
struct part {
    double gib;
    int gpu;
};

static bool gets_a_part(const struct graph_stage *stage) {
    return strcmp(stage->kind, "classifier") == 0 || strcmp(stage->kind, "refiner") == 0;
}

/* Returns the `memory` of a stage as text, or NULL. ret_unit: "GiB" or "MiB". */
static const char *memory_of(const struct graph_stage *stage, const char **ret_unit) {
    const json_t *param = graph_find_param(program_params(stage->describe), "memory");
    const struct graph_entry *entry = graph_entry(&stage->section, "memory");
    const char *preset = json_string_value(json_object_get(param, "default"));
    const char *unit = json_string_value(json_object_get(param, "unit"));
    if (unit == NULL || (strcmp(unit, "GiB") != 0 && strcmp(unit, "MiB") != 0)) return NULL;
    *ret_unit = unit;
    if (entry != NULL && entry->value.count == 1) return entry->value.texts[0];
    return preset != NULL ? preset : "auto";
}

static struct claim claim_of(const struct graph_stage *stage, double total) {
    struct claim claim = {0};
    const char *unit, *text = memory_of(stage, &unit);
    for (size_t i = 0; text == NULL && i < sizeof LARGE / sizeof *LARGE; i++)
        if (strcmp(stage->kind, LARGE[i].kind) == 0) claim.gib = fmax(LARGE[i].gib, LARGE[i].part * total) - OWN;
    if (text == NULL) return claim;
    double number = strtod(text, NULL); /* "auto" is 0 */
    claim.states = number > 0;
    claim.shares = !claim.states;
    claim.open = gets_a_part(stage) && strcmp(text, "auto") == 0;
    if (claim.states) claim.gib = strcmp(unit, "MiB") == 0 ? number / 1024 : number;
    return claim;
}

static struct demand demand_on(const struct plan *plan, int gpu, double total) {
    struct demand demand = {0};
    for (size_t i = 0; i < plan->instance_count; i++) {
        if (!plan_uses_gpu(plan, &plan->instances[i], gpu)) continue;
        struct claim claim = claim_of(&plan->graph->stages[plan->instances[i].stage], total);
        demand.users++;
        demand.sharers += claim.shares;
        demand.gib += OWN + claim.gib;
    }
    return demand;
}

/* Returns whole GiB. If the others may need nearly everything, which they seldom do at a time, a part is as large as
 * where nothing is known, but all parts take half of the GPU at most. */
static double part_of(const struct demand *demand, double total) {
    if (!(total > 0)) return UNKNOWN;
    double part = floor((total - demand->gib) / demand->sharers);
    double least = fmin(UNKNOWN, floor(total / 2 / demand->sharers));
    return fmax(fmax(part, least), 1);
}

/* Finds the smallest part that a stage has of the GPUs that it shares. */
static struct part find_part(const struct plan *plan, size_t stage, const struct machine *machine) {
    double total = machine->gpu_memory / 0x1p30;
    struct part least = {INFINITY, -1};
    for (int gpu = 0; gpu < machine->gpus; gpu++) {
        struct demand demand = demand_on(plan, gpu, total);
        bool uses = false;
        for (size_t i = 0; i < plan->instance_count; i++)
            uses |= plan->instances[i].stage == stage && plan_uses_gpu(plan, &plan->instances[i], gpu);
        if (!uses || demand.users < 2 || demand.sharers == 0) continue;
        double gib = part_of(&demand, total);
        if (gib < least.gib) least = (struct part){gib, gpu};
    }
    return least;
}

/* Names the other stages on a GPU. */
static void name_others(const struct plan *plan, size_t stage, int gpu, char *text, size_t size) {
    size_t used = 0, last = stage;
    snprintf(text, size, "its other replicas");
    for (size_t i = 0; i < plan->instance_count; i++) {
        size_t other = plan->instances[i].stage;
        if (other == stage || other == last || !plan_uses_gpu(plan, &plan->instances[i], gpu)) continue;
        last = other;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     plan->graph->stages[other].section.name);
    }
}

/* Writes a number into a stage's section for this run. */
static enum status put(struct graph_section *section, const char *key, double number, struct err *err) {
    const struct graph_entry *entry = graph_entry(section, key);
    int line = entry != NULL ? entry->line : section->line; /* it is not from --set */
    char text[32];
    snprintf(text, sizeof text, "%.0f", number);
    TRY(graph_put(section, key, text, true, err));
    graph_entry(section, key)->line = line;
    graph_entry(section, key)->derived = true;
    return STATUS_OK;
}

static enum status give_part(const struct plan *plan, size_t index, struct part part, bool known,
                             struct graph_stage *stage, struct problems *problems, struct err *err) {
    char others[512];
    name_others(plan, index, part.gpu, others, sizeof others);
    TRY(put(&stage->section, "memory", part.gib, err));
    problems_add(problems, PROBLEM_NOTE, graph_entry(&stage->section, "memory")->line,
                 "%s: shares GPU %d with %s, so `memory` is %.0f GiB%s", stage->section.name, part.gpu, others,
                 part.gib, known ? "" : " (how much the GPU has is not known)");
    const struct graph_entry *host = graph_entry(&stage->section, "host_memory");
    bool open = host == NULL || (host->value.count == 1 && strcmp(host->value.texts[0], "auto") == 0);
    if (!open || graph_find_param(program_params(stage->describe), "host_memory") == NULL) return STATUS_OK;
    return put(&stage->section, "host_memory", HOST, err);
}

/* Warns of a stage that takes everything beside others, which the user asked for. */
static void warn_of_everything(const struct plan *plan, const struct machine *machine, struct problems *problems) {
    for (size_t i = 0; i < plan->instance_count; i++) {
        const struct graph_stage *stage = &plan->graph->stages[plan->instances[i].stage];
        const struct graph_entry *entry = graph_entry(&stage->section, "memory");
        char others[512];
        if (!gets_a_part(stage) || entry == NULL || !claim_of(stage, 0).shares) continue;
        int gpu = find_part(plan, plan->instances[i].stage, machine).gpu;
        if (gpu < 0) continue;
        name_others(plan, plan->instances[i].stage, gpu, others, sizeof others);
        problems_add(problems, PROBLEM_WARNING, entry->line,
                     "%s%s.memory: 0 takes all that is free on GPU %d, and %s may find no memory there; with auto it "
                     "gets a part",
                     graph_set_by(entry), stage->section.name, gpu, others);
    }
}

/* Warns of stages that are given more than a GPU has. */
static void warn_of_too_much(const struct plan *plan, const struct machine *machine, struct problems *problems) {
    double total = machine->gpu_memory / 0x1p30;
    for (int gpu = 0; total > 0 && gpu < machine->gpus; gpu++) {
        double given = 0;
        const struct graph_stage *last = NULL;
        for (size_t i = 0; i < plan->instance_count; i++) {
            const struct graph_stage *stage = &plan->graph->stages[plan->instances[i].stage];
            struct claim claim = claim_of(stage, total);
            if (!claim.states || !plan_uses_gpu(plan, &plan->instances[i], gpu)) continue;
            given += claim.gib;
            last = stage;
        }
        if (given > total)
            problems_add(problems, PROBLEM_WARNING, last->section.line,
                         "%s: `memory` gives the stages on GPU %d %.4g GiB together, and it has %.1f: those that begin "
                         "last fail; give less, or leave `memory` out",
                         last->section.name, gpu, given, total);
    }
}

enum status graph_derive_memory(struct graph *graph, const struct machine *machine, struct problems *problems,
                                struct err *err) {
    struct plan plan;
    if (!machine->cuda) return STATUS_OK;
    TRY(plan_create(graph, machine, &plan, err));
    _cleanup_(mem_free) struct part *parts = NULL;
    enum status status = mem_new(graph->stage_count, sizeof *parts, "the parts of GPUs", &parts, err);
    /* A part depends on all that are open: they are found before any is stated. */
    for (size_t i = 0; status == STATUS_OK && i < graph->stage_count; i++)
        parts[i] = claim_of(&graph->stages[i], 0).open ? find_part(&plan, i, machine) : (struct part){.gpu = -1};
    for (size_t i = 0; status == STATUS_OK && i < graph->stage_count; i++)
        if (parts[i].gpu >= 0)
            status = give_part(&plan, i, parts[i], machine->gpu_memory > 0, &graph->stages[i], problems, err);
    if (status == STATUS_OK) warn_of_everything(&plan, machine, problems);
    if (status == STATUS_OK) warn_of_too_much(&plan, machine, problems);
    plan_clear(&plan);
    return status;
}

void graph_memory_text(const struct graph_stage *stage, char *text, size_t size) {
    const char *unit, *memory = memory_of(stage, &unit);
    text[0] = '\0';
    if (memory == NULL || json_is_false(json_object_get(stage->describe, "cuda"))) return;
    snprintf(text, size, strcmp(memory, "auto") == 0 ? "%s" : "%s %s", memory, unit);
}
