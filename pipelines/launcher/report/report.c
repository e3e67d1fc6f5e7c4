#include "pipelines/launcher/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/mark.h"
#include "pipelines/launcher/report/report_private.h"

/* ---- the files beside the page ---- */

static enum status beside(const struct report_options *options, const char *name, char path[PATH_SIZE],
                          struct err *err) {
    char folder[PATH_SIZE];
    TRY(path_folder(options->path, folder, sizeof folder, err));
    return path_join(folder, name, path, PATH_SIZE, err);
}

static void put_cell(FILE *out, const char *text) {
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_row(const struct report *report, size_t index, FILE *out) {
    const struct view *view = report->view;
    const struct view_row *row = view_row(view, index);
    char found[TIME_SIZE], changed[TIME_SIZE];
    report_time(row->time_found, found);
    report_time(row->time_changed, changed);
    const char *texts[] = {row->name,
                           row->source,
                           ledger_state_name((enum ledger_state)row->state),
                           row->stage >= 0 ? view_stage_name(view, (size_t)row->stage) : "",
                           row->reason,
                           found,
                           changed,
                           row->square >= 0 ? view_square(view, (size_t)row->square) : "",
                           row->hole};
    fprintf(out, "%lld,%d", (long long)row->number, row->attempts);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fputc(',', out);
        char *clean = report->secrets != NULL ? report_clean(report, texts[i]) : NULL;
        put_cell(out, report->secrets == NULL ? texts[i] : clean != NULL ? clean : "?");
        free(clean);
    }
    fputc(',', out);
    if (report->selected != NULL) fprintf(out, "%lld", (long long)report->selected[index]);
    for (size_t i = 0; i < view_column_count(view); i++) {
        double value = view_value(view, index, i);
        fputc(',', out);
        if (isfinite(value)) fprintf(out, "%.10g", value);
    }
    fputc('\n', out);
}

static enum status write_exposures(const struct report *report, const struct report_options *options, struct err *err) {
    char path[PATH_SIZE];
    struct file_output *output = NULL;
    TRY(beside(options, "exposures.csv", path, err));
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    fputs("number,attempts,name,source,state,stage,reason,found_utc,changed_utc,square,hole,particles_selected", out);
    for (size_t i = 0; i < view_column_count(report->view); i++) {
        fputc(',', out);
        put_cell(out, view_column_name(report->view, i));
    }
    fputc('\n', out);
    for (size_t i = 0; i < view_row_count(report->view); i++)
        put_row(report, i, out);
    return file_commit(&output, err);
}

static enum status write_json(const struct report *report, const struct report_options *options, struct err *err) {
    char path[PATH_SIZE];
    TRY(beside(options, "report.json", path, err));
    char *text = json_dumps(report->data, JSON_INDENT(1) | JSON_REAL_PRECISION(13));
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "%s: no memory for the report", path);
    enum status status = file_write_whole(path, text, strlen(text), err);
    free(text);
    return status;
}

/* The curve as the EMDB takes it. */
static enum status write_fsc(const struct report *report, const struct report_options *options, struct err *err) {
    const json_t *fsc = json_object_get(report->data, "fsc"), *k = json_object_get(fsc, "k");
    const json_t *curve = json_object_get(fsc, "corrected");
    const char *title = curve != NULL ? "FSC with a mask, corrected for its effect" : "FSC of unmasked half maps";
    char path[PATH_SIZE];
    struct file_output *output = NULL;
    if (fsc == NULL) return STATUS_OK;
    if (curve == NULL) curve = json_object_get(fsc, "unmasked");
    TRY(beside(options, "fsc.xml", path, err));
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
    fprintf(out, "<fsc title=\"%s\" xaxis=\"Resolution (A-1)\" yaxis=\"Correlation Coefficient\">\n", title);
    for (size_t i = 0; i < json_array_size(k); i++) {
        if (!json_is_number(json_array_get(k, i)) || !json_is_number(json_array_get(curve, i))) continue;
        fprintf(out, " <coordinate>\n  <x>%.6f</x>\n  <y>%.6f</y>\n </coordinate>\n",
                json_number_value(json_array_get(k, i)), json_number_value(json_array_get(curve, i)));
    }
    fputs("</fsc>\n", out);
    return file_commit(&output, err);
}

/* A copy without what was rejected by hand since, whose paths count from the session. It may name folders, so an anonymous
 * report counts its particles and keeps none. */
static enum status write_selected(struct report *report, const struct report_options *options, struct err *err) {
    const char *stage = report_history_stage(report->view, "classes");
    char from[PATH_SIZE], to[PATH_SIZE];
    if (stage == NULL) return STATUS_OK;
    TRY(session_file(view_session(report->view), stage, "latest_selected.star", "", from, err));
    if (!file_exists(from)) return STATUS_OK;
    TRY(beside(options, report->anonymous ? ".selected.star" : "selected.star", to, err));
    TRY(mark_write_selection(view_session(report->view), stage, from, to, &report->left_out, err));
    report_count_selected(report, to);
    return report->anonymous ? file_remove(to, err) : STATUS_OK;
}

/* ---- the page ---- */

static enum status write_page(struct report *report, const struct report_options *options, struct err *err) {
    struct file_output *output = NULL;
    TRY(file_create(options->path, &output, err));
    report->out = file_output_stream(output);
    report_page(report);
    if (report->failed) {
        file_discard(&output);
        FAIL(err, STATUS_NO_MEMORY, "%s: no memory for the report", options->path);
    }
    return file_commit(&output, err);
}

enum status report_write(struct view *view, const struct report_options *options, struct err *err) {
    struct report report = {.view = view, .anonymous = options->anonymous, .data = json_object()};
    FAIL_IF(report.data == NULL, err, STATUS_NO_MEMORY, "%s: no memory for the report", options->path);
    enum status status = file_make_parents(options->path, 0777, err);
    if (status == STATUS_OK) status = write_selected(&report, options, err);
    if (status == STATUS_OK) report_collect(&report, clock_realtime());
    if (status == STATUS_OK) status = write_page(&report, options, err);
    if (status == STATUS_OK) status = write_json(&report, options, err);
    if (status == STATUS_OK) status = write_exposures(&report, options, err);
    if (status == STATUS_OK) status = write_fsc(&report, options, err);
    json_decref(report.data);
    json_decref(report.secrets);
    free(report.selected);
    return status;
}
