/* Lists losses with their reasons: exposures that were rejected or failed, by stage and reason. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/report/report_private.h"

enum { REASON_SIZE = 1024 };

/* Writes a reason without its numbers and names, so that "6.2 Å > 5" and "7.1 Å > 5" are one: each number is "…". */
static void pattern_of(const char *reason, char out[REASON_SIZE]) {
    size_t used = 0;
    for (const char *p = reason; *p != '\0' && used + 8 < REASON_SIZE;) {
        bool begins = isdigit((unsigned char)*p) && (p == reason || !isalnum((unsigned char)p[-1]));
        if (!begins) {
            out[used++] = *p++;
            continue;
        }
        memcpy(out + used, "…", strlen("…"));
        used += strlen("…");
        p += strspn(p, "0123456789.eE");
    }
    out[used] = '\0';
}

static json_t *find_loss(const json_t *losses, const char *stage, const char *state, const char *pattern) {
    size_t i;
    json_t *loss;
    json_array_foreach(losses, i, loss) {
        if (strcmp(json_string_value(json_object_get(loss, "stage")), stage) == 0 &&
            strcmp(json_string_value(json_object_get(loss, "state")), state) == 0 &&
            strcmp(json_string_value(json_object_get(loss, "pattern")), pattern) == 0)
            return loss;
    }
    return NULL;
}

static void add_loss(json_t *losses, const char *stage, const struct view_row *row) {
    char pattern[REASON_SIZE];
    const char *state = ledger_state_name((enum ledger_state)row->state);
    pattern_of(row->reason, pattern);
    json_t *text = json_value_text(pattern), *loss = find_loss(losses, stage, state, json_string_value(text));
    if (loss == NULL) {
        json_array_append_new(losses, json_pack("{s:s, s:s, s:O, s:o, s:i, s:o}", "stage", stage, "state", state,
                                                "pattern", text, "reason", json_value_text(row->reason), "count", 1,
                                                "example", json_value_text(row->name)));
    } else {
        json_object_set_new(loss, "count", json_integer(json_integer_value(json_object_get(loss, "count")) + 1));
        /* Several reasons of one kind: their common part stands for them. */
        if (strcmp(json_string_value(json_object_get(loss, "reason")), row->reason) != 0)
            json_object_set(loss, "reason", text);
    }
    json_decref(text);
}

static int by_count(const void *a, const void *b) {
    json_int_t one = json_integer_value(json_object_get(*(json_t *const *)a, "count"));
    json_int_t other = json_integer_value(json_object_get(*(json_t *const *)b, "count"));
    return (one < other) - (one > other);
}

void report_add_losses(struct report *report) {
    const struct view *view = report->view;
    json_t *losses = json_array();
    for (size_t i = 0; i < view_row_count(view); i++) {
        const struct view_row *row = view_row(view, i);
        if (row->state == LEDGER_REJECTED || row->state == LEDGER_FAILED)
            add_loss(losses, row->stage >= 0 ? view_stage_name(view, (size_t)row->stage) : "", row);
    }
    size_t count = json_array_size(losses);
    _cleanup_(mem_free) json_t **order = calloc(count + 1, sizeof(json_t *));
    json_t *sorted = json_array();
    report->failed |= order == NULL;
    for (size_t i = 0; order != NULL && i < count; i++)
        order[i] = json_array_get(losses, i);
    if (order != NULL) qsort(order, count, sizeof(json_t *), by_count);
    for (size_t i = 0; order != NULL && i < count; i++) {
        json_object_del(order[i], "pattern");
        json_array_append(sorted, order[i]);
    }
    json_decref(losses);
    json_object_set_new(report->data, "losses", sorted);
}
