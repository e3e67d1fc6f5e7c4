/* The history of a session's changes, for `status`. */
#include <string.h>
#include <time.h>

#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/status.h"

/* Returns whether an instance works with a change: 1 yes, 0 no, −1 unknown. The heartbeat of another's program need not
 * say. An instance that starts again has none. */
static int works_with(const struct session *session, const char *instance, json_int_t number) {
    json_t *beat = status_heartbeat(session, instance);
    const json_t *change = json_object_get(beat, "change");
    int works = beat == NULL ? 0 : !json_is_integer(change) ? -1 : json_integer_value(change) >= number;
    json_decref(beat);
    return works;
}

static bool names_stage(const json_t *change, const char *stage) {
    size_t i;
    json_t *entry;
    if (json_is_true(json_object_get(change, "whole"))) return true;
    json_array_foreach(json_object_get(change, "changes"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "stage"));
        if (name != NULL && strcmp(name, stage) == 0) return true;
    }
    return false;
}

static json_t *in_force(const struct session *session, const json_t *plan, const json_t *change) {
    json_int_t number = json_integer_value(json_object_get(change, "number"));
    size_t i, k;
    json_t *stage, *instance;
    bool unknown = false;
    json_array_foreach(json_object_get(plan, "stages"), i, stage) {
        if (!names_stage(change, json_string_value(json_object_get(stage, "name")))) continue;
        if (json_is_true(json_object_get(stage, "left_out"))) continue;
        json_array_foreach(json_object_get(stage, "instances"), k, instance) {
            int works = works_with(session, json_string_value(instance), number);
            if (works == 0) return json_false();
            unknown = unknown || works < 0;
        }
    }
    return unknown ? json_null() : json_true();
}

json_t *status_changes_json(const struct session *session, const json_t *plan) {
    json_t *changes = NULL, *change;
    size_t i;
    if (changes_read(session, &changes, NULL) != STATUS_OK) return json_array();
    json_array_foreach(changes, i, change) {
        json_object_set_new(change, "in_force", in_force(session, plan, change));
    }
    return changes;
}

struct telling {
    FILE *out;
    int number;
    const char *when, *user;
};

static void tell(void *context, const char *text) {
    const struct telling *t = context;
    fprintf(t->out, "change %d, %s, %s: %s\n", t->number, t->when, t->user, text);
}

void status_changes(const struct session *session, const json_t *plan, FILE *out) {
    json_t *changes = status_changes_json(session, plan), *change, *entry;
    size_t i, k;
    struct err err = {0};
    json_t *readable = NULL;
    /* The next run would refuse the session for it. */
    if (changes_read(session, &readable, &err) != STATUS_OK) fprintf(out, "%s\n", err.message);
    json_decref(readable);
    json_array_foreach(changes, i, change) {
        time_t at = (time_t)json_number_value(json_object_get(change, "time"));
        struct tm local;
        char when[32] = "";
        if (localtime_r(&at, &local) != NULL) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
        int number = (int)json_integer_value(json_object_get(change, "number"));
        const char *user = json_string_value(json_object_get(change, "user"));
        const char *state = json_is_false(json_object_get(change, "in_force")) ? ", not in force yet" : "";
        if (json_is_true(json_object_get(change, "whole")))
            fprintf(out, "change %d, %s, %s: the graph as a whole%s\n", number, when, user != NULL ? user : "", state);
        json_array_foreach(json_object_get(change, "changes"), k, entry) {
            char text[768];
            change_text(entry, text, sizeof text);
            fprintf(out, "change %d, %s, %s: %s%s\n", number, when, user != NULL ? user : "", text, state);
        }
        change_marks_text(change, tell, &(struct telling){out, number, when, user != NULL ? user : ""});
    }
    json_decref(changes);
}
