/* Changes of parameters in a run: puts those of earlier runs upon the graph, and those that come meanwhile into the
 * instance files. Stages take over what is live; for the rest they are stopped and started again. */
#include <stdio.h>
#include <string.h>

#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/run/run_private.h"

enum status run_changes_begin(struct run *run, struct err *err) {
    json_t *changes = NULL;
    TRY(changes_read(&run->session, &changes, err));
    enum status status = changes_apply(changes, run->graph, err);
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        struct plan_instance *instance = &run->plan->instances[i];
        instance->change = changes_last(changes, run->graph->stages[instance->stage].section.name);
    }
    run->change = changes_last(changes, NULL);
    json_decref(changes);
    return status;
}

/* Returns whether a change concerns a stage; ret_restart: not all of it is live. */
static bool concerns(const json_t *change, const char *stage, bool *ret_restart) {
    size_t i;
    json_t *entry;
    bool found = false;
    *ret_restart = false;
    json_array_foreach(json_object_get(change, "changes"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "stage"));
        const char *kind = json_string_value(json_object_get(entry, "changes"));
        if (name == NULL || strcmp(name, stage) != 0) continue;
        found = true;
        *ret_restart = *ret_restart || kind == NULL || strcmp(kind, "live") != 0;
    }
    return found;
}

/* May be called again for the same change after it could not be written. */
static enum status apply(struct run *run, struct supervisor *supervisor, const json_t *change, int number,
                         struct err *err) {
    TRY(change_apply(change, run->graph, err));
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        struct plan_instance *instance = &run->plan->instances[i];
        bool restart = false;
        if (instance->change >= number || !concerns(change, run->graph->stages[instance->stage].section.name, &restart))
            continue;
        int before = instance->change;
        instance->change = number;
        enum status status = instance_write(&run->session, run->plan, i, &run->orders, err);
        if (status != STATUS_OK) instance->change = before;
        TRY(status);
        if (restart)
            supervisor_renew(supervisor, i);
        else
            run_hosts_pass_orders(run, i);
    }
    return STATUS_OK;
}

struct saying {
    struct run *run;
    int number;
};

static void say_line(void *context, const char *text) {
    struct saying *saying = context;
    char line[832];
    snprintf(line, sizeof line, "change %d: %s", saying->number, text);
    progress_say(&saying->run->progress, line);
}

static void say_change(struct run *run, const json_t *change, int number) {
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(change, "changes"), i, entry) {
        char text[768];
        change_text(entry, text, sizeof text);
        say_line(&(struct saying){run, number}, text);
    }
    change_marks_text(change, say_line, &(struct saying){run, number});
}

void run_changes_tend(struct run *run, struct supervisor *supervisor) {
    for (;;) {
        json_t *change = NULL;
        struct err err = {0};
        enum status status = changes_one(&run->session, run->change + 1, &change, &err);
        if (status == STATUS_OK && change == NULL) return;
        if (status == STATUS_OK) status = apply(run, supervisor, change, run->change + 1, &err);
        if (status == STATUS_OK) say_change(run, change, run->change + 1);
        json_decref(change);
        if (status != STATUS_OK) {
            if (!run->unchanged) progress_say(&run->progress, err.message);
            run->unchanged = true;
            return;
        }
        run->unchanged = false;
        run->change++;
    }
}
