/* The page of the report. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/report/report_private.h"

static const char head[] =
    "<meta charset=utf-8>\n<meta name=viewport content=\"width=device-width\">\n<style>\n"
    ":root{color-scheme:light dark}body{font:15px/1.45 system-ui,sans-serif;max-width:1180px;margin:0 "
    "auto;padding:16px}\n"
    "h1{margin:.2em 0}h2{margin:1.6em 0 .4em;border-bottom:1px solid #8886}figure{margin:0 0 12px;break-inside:avoid}\n"
    "table{border-collapse:collapse;margin:.4em 0;break-inside:avoid-page}th,td{padding:3px 10px;text-align:left;"
    "border-bottom:1px solid #8884;vertical-align:top;overflow-wrap:anywhere}td.n,th.n{text-align:right;"
    "font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px}.tiles div{border:1px solid "
    "#8886;border-radius:6px;padding:8px 12px}.tiles b{display:block;font-size:1.5em}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:14px}.row{display:flex;flex-"
    "wrap:"
    "wrap;gap:10px}.example{width:176px}.surface{width:300px}.example img{width:100%}img{max-width:100%;height:auto}\n"
    "figcaption{font-size:12px;overflow-wrap:anywhere}svg{width:100%;height:auto}svg text{font:11px "
    "system-ui,sans-serif;"
    "fill:currentColor}svg .g{stroke:#8885;stroke-width:.6}svg circle,svg rect{fill:#0072b2}svg .x{stroke:#d55e00;"
    "stroke-width:1.4;fill:none}\n"
    ".note{border-left:4px solid #e69f00;padding:4px 10px}@media print{:root{color-scheme:light}body{max-width:none;"
    "padding:0}@page{size:A4;margin:14mm}}\n</style>\n";

static const json_t *member(const json_t *object, const char *part, const char *key) {
    return json_object_get(json_object_get(object, part), key);
}

static void tile(struct report *r, const char *label, const json_t *value, const char *unit) {
    put(r, "<div><b>");
    put_value(r, value);
    if (!json_is_null(value) && value != NULL) put(r, unit);
    put_format(r, "</b>%s</div>", label);
}

static const json_t *quality_of(const struct report *r, const char *key, const char *which) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(r->data, "quality"), i, row) {
        if (strcmp(json_string_value(json_object_get(row, "key")), key) == 0) return json_object_get(row, which);
    }
    return NULL;
}

static void write_head(struct report *r) {
    put(r, "<!doctype html>\n<html lang=en>\n<title>Report of ");
    put_value(r, member(r->data, "session", "name"));
    put(r, "</title>\n");
    put(r, head);
    put(r, "<h1>");
    put_value(r, member(r->data, "session", "name"));
    put(r, "</h1>\n<p>");
    if (json_is_string(member(r->data, "session", "path"))) {
        put_value(r, member(r->data, "session", "path"));
        put(r, ", ");
    }
    put_value(r, member(r->data, "session", "state"));
    put(r, ", run ");
    put_value(r, member(r->data, "session", "run"));
    put(r, "; ");
    put_value(r, member(r->data, "session", "first"));
    put(r, " to ");
    put_value(r, member(r->data, "session", "last"));
    put(r, " UTC (");
    put_value(r, member(r->data, "session", "hours"));
    put(r, " h). All times are in UTC");
    const char *offset = json_string_value(member(r->data, "session", "offset"));
    if (offset != NULL && offset[0] != '\0') put_format(r, "; the clocks beside the microscope showed %s", offset);
    put(r, ". Made <time>");
    put_value(r, json_object_get(r->data, "made"));
    put(r, "</time>.</p>\n");
    if (!json_is_true(json_object_get(r->data, "adds_up"))) {
        put(r, "<p class=note>The counts do not add up: ");
        put_value(r, json_object_get(r->data, "miscount"));
        put(r, ".</p>\n");
    }
}

static void write_summary(struct report *r) {
    put(r, "<h2 id=summary>Summary</h2>\n<div class=tiles>");
    tile(r, "exposures", member(r->data, "exposures", "seen"), "");
    tile(r, "used", member(r->data, "exposures", "done"), "");
    tile(r, "exposures per hour", member(r->data, "throughput", "per_hour"), "");
    tile(r, "median CTF resolution", quality_of(r, "resolution", "median"), " Å");
    tile(r, "median defocus", quality_of(r, "defocus", "median"), " µm");
    tile(r, "particles extracted", member(r->data, "particles", "extracted"), "");
    tile(r, "particles kept", member(r->data, "particles", "kept"), "");
    if (json_is_true(member(r->data, "map", "noise")))
        put(r, "<div><b>noise</b>map</div>");
    else if (report_unresolved(json_object_get(r->data, "map")) != NULL)
        put(r, "<div><b>no resolution</b>map</div>");
    else
        tile(r, "map", member(r->data, "map", "resolution"), " Å");
    put(r,
        "</div>\n<table id=stages><caption>Items of each stage, as <code>icestream status</code> counts them</caption>"
        "<tr><th>Stage<th class=n>Seen<th class=n>Done<th class=n>Rejected<th class=n>Failed<th class=n>In flight\n");
    size_t i;
    json_t *stage;
    static const char *const keys[] = {"seen", "done", "rejected", "failed", "in_flight"};
    json_array_foreach(json_object_get(r->data, "stages"), i, stage) {
        put(r, "<tr><td>");
        put_value(r, json_object_get(stage, "stage"));
        if (json_is_true(json_object_get(stage, "left_out"))) put(r, " (left out)");
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            put(r, "<td class=n>");
            put_value(r, json_object_get(stage, keys[k]));
        }
        put(r, "\n");
    }
    put(r, "</table>\n<table id=facts>");
    json_t *fact;
    json_array_foreach(json_object_get(r->data, "facts"), i, fact) {
        put(r, "<tr><th>");
        put_value(r, json_object_get(fact, "label"));
        put(r, "<td>");
        put_value(r, json_object_get(fact, "value"));
        put(r, "\n");
    }
    put(r, "</table>\n");
}

static void write_losses(struct report *r) {
    static const char *const states[][2] = {
        {"done", "used"}, {"in_flight", "still in work"}, {"rejected", "rejected"}, {"failed", "failed"}};
    put(r, "<h2 id=losses>What was lost, and why</h2>\n<table><tr><th>Outcome<th>Stage<th>Reason<th class=n>Exposures"
           "<th>First\n");
    for (size_t i = 0; i < 2; i++)
        put_format(r, "<tr><td>%s<td><td><td class=n>%lld<td>\n", states[i][1],
                   (long long)json_integer_value(member(r->data, "exposures", states[i][0])));
    size_t k;
    json_t *loss;
    json_int_t rest = 0;
    json_array_foreach(json_object_get(r->data, "losses"), k, loss) {
        if (k >= REPORT_ROWS_MAX) { /* the rarest */
            rest += json_integer_value(json_object_get(loss, "count"));
            continue;
        }
        static const char *const keys[] = {"state", "stage", "reason"};
        put(r, "<tr>");
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            put(r, "<td>");
            put_value(r, json_object_get(loss, keys[i]));
        }
        put(r, "<td class=n>");
        put_value(r, json_object_get(loss, "count"));
        put(r, "<td>");
        put_value(r, json_object_get(loss, "example"));
        put(r, "\n");
    }
    if (rest > 0) put_format(r, "<tr><td>others<td><td>report.json has them<td class=n>%lld<td>\n", (long long)rest);
    put_format(r, "<tr><th>All<td><td><th class=n>%lld<td>\n</table>\n",
               (long long)json_integer_value(member(r->data, "exposures", "seen")));
}

static void write_quality(struct report *r) {
    size_t i, rows = view_row_count(r->view);
    json_t *row;
    put(r, "<h2 id=quality>Quality of the exposures</h2>\n<table><tr><th>Quantity<th class=n>Exposures<th class=n>Least"
           "<th class=n>10 %<th class=n>Median<th class=n>90 %<th class=n>Most\n");
    json_array_foreach(json_object_get(r->data, "quality"), i, row) {
        static const char *const keys[] = {"count", "least", "p10", "median", "p90", "most"};
        put(r, "<tr><td>");
        put_value(r, json_object_get(row, "label"));
        if (json_string_value(json_object_get(row, "unit"))[0] != '\0') {
            put(r, " (");
            put_value(r, json_object_get(row, "unit"));
            put(r, ")");
        }
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            put(r, "<td class=n>");
            put_value(r, json_object_get(row, keys[k]));
        }
        put(r, "\n");
    }
    put(r, "</table>\n<div class=charts>");
    _cleanup_(mem_free) double *x = calloc(rows + 1, sizeof *x), *y = calloc(rows + 1, sizeof *y);
    _cleanup_(mem_free) unsigned char *mark = calloc(rows + 1, 1);
    r->failed |= x == NULL || y == NULL || mark == NULL;
    for (size_t q = 0; !r->failed && q < report_quantity_count; q++) {
        const struct quantity *quantity = &report_quantities[q];
        char label[96];
        for (size_t k = 0; k < rows; k++) {
            x[k] = (double)(k + 1);
            y[k] = report_quantity(r->view, quantity, k);
            mark[k] = view_row(r->view, k)->state >= LEDGER_REJECTED;
        }
        const struct points points = {x, y, mark, rows};
        size_t count;
        double *sorted = report_sorted(r->view, quantity, &count);
        snprintf(label, sizeof label, quantity->unit[0] != '\0' ? "%s (%s)" : "%s", quantity->label, quantity->unit);
        report_scatter(r, label, "exposure (crosses: rejected or failed)", label, &points);
        if (sorted != NULL) report_histogram(r, label, label, sorted, count);
        free(sorted);
    }
    put(r, "</div>\n");
    report_examples(r);
}

/* Draws the exposures at their places on the grid, if the microscope's notes have these. */
static void write_places(struct report *r) {
    size_t rows = view_row_count(r->view);
    int x_column = view_column_find(r->view, "movie.stage_x"), y_column = view_column_find(r->view, "movie.stage_y");
    if (x_column < 0 || y_column < 0) return;
    _cleanup_(mem_free) double *x = calloc(rows + 1, sizeof *x), *y = calloc(rows + 1, sizeof *y);
    _cleanup_(mem_free) unsigned char *mark = calloc(rows + 1, 1);
    r->failed |= x == NULL || y == NULL || mark == NULL;
    if (r->failed) return;
    for (size_t i = 0; i < rows; i++) {
        x[i] = view_value(r->view, i, (size_t)x_column);
        y[i] = view_value(r->view, i, (size_t)y_column);
        mark[i] = view_row(r->view, i)->state >= LEDGER_REJECTED || (r->selected != NULL && r->selected[i] == 0);
    }
    const struct points points = {x, y, mark, rows};
    report_scatter(r,
                   r->selected != NULL ? "Places of the exposures (crosses: no particle selected)"
                                       : "Places of the exposures (crosses: rejected or failed)",
                   "stage x (µm)", "stage y (µm)", &points);
}

static void write_squares(struct report *r) {
    static const char *const keys[] = {"exposures",  "done",   "rejected", "failed",
                                       "resolution", "motion", "picks",    "selected"};
    const json_t *squares = json_object_get(r->data, "squares");
    size_t i;
    json_t *square;
    if (json_array_size(squares) == 0) return;
    put(r, "<h2 id=squares>Grid squares</h2>\n<table><tr><th>Square<th class=n>Exposures<th class=n>Used"
           "<th class=n>Rejected<th class=n>Failed<th class=n>Å (median)<th class=n>Motion (Å)<th class=n>Picks<th "
           "class=n>Particles selected\n");
    json_array_foreach(squares, i, square) {
        if (i == REPORT_ROWS_MAX) break;
        put(r, "<tr><td>");
        put_value(r, json_object_get(square, "name"));
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            put(r, "<td class=n>");
            put_value(r, json_object_get(square, keys[k]));
        }
        put(r, "\n");
    }
    put(r, "</table>\n");
    write_places(r);
    if (json_array_size(squares) > REPORT_ROWS_MAX)
        put_format(r, "<p>The first %d squares; report.json has all.</p>\n", REPORT_ROWS_MAX);
}

static void write_classes(struct report *r) {
    const json_t *classes = json_object_get(r->data, "classes");
    if (classes == NULL) return;
    put(r, "<h2 id=classes>Classes in two dimensions</h2>\n<p>Snapshot ");
    put_value(r, json_object_get(classes, "iteration"));
    put(r, ": ");
    put_value(r, json_object_get(classes, "kept"));
    put(r, " of ");
    put_value(r, json_object_get(classes, "particles"));
    put(r, " particles in ");
    put_value(r, json_object_get(classes, "kept_classes"));
    put(r, " of ");
    put_value(r, json_object_get(classes, "classes"));
    put(r, " classes were kept.</p>\n");
    const char *picture = json_string_value(json_object_get(classes, "picture"));
    if (picture != NULL) report_picture_file(r, picture, "averages of all classes");
    size_t i;
    json_t *class;
    put(r, "<table><tr><th class=n>Class<th class=n>Share of particles<th class=n>Resolution (Å)<th>Kept\n");
    json_array_foreach(json_object_get(classes, "list"), i, class) {
        put(r, "<tr><td class=n>");
        put_value(r, json_object_get(class, "number"));
        put(r, "<td class=n>");
        put_value(r, json_object_get(class, "share"));
        put(r, "<td class=n>");
        put_value(r, json_object_get(class, "resolution"));
        const json_t *kept = json_object_get(class, "kept");
        put(r, json_is_true(kept) ? "<td>kept\n" : json_is_false(kept) ? "<td>dropped\n" : "<td>–\n");
    }
    put(r, "</table>\n");
}

/* Reads numbers of a JSON list; null is NaN. The caller frees them. */
static double *numbers(const json_t *list, size_t count) {
    double *values = malloc((count + 1) * sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++) {
        const json_t *value = json_array_get(list, i);
        values[i] = json_is_number(value) ? json_number_value(value) : (double)NAN;
    }
    return values;
}

static void write_fsc(struct report *r) {
    static const char *const names[] = {"unmasked", "masked", "randomised", "corrected"};
    const json_t *fsc = json_object_get(r->data, "fsc");
    size_t count = json_array_size(json_object_get(fsc, "k")), used = 0;
    double *k = numbers(json_object_get(fsc, "k"), count), *values[4] = {0};
    struct curve curves[4];
    for (size_t i = 0; i < 4; i++) {
        const json_t *list = json_object_get(fsc, names[i]);
        if (json_array_size(list) != count || (values[i] = numbers(list, count)) == NULL) continue;
        curves[used++] = (struct curve){names[i], values[i]};
    }
    if (k != NULL && count > 1 && used > 0)
        report_curves(r, "Fourier shell correlation of the half maps", "1/Å", "correlation", k, curves, used, count);
    free(k);
    for (size_t i = 0; i < 4; i++)
        free(values[i]);
}

static void write_guinier(struct report *r) {
    static const char *const names[] = {"original", "weighted", "sharpened", "fit"};
    const json_t *guinier = json_object_get(r->data, "guinier"), *squared = json_object_get(guinier, "k_squared");
    size_t count = json_array_size(squared), used = 0;
    double *k = numbers(squared, count), *values[4] = {0};
    struct curve curves[4];
    for (size_t i = 0; i < 4; i++) {
        const json_t *list = json_object_get(guinier, names[i]);
        if (json_array_size(list) != count || (values[i] = numbers(list, count)) == NULL) continue;
        curves[used++] = (struct curve){names[i], values[i]};
    }
    if (k != NULL && count > 1 && used > 0)
        report_curves(r, "Guinier plot of the map", "1/d² (1/Å²)", "ln(amplitude)", k, curves, used, count);
    free(k);
    for (size_t i = 0; i < 4; i++)
        free(values[i]);
}

static void write_growth(struct report *r) {
    const json_t *list = member(r->data, "map", "iterations");
    size_t count = json_array_size(list), i;
    _cleanup_(mem_free) double *x = calloc(count + 1, sizeof *x), *y = calloc(count + 1, sizeof *y);
    json_t *line;
    if (x == NULL || y == NULL) return;
    json_array_foreach(list, i, line) {
        double particles = json_number_value(json_object_get(line, "particles"));
        double resolution = json_number_value(json_object_get(line, "resolution"));
        x[i] = particles > 0 ? log(particles) : (double)NAN;
        y[i] = resolution > 0 ? 1 / (resolution * resolution) : (double)NAN;
    }
    const struct points points = {x, y, NULL, count};
    report_scatter(r, "Resolution over particles: iterations of a growing set", "ln(particles)", "1/d² (1/Å²)",
                   &points);
}

static void write_map(struct report *r) {
    const json_t *map = json_object_get(r->data, "map");
    const char *file = json_string_value(json_object_get(map, "file"));
    if (map == NULL) return;
    put(r, "<h2 id=map>Map</h2>\n<p>");
    put_value(r, json_object_get(map, "particles"));
    put(r, " particles, ");
    const char *unresolved = report_unresolved(map);
    if (unresolved != NULL) {
        put(r, unresolved);
    } else {
        put_value(r, json_object_get(map, "resolution"));
        put(r, " Å (FSC of the unmasked half maps at 0.143, of an automatic run");
    }
    if (json_is_number(json_object_get(map, "corrected_resolution"))) {
        put(r, "; with a mask, corrected for its effect: ");
        put_value(r, json_object_get(map, "corrected_resolution"));
        put(r, " Å");
    }
    put(r, "), iteration ");
    put_value(r, json_object_get(map, "iteration"));
    put(r, ".</p>\n");
    if (file != NULL) report_slices(r, file);
    if (file != NULL) report_surfaces(r, file);
    put(r, "<div class=charts>");
    write_fsc(r);
    write_guinier(r);
    write_growth(r);
    report_directions(r);
    put(r, "</div>\n");
}

static void write_throughput(struct report *r) {
    const json_t *found = member(r->data, "throughput", "found");
    size_t count = json_array_size(found), i;
    double *heights = numbers(found, count);
    json_t *latency;
    put(r, "<h2 id=throughput>Throughput and latency</h2>\n<div class=charts>");
    if (heights != NULL)
        report_bars(r, "Exposures found in each 10 minutes", "hours since the first exposure", "exposures", heights,
                    count, json_number_value(member(r->data, "throughput", "bin")) / 3600);
    free(heights);
    put(r, "</div>\n<table><caption>From found to finished</caption><tr><th>Stage<th class=n>Exposures"
           "<th class=n>Median (s)<th class=n>95 % (s)\n");
    json_array_foreach(member(r->data, "throughput", "latency"), i, latency) {
        static const char *const keys[] = {"count", "median", "p95"};
        put(r, "<tr><td>");
        put_value(r, json_object_get(latency, "stage"));
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            put(r, "<td class=n>");
            put_value(r, json_object_get(latency, keys[k]));
        }
        put(r, "\n");
    }
    put(r, "</table>\n");
}

void report_page(struct report *report) {
    write_head(report);
    write_summary(report);
    write_losses(report);
    write_quality(report);
    write_squares(report);
    write_classes(report);
    write_map(report);
    write_throughput(report);
    report_page_run(report);
    put(report, "</html>\n");
}
