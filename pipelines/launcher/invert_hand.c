#include "pipelines/launcher/invert_hand.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/commands.h"

/* Looks for the refiner in a plan. A stage of another kind is told apart from one that is not there. */
static enum status find_refiner(const struct session *session, const json_t *plan, const char *name, char *ret_stage,
                                size_t size, struct err *err) {
    size_t i, count = 0;
    json_t *stage;
    json_array_foreach(json_object_get(plan, "stages"), i, stage) {
        const char *kind = json_string_value(json_object_get(stage, "kind"));
        const char *own = json_string_value(json_object_get(stage, "name"));
        if (own == NULL || kind == NULL || (name != NULL && strcmp(own, name) != 0)) continue;
        bool refines = strcmp(kind, "refiner") == 0;
        FAIL_IF(name != NULL && !refines, err, STATUS_BAD_ARGUMENT,
                "%s is a %s, which has no 3D maps: name a refiner with --stage", name, kind);
        if (refines && count++ == 0) snprintf(ret_stage, size, "%s", own);
    }
    FAIL_IF(count == 0 && name != NULL, err, STATUS_BAD_ARGUMENT, "%s has no stage %s", session->path, name);
    FAIL_IF(count == 0, err, STATUS_BAD_ARGUMENT, "%s has no refiner, so there is no 3D map to invert", session->path);
    FAIL_IF(count > 1, err, STATUS_BAD_ARGUMENT, "%s has %zu refiners; name one with --stage", session->path, count);
    return STATUS_OK;
}

static bool is_yes(const struct graph_entry *entry) {
    static const char *const yes[] = {"true", "yes", "on", "1"};
    for (size_t i = 0; entry != NULL && i < sizeof yes / sizeof *yes; i++)
        if (graph_value_holds(&entry->value, yes[i])) return true;
    return false;
}

/* Finds the value that holds. */
static enum status find_value(const struct session *session, const char *stage, bool *ret_inverted, struct err *err) {
    struct graph *graph = NULL;
    json_t *changes = NULL;
    TRY(changes_read(session, &changes, err));
    enum status status = session_read_graph(session, &graph, err);
    if (status == STATUS_OK) status = changes_apply(changes, graph, err);
    const struct graph_stage *found = status == STATUS_OK ? graph_find(graph, stage) : NULL;
    if (found != NULL) *ret_inverted = is_yes(graph_entry(&found->section, "invert_hand"));
    graph_destroy(&graph);
    json_decref(changes);
    return status;
}

/* Needs the lock, so that of two at once each counts. */
static enum status invert_held(const struct session *session, const char *stage, const char *peer, FILE *problems,
                               struct set_result *ret_result, struct err *err) {
    char word[192];
    const char *words[] = {word};
    bool inverted = false;
    TRY(find_value(session, stage, &inverted, err));
    snprintf(word, sizeof word, "%s.invert_hand=%s", stage, inverted ? "false" : "true");
    return set_values_held(session, "invert-hand", words, 1, peer, problems, ret_result, err);
}

enum status invert_hand(const struct session *session, const char *stage_or_null, const char *peer, FILE *problems,
                        struct set_result *ret_result, struct err *err) {
    json_t *plan = NULL;
    char stage[128];
    int lock;
    TRY(session_read_plan(session, &plan, err));
    enum status status = find_refiner(session, plan, stage_or_null, stage, sizeof stage, err);
    json_decref(plan);
    TRY(status);
    TRY(changes_hold(session, &lock, err));
    status = invert_held(session, stage, peer, problems, ret_result, err);
    close(lock);
    return status;
}

static void report(const struct session *session, const struct set_result *result) {
    const json_t *entry = json_array_get(result->entries, 0);
    const char *stage = json_string_value(json_object_get(entry, "stage"));
    char text[768];
    if (entry == NULL || stage == NULL) return;
    change_text(entry, text, sizeof text);
    printf("change %d: %s\n", result->number, text);
    if (session_is_running(session))
        printf("the maps of %s are inverted before its next iteration; earlier files stay as they are\n", stage);
    else
        printf(
            "the next run of the session inverts the maps of %s, and makes final ones anew if they are there; earlier "
            "iterations stay as they are\n",
            stage);
}

int command_invert_hand(const struct options *options) {
    struct err err = {0};
    struct session session = {0};
    struct set_result result = {0};
    enum status status = session_find(options->session, &session, &err);
    if (status == STATUS_OK) status = invert_hand(&session, options->stage, NULL, stderr, &result, &err);
    if (status == STATUS_OK) report(&session, &result);
    json_decref(result.entries);
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    bool wrong = status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT || status == STATUS_BAD_FORMAT;
    return wrong ? EXIT_USAGE : EXIT_ERROR;
}
