/* Changes of a session, in words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/harness/choices.h"
#include "pipelines/launcher/changes.h"

enum { LINE_SIZE = 768, SHOWN = 3 };

static void value_text(const json_t *value, char *text, size_t size) {
    char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (json_is_string(value))
        snprintf(text, size, "%s", json_string_value(value));
    else
        snprintf(text, size, "%s", value == NULL || json_is_null(value) ? "not set" : dump != NULL ? dump : "");
    free(dump);
}

void change_text(const json_t *entry, char *text, size_t size) {
    char old[256], new[256];
    const char *stage = json_string_value(json_object_get(entry, "stage"));
    const char *key = json_string_value(json_object_get(entry, "key"));
    const char *kind = json_string_value(json_object_get(entry, "changes"));
    value_text(json_object_get(entry, "old"), old, sizeof old);
    value_text(json_object_get(entry, "new"), new, sizeof new);
    snprintf(text, size, "%s.%s: %s → %s (%s)", stage != NULL ? stage : "", key != NULL ? key : "", old, new,
             kind != NULL ? kind : "");
}

static const char *done_by_hand(const json_t *choice) {
    switch (choice_named(json_string_value(choice))) {
    case CHOICE_KEEP:
        return "kept by hand";
    case CHOICE_REJECT:
        return "rejected by hand";
    case CHOICE_NONE:
        break;
    }
    return "no longer marked";
}

/* Adds text at the end of a line; what does not fit is cut. */
static void add(char line[LINE_SIZE], const char *before, const char *text) {
    size_t length = strlen(line);
    snprintf(line + length, LINE_SIZE - length, "%s%.200s", before, text);
}

static void add_reason(char line[LINE_SIZE], const json_t *from) {
    const char *why = json_string_value(json_object_get(from, "why"));
    if (why == NULL || *why == '\0') return;
    add(line, " (", why);
    add(line, "", ")");
}

/* Writes one line for all exposures that are marked as the entry at `first`. */
static void marks_line(const json_t *marks, size_t first, change_line *line, void *context) {
    const json_t *one = json_array_get(marks, first), *mark = json_object_get(one, "mark");
    char text[LINE_SIZE] = "";
    size_t count = 0, i;
    json_t *entry;
    add(text, "", done_by_hand(mark));
    json_array_foreach(marks, i, entry) {
        const char *id = json_string_value(json_object_get(entry, "id"));
        if (!json_equal(json_object_get(entry, "mark"), mark)) continue;
        if (count++ < SHOWN) add(text, count == 1 ? ": " : ", ", id != NULL ? id : "");
    }
    if (count > SHOWN) {
        char more[48];
        snprintf(more, sizeof more, " and %zu more", count - SHOWN);
        add(text, "", more);
    }
    add_reason(text, one);
    line(context, text);
}

static bool is_first_of_kind(const json_t *marks, size_t at) {
    const json_t *mark = json_object_get(json_array_get(marks, at), "mark");
    for (size_t i = 0; i < at; i++)
        if (json_equal(json_object_get(json_array_get(marks, i), "mark"), mark)) return false;
    return true;
}

static void choice_line(const json_t *change, const json_t *entry, change_line *line, void *context) {
    const json_t *classes = json_object_get(entry, "classes");
    char text[LINE_SIZE] = "", part[96];
    const char *stage = json_string_value(json_object_get(entry, "stage"));
    size_t i;
    json_t *number;
    add(text, "", done_by_hand(json_object_get(entry, "choice")));
    add(text, "", json_array_size(classes) == 1 ? ": class" : ": classes");
    json_array_foreach(classes, i, number) {
        snprintf(part, sizeof part, "%lld", (long long)json_integer_value(number));
        add(text, i == 0 ? " " : ", ", part);
    }
    snprintf(part, sizeof part, " of iteration %lld of ",
             (long long)json_integer_value(json_object_get(entry, "iteration")));
    add(text, part, stage != NULL ? stage : "");
    if (!json_is_null(json_object_get(entry, "choice"))) {
        long long particles = json_integer_value(json_object_get(entry, "particles"));
        snprintf(part, sizeof part, ", %lld particle%s", particles, particles == 1 ? "" : "s");
        add(text, "", part);
    }
    add_reason(text, change);
    line(context, text);
}

void change_marks_text(const json_t *change, change_line *line, void *context) {
    const json_t *marks = json_object_get(change, "marks");
    size_t i;
    json_t *entry;
    for (i = 0; i < json_array_size(marks); i++)
        if (is_first_of_kind(marks, i)) marks_line(marks, i, line, context);
    json_array_foreach(json_object_get(change, "choices"), i, entry) {
        choice_line(change, entry, line, context);
    }
    const char *note = json_string_value(json_object_get(change, "note"));
    const char *by = json_string_value(json_object_get(change, "by"));
    if (note != NULL && by != NULL) {
        char text[LINE_SIZE] = "";
        add(text, by, ": ");
        add(text, "", note);
        line(context, text);
    }
}
