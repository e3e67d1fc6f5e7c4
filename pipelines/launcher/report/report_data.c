/* The numbers of the report: session, counts, quality, grid squares, throughput. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/numbers.h"
#include "pipelines/launcher/report/report_private.h"

const struct quantity report_quantities[] = {
    {"defocus", "Defocus", "µm", {"rlnDefocusU", "rlnDefocusV"}, 1e-4, 3, true},
    {"astigmatism", "Astigmatism", "nm", {"rlnCtfAstigmatism", NULL}, 0.1, 1, true},
    {"resolution", "CTF resolution", "Å", {"rlnCtfMaxResolution", NULL}, 1, 2, true},
    {"motion", "Total motion", "Å", {"icestreamMotionTotal", NULL}, 1, 2, true},
    {"ice", "Ice ring density", "", {"rlnCtfIceRingDensity", NULL}, 1, 4, true},
    {"picks", "Picks per exposure", "", {"picks.count", NULL}, 1, 0, false},
    {"crystal", "Probability of crystals", "", {"score.crystal", NULL}, 1, 3, false},
};
const size_t report_quantity_count = sizeof report_quantities / sizeof report_quantities[0];
enum { BIN = 600 }; /* s */

double report_quantity(const struct view *view, const struct quantity *quantity, size_t row) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < 2 && quantity->columns[i] != NULL; i++, count++) {
        int column = view_column_find(view, quantity->columns[i]);
        sum += column >= 0 ? view_value(view, row, (size_t)column) : (double)NAN;
    }
    return quantity->factor * sum / count;
}

static json_t *time_json(double time) {
    char text[TIME_SIZE];
    report_time(time, text);
    return text[0] != '\0' ? json_string(text) : json_null();
}

/* Returns the time of the last result: an item finished, a map or classes made. */
static double last_of(struct view *view) {
    double last = view_last_time(view);
    for (size_t i = 0; i < view_stage_count(view); i++) {
        const json_t *history = view_history(view, view_stage_name(view, i));
        const json_t *line = json_array_get(history, json_array_size(history) - 1);
        double time = json_number_value(json_object_get(line, "time"));
        if (time > 0 && !(time <= last)) last = time;
    }
    return last;
}

static void add_session(struct report *report, double made) {
    struct view *view = report->view;
    const char *path = view_session(view)->path;
    double first = view_started(view), last = last_of(view);
    const json_t *offset = json_object_get(view_plan(view), "utc_offset");
    char zone[32] = "";
    if (json_is_integer(offset)) {
        int minutes = (int)(json_integer_value(offset) / 60);
        snprintf(zone, sizeof zone, "UTC%c%02d:%02d", minutes < 0 ? '-' : '+', abs(minutes) / 60 % 100,
                 abs(minutes) % 60);
    }
    json_t *session =
        json_pack("{s:o, s:o, s:s, s:i, s:o, s:o, s:o, s:s}", "name",
                  json_value_text(report->anonymous ? "session" : path_name(path)), "path",
                  report->anonymous ? json_null() : json_value_text(path), "state", view_state_name(view_state(view)),
                  "run", view_run(view), "first", time_json(first), "last", time_json(last), "hours",
                  report_number((last - first) / 3600, 2), "offset", zone);
    json_object_set_new(report->data, "made", time_json(made));
    json_object_set_new(report->data, "session", session);
}

static void add_counts(struct report *report) {
    const struct tally *tally = view_tally(report->view);
    json_t *stages = json_array();
    const char *miscount = "";
    for (size_t i = 0; i < tally->count; i++) {
        const struct tally_stage *s = &tally->stages[i];
        json_array_append_new(stages, json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I}", "stage", s->name, "left_out",
                                                s->left_out, "seen", (json_int_t)s->seen, "done", (json_int_t)s->done,
                                                "rejected", (json_int_t)s->rejected, "failed", (json_int_t)s->failed,
                                                "in_flight", (json_int_t)s->in_flight));
    }
    bool adds_up = view_adds_up(report->view, &miscount);
    json_object_set_new(report->data, "stages", stages);
    json_object_set_new(report->data, "adds_up", json_boolean(adds_up));
    json_object_set_new(report->data, "miscount", json_value_text(miscount));
    json_int_t states[4] = {0};
    size_t rows = view_row_count(report->view);
    for (size_t i = 0; i < rows; i++)
        states[view_row(report->view, i)->state]++;
    json_object_set_new(report->data, "exposures",
                        json_pack("{s:I, s:I, s:I, s:I, s:I}", "seen", (json_int_t)rows, "done", states[LEDGER_DONE],
                                  "rejected", states[LEDGER_REJECTED], "failed", states[LEDGER_FAILED], "in_flight",
                                  states[LEDGER_IN_FLIGHT]));
}

static void add_quality(struct report *report) {
    json_t *quality = json_array();
    for (size_t i = 0; i < report_quantity_count; i++) {
        const struct quantity *q = &report_quantities[i];
        size_t count;
        double *sorted = report_sorted(report->view, q, &count);
        report->failed |= sorted == NULL;
        if (count > 0)
            json_array_append_new(quality,
                                  json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "key", q->key, "label",
                                            q->label, "unit", q->unit, "count", (json_int_t)count, "least",
                                            report_number(sorted[0], q->decimals), "p10",
                                            report_number(numbers_quantile(sorted, count, 0.1), q->decimals), "median",
                                            report_number(numbers_quantile(sorted, count, 0.5), q->decimals), "p90",
                                            report_number(numbers_quantile(sorted, count, 0.9), q->decimals), "most",
                                            report_number(sorted[count - 1], q->decimals)));
        free(sorted);
    }
    json_object_set_new(report->data, "quality", quality);
}

/* ---- grid squares ---- */

/* The rows of one square: indices of rows. */
struct members {
    const size_t *rows;
    size_t count;
};

/* room: as many numbers as there are rows. */
static double members_median(const struct view *view, const struct members *members, const struct quantity *q,
                             double *room) {
    size_t count = 0;
    for (size_t i = 0; i < members->count; i++) {
        double value = report_quantity(view, q, members->rows[i]);
        if (isfinite(value)) room[count++] = value;
    }
    numbers_sort(room, count);
    return numbers_quantile(room, count, 0.5);
}

static json_t *square_json(const struct report *report, size_t square, const struct members *members, double *room) {
    const struct view *view = report->view;
    json_int_t states[4] = {0}, selected = 0;
    for (size_t i = 0; i < members->count; i++)
        states[view_row(view, members->rows[i])->state]++;
    json_t *json = json_pack("{s:o, s:I, s:I, s:I, s:I}", "name", json_value_text(view_square(view, square)),
                             "exposures", (json_int_t)members->count, "done", states[LEDGER_DONE], "rejected",
                             states[LEDGER_REJECTED], "failed", states[LEDGER_FAILED]);
    for (size_t i = 0; report->selected != NULL && i < members->count; i++)
        selected += report->selected[members->rows[i]];
    if (report->selected != NULL) json_object_set_new(json, "selected", json_integer(selected));
    for (size_t k = 0; k < report_quantity_count; k++) {
        const struct quantity *q = &report_quantities[k];
        double median = members_median(view, members, q, room);
        if (isfinite(median)) json_object_set_new(json, q->key, report_number(median, q->decimals));
    }
    return json;
}

static void add_squares(struct report *report) {
    const struct view *view = report->view;
    size_t rows = view_row_count(view), squares = view_square_count(view);
    json_t *list = json_array();
    double *room = malloc((rows + 1) * sizeof *room);
    size_t *order = malloc((rows + 1) * sizeof *order), *ends = calloc(squares + 1, sizeof *ends);
    bool well = room != NULL && order != NULL && ends != NULL;
    report->failed |= !well;
    for (size_t i = 0; well && i < rows; i++)
        if (view_row(view, i)->square >= 0) ends[view_row(view, i)->square + 1]++;
    for (size_t s = 0; well && s < squares; s++)
        ends[s + 1] += ends[s];
    for (size_t i = 0; well && i < rows; i++)
        if (view_row(view, i)->square >= 0) order[ends[view_row(view, i)->square]++] = i;
    for (size_t s = 0, begin = 0; well && s < squares; begin = ends[s++]) {
        const struct members members = {order + begin, ends[s] - begin};
        json_array_append_new(list, square_json(report, s, &members, room));
    }
    free(room);
    free(order);
    free(ends);
    json_object_set_new(report->data, "squares", list);
}

/* ---- throughput ---- */

static json_t *latency_json(struct report *report, size_t stage) {
    const struct view *view = report->view;
    size_t rows = view_row_count(view), count = 0;
    double *seconds = malloc((rows + 1) * sizeof *seconds);
    report->failed |= seconds == NULL;
    for (size_t i = 0; seconds != NULL && i < rows; i++) {
        struct view_visit visit = view_visit(view, i, stage);
        if (!visit.known || visit.state == LEDGER_IN_FLIGHT) continue;
        seconds[count++] = visit.time_changed - view_row(view, i)->time_found;
    }
    if (seconds != NULL) numbers_sort(seconds, count);
    json_t *latency =
        json_pack("{s:s, s:I, s:o, s:o}", "stage", view_stage_name(view, stage), "count", (json_int_t)count, "median",
                  report_number(seconds != NULL ? numbers_quantile(seconds, count, 0.5) : (double)NAN, 1), "p95",
                  report_number(seconds != NULL ? numbers_quantile(seconds, count, 0.95) : (double)NAN, 1));
    free(seconds);
    return latency;
}

static void add_throughput(struct report *report) {
    const struct view *view = report->view;
    json_t *latencies = json_array(), *found = json_array();
    for (size_t i = 0; i < view_stage_count(view); i++) {
        json_t *latency = latency_json(report, i);
        if (json_integer_value(json_object_get(latency, "count")) > 0) json_array_append(latencies, latency);
        json_decref(latency);
    }
    double first = view_started(view), last = first;
    for (size_t i = 0; i < view_row_count(view); i++)
        if (view_row(view, i)->time_found > last) last = view_row(view, i)->time_found;
    size_t bins = isfinite(first) && last - first < 2000.0 * BIN ? (size_t)((last - first) / BIN) + 1 : 0;
    int *counts = calloc(bins + 1, sizeof *counts);
    report->failed |= counts == NULL;
    for (size_t i = 0; counts != NULL && bins > 0 && i < view_row_count(view); i++)
        if (isfinite(view_row(view, i)->time_found)) counts[(size_t)((view_row(view, i)->time_found - first) / BIN)]++;
    for (size_t i = 0; counts != NULL && i < bins; i++)
        json_array_append_new(found, json_integer(counts[i]));
    free(counts);
    double hours = (last - first) / 3600, rows = (double)view_row_count(view);
    json_object_set_new(report->data, "throughput",
                        json_pack("{s:o, s:i, s:o, s:o}", "per_hour",
                                  report_number(hours > 0 ? (rows - 1) / hours : (double)NAN, 1), "bin", BIN, "found",
                                  found, "latency", latencies));
}

void report_collect(struct report *report, double made) {
    json_object_set_new(report->data, "v", json_integer(1));
    add_session(report, made);
    add_counts(report);
    add_quality(report);
    report_add_losses(report);
    add_squares(report);
    add_throughput(report);
    report_add_particles(report);
    report_add_settings(report);
    report_add_incidents(report);
    report_add_marks(report);
    report_add_machines(report);
    report_add_methods(report);
    report_add_facts(report);
    if (!report->anonymous) return;
    report_find_secrets(report);
    report_scrub(report);
}
