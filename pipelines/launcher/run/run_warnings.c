/* Shows the warnings of the stages while they run, each kind once, and keeps those of the launcher. */
#include <string.h>

#include "pipelines/launcher/run/run_private.h"
#include "pipelines/launcher/status.h"
#include "pipelines/launcher/warnings.h"

void run_warn(void *context, const char *id, const char *text) {
    struct run *run = context;
    struct err own = {0};
    progress_say(&run->progress, text);
    /* The text is on the screen and in the launcher's log; the work goes on without the record. */
    if (warnings_add(&run->session, id, text, &own) != STATUS_OK)
        log_write(run->log, LOG_INFO, "launcher", "a warning is not in the list: %s", own.message);
}

/* Returns how many warnings the ledgers hold, as far as the heartbeats say; it changes with each new one. */
static json_int_t count_warnings(const struct run *run) {
    json_int_t sum = 0;
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        json_t *beat = status_heartbeat(&run->session, run->plan->instances[i].name);
        sum += json_integer_value(json_object_get(beat, "warnings")) * (json_int_t)(i + 1);
        json_decref(beat);
    }
    return sum;
}

/* The launcher has shown its own warnings; those of earlier runs stand in the list at the end. */
static bool is_new(struct run *run, const json_t *warning) {
    char kind[256];
    const char *stage = json_string_value(json_object_get(warning, "stage"));
    if (strcmp(stage, WARNINGS_LAUNCHER) == 0) return false;
    if (json_number_value(json_object_get(warning, "last")) < run->begun_at) return false;
    snprintf(kind, sizeof kind, "%s %s", stage, json_string_value(json_object_get(warning, "id")));
    return json_object_get(run->warned, kind) == NULL && json_object_set_new(run->warned, kind, json_true()) == 0;
}

static void show(struct run *run, const json_t *warnings) {
    size_t i;
    json_t *warning;
    json_array_foreach(warnings, i, warning) {
        char text[1024];
        if (!is_new(run, warning)) continue;
        snprintf(text, sizeof text, "%s: warning: %s (%s)", json_string_value(json_object_get(warning, "stage")),
                 json_string_value(json_object_get(warning, "message")),
                 json_string_value(json_object_get(warning, "id")));
        progress_say(&run->progress, text);
    }
}

void run_warnings_look(struct run *run, bool last) {
    json_t *warnings = NULL;
    struct err own = {0};
    json_int_t count = last ? -1 : count_warnings(run);
    if (count == run->warning_count) return;
    /* A ledger that cannot be read for a moment is read at the next look. */
    if (warnings_read(&run->session, run->planned, &warnings, &own) != STATUS_OK) return;
    run->warning_count = count;
    show(run, warnings);
    if (last) {
        json_decref(run->warnings);
        run->warnings = json_incref(warnings);
    }
    json_decref(warnings);
}
