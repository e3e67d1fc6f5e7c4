/* Classes, maps and their FSC, as the stages' own files say. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/star.h"
#include "common/memory.h"
#include "pipelines/launcher/report/report_private.h"

/* Returns the last line of a history that has such an event, and the stage; NULL: there is none. */
static const json_t *last_event(struct view *view, const char *event, const char **ret_stage) {
    for (size_t i = view_stage_count(view); i-- > 0;) {
        const json_t *history = view_history(view, view_stage_name(view, i));
        for (size_t k = json_array_size(history); k-- > 0;) {
            const json_t *line = json_array_get(history, k);
            const char *name = json_string_value(json_object_get(line, "event"));
            if (name == NULL || strcmp(name, event) != 0) continue;
            *ret_stage = view_stage_name(view, i);
            return line;
        }
    }
    return NULL;
}

const char *report_history_stage(struct view *view, const char *event) {
    const char *stage = NULL;
    return last_event(view, event, &stage) != NULL ? stage : NULL;
}

/* Copies numbers that a line of a history may have. */
static void copy_members(json_t *to, const json_t *from, const char *const *keys, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (json_object_get(from, keys[i]) != NULL && !json_is_null(json_object_get(from, keys[i])))
            json_object_set(to, keys[i], json_object_get(from, keys[i]));
}

/* Returns the first of a line's files with that ending, or NULL. */
static const char *file_with(const json_t *line, const char *ending) {
    size_t i;
    json_t *file;
    json_array_foreach(json_object_get(line, "files"), i, file) {
        const char *path = json_string_value(file);
        size_t length = path != NULL ? strlen(path) : 0;
        if (length > strlen(ending) && strcmp(path + length - strlen(ending), ending) == 0 && path[0] != '/' &&
            strstr(path, "..") == NULL)
            return path;
    }
    return NULL;
}

static struct star_file *read_star(struct report *report, const char *path) {
    struct star_file *file = NULL;
    char whole[PATH_SIZE];
    if (path_join(view_session(report->view)->path, path, whole, sizeof whole, NULL) != STATUS_OK ||
        star_read(whole, &file, NULL) != STATUS_OK)
        return NULL;
    return file;
}

static double cell(const struct star_table *table, size_t row, const char *column) {
    double value;
    int at = table != NULL ? star_column_find(table, column) : -1;
    return at >= 0 && star_get_number(table, row, at, &value, NULL) == STATUS_OK ? value : (double)NAN;
}

/* ---- classes ---- */

static json_t *kept_json(double kept) {
    return isfinite(kept) ? json_boolean(kept != 0) : json_null();
}

/* The classes of the last snapshot: number, share and resolution. */
static void add_class_list(struct report *report, json_t *classes, const char *model) {
    struct star_file *file = read_star(report, model);
    const struct star_table *table = file != NULL ? star_table_find(file, "model_classes") : NULL;
    json_t *list = json_array();
    for (size_t i = 0; table != NULL && i < star_row_count(table) && i < 1000; i++)
        json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:o}", "number", (json_int_t)i + 1, "share",
                                              report_number(cell(table, i, "rlnClassDistribution"), 4), "resolution",
                                              report_number(cell(table, i, "rlnEstimatedResolution"), 2), "kept",
                                              kept_json(cell(table, i, "icestreamKept"))));
    star_destroy(&file);
    json_object_set_new(classes, "list", list);
}

static void add_classes(struct report *report) {
    static const char *const keys[] = {"iteration", "particles", "kept", "classes", "kept_classes", "resolution"};
    const char *stage;
    const json_t *line = last_event(report->view, "classes", &stage);
    if (line == NULL) return;
    json_t *classes = json_pack("{s:s}", "stage", stage);
    copy_members(classes, line, keys, sizeof keys / sizeof keys[0]);
    const char *model = file_with(line, "_model.star"), *picture = file_with(line, "_classes.png");
    if (model != NULL) add_class_list(report, classes, model);
    if (picture != NULL) json_object_set_new(classes, "picture", json_value_text(picture));
    json_object_set_new(report->data, "classes", classes);
}

/* ---- maps ---- */

static json_t *column_json(const struct star_table *table, const char *column) {
    if (table == NULL || star_column_find(table, column) < 0) return NULL;
    json_t *values = json_array();
    for (size_t i = 0; i < star_row_count(table) && i < 2000; i++)
        json_array_append_new(values, report_number(cell(table, i, column), 6));
    return values;
}

/* Returns the resolution (Å) at which a curve first falls below a level; null: it never does. */
static json_t *crossing(const json_t *k, const json_t *curve, double level) {
    for (size_t i = 1; i < json_array_size(curve); i++) {
        double before = json_number_value(json_array_get(curve, i - 1)),
               at = json_number_value(json_array_get(curve, i));
        if (at >= level) continue;
        double k0 = json_number_value(json_array_get(k, i - 1)), k1 = json_number_value(json_array_get(k, i));
        double where = before > at ? k0 + (k1 - k0) * (before - level) / (before - at) : k1;
        return report_number(where > 0 ? 1 / where : (double)NAN, 2);
    }
    return json_null();
}

static bool add_curve(json_t *fsc, const char *name, json_t *values) {
    if (values == NULL) return false;
    json_object_set_new(fsc, name, values);
    return true;
}

/* Logarithms of amplitudes over the square of 1/d. RELION writes −99 where there is none. */
static void add_guinier(struct report *report, const struct star_table *table, const struct star_table *general) {
    static const char *const names[][2] = {{"k_squared", "rlnResolutionSquared"},
                                           {"original", "rlnLogAmplitudesOriginal"},
                                           {"weighted", "rlnLogAmplitudesWeighted"},
                                           {"sharpened", "rlnLogAmplitudesSharpened"}};
    json_t *guinier = json_object(), *list, *value;
    size_t k;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!add_curve(guinier, names[i][0], column_json(table, names[i][1]))) continue;
        list = json_object_get(guinier, names[i][0]);
        json_array_foreach(list, k, value) {
            if (json_number_value(value) <= -99) json_array_set_new(list, k, json_null());
        }
    }
    double slope = cell(general, 0, "rlnFittedSlopeGuinierPlot");
    double intercept = cell(general, 0, "rlnFittedInterceptGuinierPlot");
    if (isfinite(slope) && isfinite(intercept)) {
        list = json_array();
        json_array_foreach(json_object_get(guinier, "k_squared"), k, value) {
            json_array_append_new(list, report_number(intercept + slope * json_number_value(value), 6));
        }
        json_object_set_new(guinier, "fit", list);
    }
    if (json_array_size(json_object_get(guinier, "k_squared")) > 1) json_object_set(report->data, "guinier", guinier);
    json_decref(guinier);
}

const char *report_unresolved(const json_t *map) {
    static const char *const REASONS[][2] = {
        {"noise", "noise, no resolution (the images resemble the reference no more than its negative"},
        {"shared", "no resolution (the halves agree no further than they share"},
        {"start", "no resolution (from its blurred reference the map does not come back"},
    };
    const char *why = json_string_value(json_object_get(map, "unresolved"));
    if (why == NULL) return json_is_true(json_object_get(map, "noise")) ? REASONS[0][1] : NULL;
    for (size_t i = 0; i < sizeof REASONS / sizeof *REASONS; i++)
        if (strcmp(why, REASONS[i][0]) == 0) return REASONS[i][1];
    return "no resolution (the halves are believed in no shell";
}

static void add_fsc(struct report *report, const char *stage) {
    char path[PATH_SIZE];
    json_t *fsc = json_object();
    snprintf(path, sizeof path, "%s/postprocess.star", stage);
    struct star_file *file = read_star(report, path);
    struct star_table *table = file != NULL ? star_table_find(file, "fsc") : NULL;
    bool any = add_curve(fsc, "k", column_json(table, "rlnResolution"));
    any &= add_curve(fsc, "unmasked", column_json(table, "rlnFourierShellCorrelationUnmaskedMaps"));
    add_curve(fsc, "masked", column_json(table, "rlnFourierShellCorrelationMaskedMaps"));
    add_curve(fsc, "randomised", column_json(table, "rlnCorrectedFourierShellCorrelationPhaseRandomizedMaskedMaps"));
    add_curve(fsc, "corrected", column_json(table, "rlnFourierShellCorrelationCorrected"));
    const struct star_table *general = file != NULL ? star_table_find(file, "general") : NULL;
    json_t *map = json_object_get(report->data, "map");
    const bool resolved = report_unresolved(map) == NULL;
    if (general != NULL && resolved) {
        json_object_set_new(map, "corrected_resolution", report_number(cell(general, 0, "rlnFinalResolution"), 2));
        json_object_set_new(map, "b_factor", report_number(cell(general, 0, "rlnBfactorUsedForSharpening"), 1));
    }
    if (file != NULL) add_guinier(report, star_table_find(file, "guinier"), general);
    star_destroy(&file);
    if (!any) {
        snprintf(path, sizeof path, "%s/run_model.star", stage);
        file = read_star(report, path);
        table = file != NULL ? star_table_find(file, "model_class_1") : NULL;
        any = add_curve(fsc, "k", column_json(table, "rlnResolution"));
        any &= add_curve(fsc, "unmasked", column_json(table, "rlnGoldStandardFsc"));
        star_destroy(&file);
    }
    if (any && resolved) {
        json_object_set_new(fsc, "at_0.143",
                            crossing(json_object_get(fsc, "k"), json_object_get(fsc, "unmasked"), 0.143));
        json_object_set_new(fsc, "at_0.5", crossing(json_object_get(fsc, "k"), json_object_get(fsc, "unmasked"), 0.5));
    }
    if (any) {
        json_object_set(report->data, "fsc", fsc);
    }
    json_decref(fsc);
}

static json_t *iterations_json(struct view *view, const char *stage) {
    static const char *const keys[] = {"iteration", "particles", "resolution", "noise", "unresolved", "final"};
    const json_t *history = view_history(view, stage);
    json_t *list = json_array();
    size_t from = json_array_size(history) > 2000 ? json_array_size(history) - 2000 : 0;
    for (size_t i = from; i < json_array_size(history); i++) {
        const json_t *line = json_array_get(history, i);
        const char *event = json_string_value(json_object_get(line, "event"));
        if (event == NULL || strcmp(event, "map") != 0) continue;
        json_t *iteration = json_object();
        copy_members(iteration, line, keys, sizeof keys / sizeof keys[0]);
        json_array_append_new(list, iteration);
    }
    return list;
}

static void add_map(struct report *report) {
    static const char *const keys[] = {"iteration",  "particles", "resolution", "noise",
                                       "unresolved", "final",     "accuracy"};
    const char *stage;
    const json_t *line = last_event(report->view, "map", &stage);
    if (line == NULL) return;
    json_t *map = json_pack("{s:s}", "stage", stage);
    copy_members(map, line, keys, sizeof keys / sizeof keys[0]);
    const char *file = file_with(line, ".mrc");
    if (file != NULL) json_object_set_new(map, "file", json_value_text(file));
    json_object_set_new(map, "iterations", iterations_json(report->view, stage));
    json_object_set_new(report->data, "map", map);
    add_fsc(report, stage);
    report_add_directions(report, stage);
}

/* ---- particles ---- */

static json_int_t sum_of(const struct view *view, const char *column) {
    int at = view_column_find(view, column);
    double sum = 0;
    for (size_t i = 0; at >= 0 && i < view_row_count(view); i++) {
        double value = view_value(view, i, (size_t)at);
        if (isfinite(value)) sum += value;
    }
    return (json_int_t)sum;
}

void report_add_particles(struct report *report) {
    add_classes(report);
    add_map(report);
    const json_t *classes = json_object_get(report->data, "classes"), *map = json_object_get(report->data, "map");
    json_t *particles = json_pack("{s:I, s:I}", "picked", sum_of(report->view, "picks.count"), "extracted",
                                  sum_of(report->view, "particles.count"));
    if (classes != NULL) json_object_set(particles, "kept", json_object_get(classes, "kept"));
    json_object_set_new(particles, "left_out", json_integer((json_int_t)report->left_out));
    if (map != NULL) json_object_set(particles, "in_map", json_object_get(map, "particles"));
    json_object_set_new(report->data, "particles", particles);
}
