#include "pipelines/launcher/warnings.h"

#include <string.h>

#include "common/clock.h"
#include "pipelines/launcher/json_values.h"

static enum status visit(const struct ledger_warning *warning, void *context, struct err *err) {
    json_t *row = json_pack("{s:o, s:o, s:o, s:I, s:f, s:f}", "stage", json_value_text(warning->stage), "id",
                            json_value_text(warning->id), "message", json_value_text(warning->message), "count",
                            (json_int_t)warning->count, "first", warning->first, "last", warning->last);
    FAIL_IF(row == NULL || json_array_append_new(context, row) != 0, err, STATUS_NO_MEMORY, "no memory for a warning");
    return STATUS_OK;
}

static enum status read_stage(const struct session *session, const char *stage, json_t *warnings, struct err *err) {
    struct ledger *ledger = NULL;
    TRY(session_ledger(session, stage, true, &ledger, err));
    if (ledger == NULL) return STATUS_OK;
    enum status status = ledger_each_warning(ledger, visit, warnings, err);
    ledger_close(&ledger);
    return status;
}

static enum status read_all(const struct session *session, const json_t *plan, json_t *warnings, struct err *err) {
    size_t i;
    json_t *planned;
    json_array_foreach(json_object_get(plan, "stages"), i, planned) {
        const char *name = json_string_value(json_object_get(planned, "name"));
        if (name == NULL) continue;
        if (session_keeps_ledger(planned))
            TRY(read_stage(session, name, warnings, err));
        else /* a program of others may keep such a table, and another kind of ledger */
            (void)read_stage(session, name, warnings, NULL);
    }
    return read_stage(session, WARNINGS_LAUNCHER, warnings, err);
}

enum status warnings_read(const struct session *session, const json_t *plan, json_t **ret_warnings, struct err *err) {
    json_t *warnings = json_array();
    FAIL_IF(warnings == NULL, err, STATUS_NO_MEMORY, "no memory for the warnings");
    enum status status = read_all(session, plan, warnings, err);
    if (status != STATUS_OK)
        json_decref(warnings);
    else
        *ret_warnings = warnings;
    return status;
}

void warnings_list(const json_t *warnings, FILE *out) {
    size_t i;
    json_t *row;
    json_array_foreach(warnings, i, row) {
        long long count = (long long)json_integer_value(json_object_get(row, "count"));
        fprintf(out, "%s: warning: %s (%s", json_string_value(json_object_get(row, "stage")),
                json_string_value(json_object_get(row, "message")), json_string_value(json_object_get(row, "id")));
        if (count > 1) fprintf(out, ", %lld times", count);
        fputs(")\n", out);
    }
}

enum status warnings_add(const struct session *session, const char *id, const char *message, struct err *err) {
    char path[PATH_SIZE];
    struct ledger *ledger = NULL;
    double now = clock_realtime();
    const struct ledger_warning warning = {WARNINGS_LAUNCHER, id, message, 1, now, now};
    TRY(session_ledger_path(session, WARNINGS_LAUNCHER, false, path, err));
    /* Meanwhile nobody watches the stages. */
    TRY(ledger_open_patient(path, WARNINGS_LAUNCHER, false, 1, &ledger, err));
    enum status status = ledger_own(ledger, WARNINGS_LAUNCHER, session->id, err);
    if (status == STATUS_OK) status = ledger_warn(ledger, &warning, 1, err);
    ledger_close(&ledger);
    return status;
}
