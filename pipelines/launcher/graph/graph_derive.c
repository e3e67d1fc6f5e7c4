/* Fills in values that a graph leaves open and that follow from another of its values: one diameter serves every
 * stage. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/graph/graph_check.h"

/* A mask leaves a little room around the particle, and a box leaves more. */
static const double MASK_OVER_PARTICLE = 1.1, BOX_OVER_PARTICLE = 1.5;
/* A box beyond these multiples of the particle is hardly meant, and cannot be meant. */
static const double BOX_DOUBTFUL = 3, BOX_ABSURD = 8;
enum { BOX_DEFAULT = 128, BOX_MAX = 8192 };

static bool is_kind(const struct graph_stage *stage, const char *kind) {
    return stage->describe != NULL && strcmp(stage->kind, kind) == 0;
}

static bool has_mask(const struct graph_stage *stage) {
    return is_kind(stage, "classifier") || is_kind(stage, "refiner");
}

/* Returns NaN when the key is missing or its value is not a number above 0. */
static double number_of(const struct graph_section *section, const char *key) {
    const struct graph_entry *entry = graph_entry(section, key);
    if (entry == NULL || entry->value.count != 1) return NAN;
    char *end;
    double number = strtod(entry->value.texts[0], &end);
    return end != entry->value.texts[0] && *end == '\0' && isfinite(number) && number > 0 ? number : NAN;
}

/* Finds the particle's diameter and the stage that gives it: the picker first, whose diameter is that of the particle
 * itself. */
static double find_particle(const struct graph *graph, const struct graph_stage **ret_from) {
    for (int masks = 0; masks < 2; masks++)
        for (size_t i = 0; i < graph->stage_count; i++) {
            const struct graph_stage *stage = &graph->stages[i];
            double diameter = number_of(&stage->section, "diameter");
            if (isnan(diameter) || !(masks ? has_mask(stage) : is_kind(stage, "lowpass-picker"))) continue;
            *ret_from = stage;
            return masks ? diameter / MASK_OVER_PARTICLE : diameter;
        }
    return NAN;
}

static enum status put_number(struct graph_stage *stage, const char *key, double number, const char *unit,
                              const struct graph_stage *from, struct problems *problems, struct err *err) {
    char text[32];
    snprintf(text, sizeof text, "%.0f", number);
    TRY(graph_put(&stage->section, key, text, true, err));
    graph_entry(&stage->section, key)->line = stage->section.line; /* it is not from --set */
    problems_add(problems, PROBLEM_NOTE, stage->section.line, "%s: no `%s`, so %s %s, after the diameter of %s",
                 stage->section.name, key, text, unit, from->section.name);
    return STATUS_OK;
}

/* Returns an even size that is a product of 2, 3 and 5, for the Fourier transforms. */
static int box_of(double least) {
    for (int box = 2 * (int)ceil(least / 2); box <= BOX_MAX; box += 2) {
        int rest = box;
        for (int prime = 2; prime <= 5; prime++)
            while (rest % prime == 0)
                rest /= prime;
        if (rest == 1) return box;
    }
    return BOX_DEFAULT;
}

/* Returns whether all stages after the watcher count in pixels. A watcher that feeds no stage counts as one of
 * micrographs. */
static bool feeds_unscaled_only(const struct graph *graph, size_t watcher) {
    bool feeds = false;
    for (size_t i = 0; i < graph->stage_count; i++)
        for (size_t k = 0; k < graph->stages[i].from_count; k++) {
            if (graph->stages[i].from[k] != watcher) continue;
            if (!json_is_true(json_object_get(graph->stages[i].describe, "unscaled"))) return false;
            feeds = true;
        }
    return feeds;
}

enum status graph_derive_scaled(struct graph *graph, struct err *err) {
    for (size_t i = 0; i < graph->stage_count; i++) {
        struct graph_stage *stage = &graph->stages[i];
        if (is_kind(stage, "watcher") && graph_entry(&stage->section, "scaled") == NULL &&
            feeds_unscaled_only(graph, i))
            TRY(graph_put(&stage->section, "scaled", "false", true, err));
    }
    return STATUS_OK;
}

/* Returns whether a stage lists a member of its items under `side`: "in" (what it asks for, as "movie" or
 * "movie|micrograph") or "out" (what it adds). */
static bool lists(const struct graph_stage *stage, const char *side, const char *member) {
    const char *members = json_string_value(json_object_get(stage->describe, side));
    size_t length = strlen(member);
    for (const char *at = members; at != NULL && *at != '\0';) {
        size_t word = strcspn(at, " |");
        if (word == length && memcmp(at, member, word) == 0) return true;
        at += word;
        at += strspn(at, " |");
    }
    return false;
}

/* Finds the stages after a watcher that take movies and those that take micrographs. A stage that takes both fits
 * either; so does a program that does not describe itself. */
static void find_takers(const struct graph *graph, size_t watcher, const struct graph_stage **ret_movies,
                        const struct graph_stage **ret_micrographs) {
    *ret_movies = *ret_micrographs = NULL;
    for (size_t i = 0; i < graph->stage_count; i++) {
        const struct graph_stage *stage = &graph->stages[i];
        bool movies = lists(stage, "in", "movie"), micrographs = lists(stage, "in", "micrograph");
        for (size_t k = 0; k < stage->from_count; k++) {
            if (stage->from[k] != watcher || movies == micrographs) continue;
            *(movies ? ret_movies : ret_micrographs) = stage;
        }
    }
}

static void refuse_both(const struct graph_stage *watcher, const struct graph_stage *movies,
                        const struct graph_stage *micrographs, struct problems *problems) {
    problems_add(problems, PROBLEM_ERROR, graph_entry(&micrographs->section, "from")->line,
                 "%s.from: %s takes micrographs, and %s takes movies from the same %s; did you mean `from: %s`? For "
                 "micrographs beside movies give the graph a second watcher",
                 micrographs->section.name, micrographs->section.name, movies->section.name, watcher->section.name,
                 movies->section.name);
}

static enum status derive_movies(const struct graph *graph, size_t index, struct problems *problems, struct err *err) {
    struct graph_stage *watcher = &graph->stages[index];
    const struct graph_stage *movies, *micrographs;
    find_takers(graph, index, &movies, &micrographs);
    if (movies != NULL && micrographs != NULL) {
        refuse_both(watcher, movies, micrographs, problems);
        return STATUS_OK;
    }
    const struct graph_entry *set = graph_entry(&watcher->section, "movies");
    if (set == NULL) return movies != NULL ? graph_put(&watcher->section, "movies", "true", true, err) : STATUS_OK;
    bool is_true = set->value.count == 1 && strcmp(set->value.texts[0], "true") == 0;
    const struct graph_stage *other = is_true ? micrographs : movies;
    if (other != NULL)
        problems_add(problems, PROBLEM_ERROR, set->line,
                     "%s%s.movies is %s, but %s takes %s; leave `movies` out: it follows from the graph",
                     set->line > 0 ? "" : "--set ", watcher->section.name, is_true ? "true" : "false",
                     other->section.name, is_true ? "micrographs" : "movies");
    return STATUS_OK;
}

enum status graph_derive_movies(struct graph *graph, struct problems *problems, struct err *err) {
    for (size_t i = 0; i < graph->stage_count; i++)
        if (is_kind(&graph->stages[i], "watcher")) TRY(derive_movies(graph, i, problems, err));
    return STATUS_OK;
}

/* Returns whether a stage behind this one estimates the CTF. seen: each stage is visited once. */
static bool estimates_ctf(const struct graph *graph, size_t index, bool *seen) {
    seen[index] = true;
    for (size_t i = 0; i < graph->stage_count; i++)
        for (size_t k = 0; !seen[i] && k < graph->stages[i].from_count; k++)
            if (graph->stages[i].from[k] == index &&
                (lists(&graph->stages[i], "out", "ctf") || estimates_ctf(graph, i, seen)))
                return true;
    return false;
}

enum status graph_derive_ctf(struct graph *graph, struct err *err) {
    _cleanup_(mem_free) bool *seen = calloc(graph->stage_count + 1, sizeof *seen);
    FAIL_IF(seen == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
    for (size_t i = 0; i < graph->stage_count; i++) {
        struct graph_section *section = &graph->stages[i].section;
        memset(seen, 0, graph->stage_count * sizeof *seen);
        if (is_kind(&graph->stages[i], "watcher") && graph_entry(section, "ctf") != NULL &&
            graph_entry(section, "ctf_missing") == NULL && estimates_ctf(graph, i, seen))
            TRY(graph_put(section, "ctf_missing", "without", true, err));
    }
    return STATUS_OK;
}

/* Returns the first stage before another one, or NULL. By its name: the edges of the graph are not resolved yet. */
static const struct graph_stage *stage_before(const struct graph *graph, const struct graph_stage *stage) {
    const struct graph_entry *from = graph_entry(&stage->section, "from");
    return from != NULL && from->value.count > 0 ? graph_find(graph, from->value.texts[0]) : NULL;
}

/* Returns the pixel size of what reaches a stage, Å: motion correction may have binned the session's pixels, or split
 * those of an EER detector. session: Å. */
static double pixel_size_before(const struct graph *graph, const struct graph_stage *stage, double session) {
    for (size_t steps = 0; steps < graph->stage_count; steps++) {
        stage = stage_before(graph, stage);
        if (stage == NULL) break;
        if (!is_kind(stage, "motion-corrector")) continue;
        double bin = number_of(&stage->section, "bin"), finer = number_of(&stage->section, "eer_upsampling");
        return session * (isnan(bin) ? 1 : bin) / (isnan(finer) ? 1 : finer);
    }
    return session;
}

/* Compares the box that a graph gives with the particle (Å). pixel_size: of the micrographs, Å. */
static void check_box(const struct graph_stage *extractor, double particle, double pixel_size,
                      const struct graph_stage *from, struct problems *problems) {
    const struct graph_entry *entry = graph_entry(&extractor->section, "box");
    double side = number_of(&extractor->section, "box") * pixel_size, times = side / particle;
    if (entry == NULL || !(times > BOX_DOUBTFUL)) return;
    problems_add(problems, times > BOX_ABSURD ? PROBLEM_ERROR : PROBLEM_WARNING, entry->line,
                 "%s%s.box: %s px are %.0f Å, %.1f times the particle of %.0f Å (after the diameter of %s); 1.5 to 2 "
                 "times is usual: did you mean %d?",
                 entry->line > 0 ? "" : "--set ", extractor->section.name, entry->value.texts[0], side, times, particle,
                 from->section.name, box_of(BOX_OVER_PARTICLE * particle / pixel_size));
}

enum status graph_derive(struct graph *graph, struct problems *problems, struct err *err) {
    const struct graph_stage *from = NULL;
    double particle = find_particle(graph, &from), session = number_of(&graph->session, "pixel_size");
    if (isnan(particle)) return STATUS_OK;
    for (size_t i = 0; i < graph->stage_count; i++) {
        struct graph_stage *stage = &graph->stages[i];
        bool open = graph_entry(&stage->section, "diameter") == NULL;
        if (has_mask(stage) && open)
            TRY(put_number(stage, "diameter", round(MASK_OVER_PARTICLE * particle), "Å", from, problems, err));
        else if (is_kind(stage, "lowpass-picker") && open && graph_entry(&stage->section, "templates") == NULL &&
                 graph_entry(&stage->section, "log_diameter") == NULL)
            TRY(put_number(stage, "diameter", round(particle), "Å", from, problems, err));
        double pixel_size = pixel_size_before(graph, stage, session);
        double box = BOX_OVER_PARTICLE * particle / pixel_size;
        if (is_kind(stage, "extractor") && graph_entry(&stage->section, "box") == NULL && box > BOX_DEFAULT &&
            box < BOX_MAX)
            TRY(put_number(stage, "box", box_of(box), "px", from, problems, err));
        else if (is_kind(stage, "extractor"))
            check_box(stage, particle, pixel_size, from, problems);
    }
    return STATUS_OK;
}
