#include "pipelines/launcher/status.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/status_left_out.h"
#include "pipelines/launcher/status_marks.h"
#include "pipelines/launcher/view/view.h"
#include "pipelines/launcher/warnings.h"

static json_t *stage_json(struct view *view, const json_t *planned, const struct tally_stage *tally) {
    json_t *stage = json_pack("{s:I, s:I, s:I, s:I, s:I}", "seen", (json_int_t)tally->seen, "done",
                              (json_int_t)tally->done, "rejected", (json_int_t)tally->rejected, "failed",
                              (json_int_t)tally->failed, "in_flight", (json_int_t)tally->in_flight);
    json_t *instances = json_array(), *name;
    size_t i;
    const char *note = "";
    json_array_foreach(json_object_get(planned, "instances"), i, name) {
        json_t *beat = json_copy((json_t *)view_heartbeat(view, json_string_value(name)));
        if (beat == NULL) beat = json_object();
        json_object_set(beat, "name", name);
        double silent = view_silence(view, json_string_value(name), clock_realtime());
        if (silent > 0) json_object_set_new(beat, "silent", json_real(silent));
        const char *text = json_string_value(json_object_get(beat, "note"));
        if (text != NULL && text[0] != '\0') note = text;
        json_array_append_new(instances, beat);
    }
    json_object_set_new(stage, "note", json_string(note));
    json_object_set_new(stage, "inputs", tally_inputs_json(tally));
    if (tally->left_out) json_object_set_new(stage, "left_out", json_true());
    json_object_set_new(stage, "products", json_sprintf("%s/%s", view_session(view)->path, tally->name));
    json_object_set_new(stage, "history", json_incref((json_t *)view_history(view, tally->name)));
    json_object_set_new(stage, "instances", instances);
    return stage;
}

static void add_items(json_t *items, const struct tally_stage *stage, const struct tally_choice *choice,
                      const struct choices *marks) {
    for (size_t i = 0; i < stage->item_count; i++) {
        const struct tally_item *item = &stage->items[i];
        if (!tally_is_chosen(choice, tally_key(item))) continue;
        json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:f}", "id", item->id, "source", item->source, "name",
                                 item->name, "stage", stage->name, "state", ledger_state_name(item->state), "reason",
                                 item->reason ? item->reason : "", "time", item->time);
        const char *mark = marks != NULL ? choice_name(choices_of_item(marks, tally_key(item))) : NULL;
        if (mark != NULL) json_object_set_new(json, "mark", json_string(mark));
        json_array_append_new(items, json);
    }
}

struct report {
    char *text;
    char miscount[256]; /* what does not add up; "": everything does */
    json_t *warnings;   /* as warnings_read returns them */
};

static json_t *status_json(struct view *view, const struct tally *tally, const struct tally_choice *choice,
                           const struct report *report) {
    const struct session *session = view_session(view);
    const json_t *plan = view_plan(view);
    json_t *stages = json_object(), *items = json_array();
    struct choices *marks = status_marks(session);
    for (size_t i = 0; i < tally->count; i++) {
        const json_t *planned = json_array_get(json_object_get(plan, "stages"), i);
        json_object_set_new(stages, tally->stages[i].name, stage_json(view, planned, &tally->stages[i]));
        add_items(items, &tally->stages[i], choice, marks);
    }
    const char *miscount = report->miscount;
    json_t *root = json_pack("{s:s, s:O, s:b, s:b, s:s, s:o, s:o, s:o, s:O}", "session", session->path, "run",
                             json_object_get(plan, "run"), "running", session_is_running(session), "adds_up",
                             miscount[0] == '\0', "miscount", miscount, "stages", stages, "items", items, "left_out",
                             status_left_out(session, plan), "warnings", report->warnings);
    if (root != NULL) json_object_set_new(root, "changes", status_changes_json(session, plan));
    if (root != NULL) json_object_set_new(root, "hosts", status_hosts_json(session));
    if (root != NULL && marks != NULL) json_object_set_new(root, "marks", choices_marks(marks));
    choices_destroy(&marks);
    return root;
}

void status_table(const struct session *session, const struct tally *tally, FILE *out) {
    fprintf(out, "%-20s %8s %8s %8s %8s %9s\n", "stage", "seen", "done", "rejected", "failed", "in flight");
    for (size_t i = 0; i < tally->count; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        if (stage->left_out)
            fprintf(out, "%-20s left out\n", stage->name);
        else
            fprintf(out, "%-20s %8lld %8lld %8lld %8lld %9lld\n", stage->name, (long long)stage->seen,
                    (long long)stage->done, (long long)stage->rejected, (long long)stage->failed,
                    (long long)stage->in_flight);
    }
    /* A path of any length would make the rows wider than the terminal. */
    fprintf(out, "products: %s/STAGE\n", session->path);
}

void status_inputs(const struct tally *tally, FILE *out) {
    bool begun = false;
    for (size_t i = 0; i < tally->count; i++)
        for (size_t k = 0; k < tally->stages[i].input_count; k++) {
            const struct tally_input *input = &tally->stages[i].inputs[k];
            char edge[160];
            if (input->sent == input->seen && input->waiting == 0) continue;
            if (!begun) fprintf(out, "\n%-38s %8s %8s %8s %8s\n", "input", "sent", "seen", "waiting", "lost");
            begun = true;
            snprintf(edge, sizeof edge, "%s>%s", input->from, tally->stages[i].name);
            fprintf(out, "%-38s %8lld %8lld %8lld %8lld\n", edge, (long long)input->sent, (long long)input->seen,
                    (long long)input->waiting, (long long)input->lost);
        }
    if (begun) fputc('\n', out);
}

void status_miscount(const struct session *session, const char *reason, FILE *out) {
    fprintf(out,
            "icestream: the counts do not add up: %s; a ledger was lost, changed, or is older than the others: "
            "%s`icestream repair --session %s` mends it (if nobody touched %s/ledger, please report this)\n",
            reason, session->lock < 0 && session_is_running(session) ? "end the run, then " : "", session->path,
            session->path);
}

void status_reasons(const struct tally *tally, size_t limit, FILE *out) {
    for (size_t i = 0; i < tally->count; i++) {
        size_t told = 0, untold = 0;
        for (size_t k = 0; k < tally->stages[i].item_count; k++) {
            const struct tally_item *item = &tally->stages[i].items[k];
            if (item->state != LEDGER_REJECTED && item->state != LEDGER_FAILED) continue;
            if (told++ < limit)
                fprintf(out, "%s: %s %s: %s\n", tally->stages[i].name, item->name, ledger_state_name(item->state),
                        item->reason ? item->reason : "no reason given");
            else
                untold++;
        }
        if (untold > 0) fprintf(out, "%s: and %zu more (status --json lists all)\n", tally->stages[i].name, untold);
    }
}

static void print_notes(struct view *view, FILE *out) {
    size_t i, k;
    json_t *stage, *instance;
    json_array_foreach(json_object_get(view_plan(view), "stages"), i, stage) {
        json_array_foreach(json_object_get(stage, "instances"), k, instance) {
            const json_t *beat = view_heartbeat(view, json_string_value(instance));
            const char *note = json_string_value(json_object_get(beat, "note"));
            if (note != NULL && note[0] != '\0') fprintf(out, "%s: %s\n", json_string_value(instance), note);
            double silent = view_silence(view, json_string_value(instance), clock_realtime());
            if (silent > 0)
                fprintf(out, "%s: has not answered for %.0f s (process %lld)\n", json_string_value(instance), silent,
                        (long long)json_integer_value(json_object_get(beat, "pid")));
        }
    }
}

/* Prints what happened to the items that are named, stage by stage. */
static void print_chosen(const struct tally *tally, const struct tally_choice *choice, FILE *out) {
    for (size_t i = 0; i < tally->count; i++)
        for (size_t k = 0; k < tally->stages[i].item_count; k++) {
            const struct tally_item *item = &tally->stages[i].items[k];
            if (!tally_is_chosen(choice, tally_key(item))) continue;
            fprintf(out, "%s: %s %s%s%s\n", tally->stages[i].name, item->name, ledger_state_name(item->state),
                    item->reason ? ": " : "", item->reason ? item->reason : "");
        }
}

static void write_text(struct view *view, const struct tally *tally, const struct tally_choice *choice,
                       const struct report *report, FILE *out) {
    const struct session *session = view_session(view);
    const json_t *plan = view_plan(view);
    if (choice->count > 0) {
        struct choices *marks = status_marks(session);
        print_chosen(tally, choice, out);
        status_marks_text(marks, choice, out);
        choices_destroy(&marks);
    } else {
        fprintf(out, "%s: %s\n", session->path, session_is_running(session) ? "running" : "not running");
        status_table(session, tally, out);
        status_inputs(tally, out);
        status_hosts(session, out);
        print_notes(view, out);
        status_left_out_text(session, plan, out);
        warnings_list(report->warnings, out);
        status_changes(session, plan, out);
        status_reasons(tally, 20, out);
    }
    if (report->miscount[0] != '\0') fprintf(out, "the counts do not add up: %s\n", report->miscount);
}

static enum status write_report(struct view *view, const struct tally *tally, const struct options *options,
                                struct report *report, struct err *err) {
    struct tally_choice choice = {0};
    size_t length = 0;
    TRY(tally_choose(tally, options->words, options->word_count, &choice, err));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < choice.count; i++)
        if (choice.items[i] == NULL)
            status = err_set(err, STATUS_NOT_FOUND, __FILE__, __LINE__, "%s: no stage of %s has seen such an item",
                             options->words[i], view_session(view)->path);
    tally_reconciles(tally, report->miscount, sizeof report->miscount);
    if (status == STATUS_OK && options->json) {
        json_t *root = status_json(view, tally, &choice, report);
        report->text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
        json_decref(root);
    } else if (status == STATUS_OK) {
        FILE *out = open_memstream(&report->text, &length);
        if (out != NULL) {
            write_text(view, tally, &choice, report, out);
            fclose(out);
        }
    }
    tally_choice_clear(&choice);
    FAIL_IF(status == STATUS_OK && report->text == NULL, err, STATUS_NO_MEMORY, "no memory for the status");
    return status;
}

/* Takes the whole status; the caller frees its text. */
static enum status take_report(struct view *view, const struct options *options, struct report *ret_report,
                               struct err *err) {
    struct tally tally = {0};
    struct report report = {0};
    enum tally_depth depth = options->json || options->word_count > 0 ? TALLY_ITEMS : TALLY_COUNTS;
    TRY(view_look_around(view, err));
    TRY(view_tally_now(view, depth, &tally, err));
    enum status status = view_warnings(view, &report.warnings, err);
    if (status == STATUS_OK) status = write_report(view, &tally, options, &report, err);
    json_decref(report.warnings);
    report.warnings = NULL;
    tally_clear(&tally);
    if (status == STATUS_OK) *ret_report = report;
    return status;
}

/* Prints whenever something has changed. Looks for the end before it takes the status, so that the last status is
 * printed too. */
static enum status follow(struct view *view, const struct options *options, struct report *last, struct err *err) {
    enum status status = STATUS_OK;
    for (bool running = true; running && status == STATUS_OK;) {
        struct report report = {0};
        running = session_is_running(view_session(view));
        status = take_report(view, options, &report, err);
        if (status == STATUS_OK && (last->text == NULL || strcmp(last->text, report.text) != 0)) {
            puts(report.text);
            fflush(stdout);
        }
        free(last->text);
        *last = report;
        if (running) poll(NULL, 0, 1000);
    }
    return status;
}

int command_status(const struct options *options) {
    struct view *view = NULL;
    struct err err = {0};
    struct report report = {0};
    enum status status = view_open(options->session, &view, &err);
    if (status == STATUS_OK && options->follow) {
        status = follow(view, options, &report, &err);
    } else if (status == STATUS_OK) {
        status = take_report(view, options, &report, &err);
        if (status == STATUS_OK) printf(options->json ? "%s\n" : "%s", report.text);
    }
    free(report.text);
    bool miscounted = status == STATUS_OK && report.miscount[0] != '\0';
    if (miscounted) status_miscount(view_session(view), report.miscount, stderr);
    view_close(&view);
    if (miscounted) return EXIT_COUNTS;
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
