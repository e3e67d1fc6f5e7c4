/* Lists decisions made by hand: exposures that were marked, and classes that were chosen. */
#include <string.h>

#include "pipelines/launcher/report/report_private.h"
#include "pipelines/launcher/status_marks.h"

static json_t *time_text(const json_t *time) {
    char text[TIME_SIZE];
    report_time(json_number_value(time), text);
    return json_string(text);
}

static void add_exposures(struct report *report, json_t *list) {
    struct choices *choices = status_marks(view_session(report->view));
    json_t *marks = choices != NULL ? choices_marks(choices) : NULL, *mark;
    size_t i;
    json_array_foreach(marks, i, mark) {
        const char *source = json_string_value(json_object_get(mark, "source"));
        const char *id = json_string_value(json_object_get(mark, "id"));
        const char *what = json_string_value(json_object_get(mark, "mark"));
        if (id == NULL || what == NULL) continue;
        int64_t row = view_find_item(report->view, source != NULL ? source : "", id);
        json_t *entry = json_pack("{s:s, s:o, s:s, s:o}", "what", "exposure", "name",
                                  json_value_text(row >= 0 ? view_row(report->view, (size_t)row)->name : id), "mark",
                                  strcmp(what, "keep") == 0 ? "kept" : "rejected", "time",
                                  time_text(json_object_get(mark, "time")));
        const char *why = json_string_value(json_object_get(mark, "why"));
        const char *user = json_string_value(json_object_get(mark, "user"));
        /* A text that a person wrote may name persons. */
        json_object_set_new(entry, "why", report->anonymous ? json_null() : json_value_text(why));
        json_object_set_new(entry, "by", report->anonymous ? json_null() : json_value_text(user));
        json_array_append_new(list, entry);
    }
    json_decref(marks);
    choices_destroy(&choices);
}

static void add_classes(struct report *report, json_t *list) {
    json_t *changes = NULL, *change, *choice;
    size_t i, k;
    if (view_changes(report->view, &changes, NULL) != STATUS_OK) return;
    json_array_foreach(changes, i, change) {
        json_array_foreach(json_object_get(change, "choices"), k, choice) {
            const char *what = json_string_value(json_object_get(choice, "choice"));
            const char *stage = json_string_value(json_object_get(choice, "stage"));
            char *classes = json_dumps(json_object_get(choice, "classes"), JSON_ENCODE_ANY);
            json_t *entry = json_pack("{s:s, s:o, s:s, s:o}", "what", "classes", "name",
                                      json_sprintf("%s, snapshot %lld, classes %s", stage != NULL ? stage : "?",
                                                   (long long)json_integer_value(json_object_get(choice, "iteration")),
                                                   classes != NULL ? classes : "?"),
                                      "mark",
                                      what == NULL                ? "taken back"
                                      : strcmp(what, "keep") == 0 ? "kept"
                                                                  : "rejected",
                                      "time", time_text(json_object_get(change, "time")));
            const char *user = json_string_value(json_object_get(change, "user"));
            const char *why = json_string_value(json_object_get(choice, "why"));
            json_object_set_new(entry, "why", report->anonymous ? json_null() : json_value_text(why));
            json_object_set_new(entry, "by", report->anonymous ? json_null() : json_value_text(user));
            json_array_append_new(list, entry);
            free(classes);
        }
    }
    json_decref(changes);
}

void report_add_marks(struct report *report) {
    json_t *list = json_array();
    add_exposures(report, list);
    add_classes(report, list);
    json_object_set_new(report->data, "by_hand", list);
}
