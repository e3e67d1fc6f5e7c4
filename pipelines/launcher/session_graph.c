/* The graph of a session that has begun, and the graph that a later run brings. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/graph/graph_print.h"
#include "pipelines/launcher/session.h"
#include "pipelines/launcher/tally.h"

static enum status graph_path(const struct session *session, char path[PATH_SIZE], struct err *err) {
    int length = snprintf(path, PATH_SIZE, "%s/graph.yaml", session->path);
    FAIL_IF(length < 0 || length >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "%s: too long a path", session->path);
    return STATUS_OK;
}

enum status session_read_graph(const struct session *session, struct graph **ret_graph, struct err *err) {
    char path[PATH_SIZE];
    struct problems problems;
    struct graph *graph = NULL;
    TRY(graph_path(session, path, err));
    problems_init(&problems, path);
    enum status status = graph_read(path, &problems, &graph, err);
    bool wrong = problems.errors > 0;
    problems_clear(&problems);
    if (status == STATUS_OK && wrong)
        status = err_set(err, STATUS_BAD_FORMAT, __FILE__, __LINE__,
                         "%s: the file was changed by hand and is not a graph any more", path);
    if (status != STATUS_OK) {
        graph_destroy(&graph);
        return status;
    }
    *ret_graph = graph;
    return STATUS_OK;
}

/* Returns whether a stage of the plan sends to another one. */
static bool feeds(const json_t *plan, const char *name) {
    size_t i, k;
    json_t *stage, *from;
    json_array_foreach(json_object_get(plan, "stages"), i, stage) {
        json_array_foreach(json_object_get(stage, "from"), k, from) {
            if (strcmp(json_string_value(from), name) == 0) return true;
        }
    }
    return false;
}

/* A source finds its items anew, so that what it has sent counts only where nobody receives it. Nobody knows what a
 * source without a ledger remembers. */
static bool has_finished(const json_t *plan, const json_t *planned, const struct tally_stage *stage) {
    bool source = json_array_size(json_object_get(planned, "from")) == 0;
    if (stage->left_out) return false;
    if (source && !session_keeps_ledger(planned)) return true;
    return (!source || !feeds(plan, stage->name)) && stage->done + stage->rejected > 0;
}

static enum status find_finished(const struct session *session, bool *ret_finished, struct err *err) {
    json_t *plan = NULL;
    struct tally tally = {0};
    TRY(session_read_plan(session, &plan, err));
    enum status status = tally_take(session, plan, TALLY_COUNTS, &tally, err);
    bool finished = false;
    for (size_t i = 0; status == STATUS_OK && i < tally.count && !finished; i++)
        finished = has_finished(plan, json_array_get(json_object_get(plan, "stages"), i), &tally.stages[i]);
    tally_clear(&tally);
    json_decref(plan);
    if (status == STATUS_OK) *ret_finished = finished;
    return status;
}

static bool is_of_ledger(const char *name) {
    static const char *const endings[] = {".sqlite", ".sqlite-wal", ".sqlite-shm", ".jsonl"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(name), ending = strlen(endings[i]);
        if (length > ending && strcmp(name + length - ending, endings[i]) == 0) return true;
    }
    return false;
}

/* Removes the ledgers: they hold what goes to stages and inputs that the new graph may not have. */
static enum status forget_all(struct session *session, struct err *err) {
    char path[PATH_SIZE];
    TRY(session_forget_server(session, err));
    TRY(session_file(session, "ledger", "", "", path, err));
    DIR *folder = opendir(path);
    FAIL_IF(folder == NULL, err, status_of_reading(errno), "%s: %s", path, status_reason(errno));
    enum status status = STATUS_OK;
    for (struct dirent *entry = readdir(folder); entry != NULL && status == STATUS_OK; entry = readdir(folder))
        if (is_of_ledger(entry->d_name) && unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            status = err_set(err, status_of_writing(errno), __FILE__, __LINE__, "%s/%s cannot be removed: %s", path,
                             entry->d_name, status_reason(errno));
    closedir(folder);
    return status;
}

struct comparison {
    const struct graph *holds; /* graph.yaml with the changes since */
    bool any;
    json_t *entries;
    char never[768]; /* what may not change, as text */
};

static bool note_difference(const struct graph_difference *difference, void *context) {
    struct comparison *comparison = context;
    comparison->any = true;
    if (difference->stage != NULL && difference->key != NULL &&
        change_kind(difference->stage, difference->key) != PARAM_NEVER) {
        const struct graph_stage *stage = graph_find(comparison->holds, difference->section);
        const struct graph_entry *before = stage != NULL ? graph_entry(&stage->section, difference->key) : NULL;
        const struct graph_entry *after = difference->after;
        bool equal = before != NULL && after != NULL ? graph_value_equal(&before->value, &after->value)
                                                     : before == NULL && after == NULL;
        if (!equal)
            json_array_append_new(comparison->entries, change_entry(difference->stage, difference->key, before, after));
        return false;
    }
    size_t used = strlen(comparison->never);
    if (used > 0 && used + 2 < sizeof comparison->never) used += (size_t)snprintf(comparison->never + used, 3, ", ");
    graph_difference_text(difference, comparison->never + used, sizeof comparison->never - used);
    return false;
}

static void say_entries(const json_t *entries, int number) {
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry) {
        char text[768];
        change_text(entry, text, sizeof text);
        fprintf(stderr, "icestream: change %d: %s\n", number, text);
    }
}

static enum status add_changes(struct session *session, const struct graph *graph, const struct comparison *comparison,
                               struct err *err) {
    bool finished = true;
    int lock = -1, number = 0;
    TRY(find_finished(session, &finished, err));
    FAIL_IF(
        finished && comparison->never[0] != '\0', err, STATUS_BAD_ARGUMENT,
        "%s was begun with another graph: %s, and that never changes once items are finished; use the graph of before, "
        "or another --session",
        session->path, comparison->never);
    bool whole = !finished;
    if (!whole && json_array_size(comparison->entries) == 0) return STATUS_OK;
    if (whole) TRY(session_check_server(session, true, err));
    TRY(changes_hold(session, &lock, err));
    enum status status = changes_add(session, "run", whole, comparison->entries, &number, err);
    close(lock);
    TRY(status);
    if (!whole) {
        say_entries(comparison->entries, number);
        return STATUS_OK;
    }
    fprintf(stderr, "icestream: change %d: %s has finished nothing so far, so it takes the graph as it is now\n",
            number, session->path);
    session->separate = graph->separate;
    return forget_all(session, err);
}

static enum status compare(struct session *session, const struct graph *graph, struct err *err) {
    struct graph *given = NULL, *holds = NULL;
    json_t *changes = NULL;
    struct comparison comparison = {.entries = json_array()};
    enum status status = session_read_graph(session, &given, err);
    if (status == STATUS_OK) status = session_read_graph(session, &holds, err);
    if (status == STATUS_OK) status = changes_read(session, &changes, err);
    if (status == STATUS_OK) status = changes_apply(changes, holds, err);
    comparison.holds = holds;
    if (status == STATUS_OK) graph_differences(given, graph, note_difference, &comparison);
    if (status == STATUS_OK && comparison.any) status = add_changes(session, graph, &comparison, err);
    json_decref(comparison.entries);
    json_decref(changes);
    graph_destroy(&given);
    graph_destroy(&holds);
    return status;
}

enum status session_keep_graph(struct session *session, const struct graph *graph, struct err *err) {
    char path[PATH_SIZE], *text = NULL;
    TRY(graph_path(session, path, err));
    if (file_exists(path)) TRY(compare(session, graph, err));
    TRY(graph_print(graph, &text, err));
    enum status status = file_write_whole(path, text, strlen(text), err);
    free(text);
    return status;
}
