/* `icestream replay`: prepares a graph and a recording, and runs the session. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/pattern.h"
#include "pipelines/launcher/check.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/run/run.h"
#include "pipelines/launcher/session.h"

/* Finds the folder that a session watched, in its graph.yaml. */
static enum status watched_folder(const char *session, char *folder, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(session, "graph.yaml", path, sizeof path, err));
    if (!file_exists(path)) {
        snprintf(folder, PATH_SIZE, "%s", session);
        return STATUS_OK;
    }
    struct problems problems;
    struct graph *graph = NULL;
    problems_init(&problems, path);
    enum status status = graph_read(path, &problems, &graph, err);
    problems_clear(&problems);
    TRY(status);
    const struct graph_section *found = NULL;
    for (size_t i = 0; i < graph->stage_count && status == STATUS_OK; i++) {
        const struct graph_section *section = &graph->stages[i].section;
        const struct graph_entry *directory = graph_entry(section, "directory");
        char other[PATH_SIZE];
        if (graph_entry(section, "from") != NULL || directory == NULL || directory->value.count != 1 ||
            path_join(session, directory->value.texts[0], other, sizeof other, NULL) != STATUS_OK)
            continue;
        if (found != NULL && strcmp(folder, other) != 0)
            status =
                err_set(err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__,
                        "%s: %s and %s watched two folders, and a replay plays one: name a folder, not the session",
                        path, found->name, section->name);
        else
            memcpy(folder, other, PATH_SIZE);
        found = section;
    }
    bool any = found != NULL;
    graph_destroy(&graph);
    TRY(status);
    FAIL_IF(!any, err, STATUS_BAD_FORMAT, "%s: no stage with a `directory`, so there is nothing to play again", path);
    return STATUS_OK;
}

/* Counts the files that a watcher will take: with the pattern of the graph, or all when there is none. */
static enum status count_wanted(const struct graph_stage *watcher, const struct replay *replay, size_t *ret_count,
                                struct err *err) {
    const struct graph_entry *globs = graph_entry(&watcher->section, "pattern");
    const struct graph_entry *deep = graph_entry(&watcher->section, "recursive");
    bool recursive = deep == NULL || deep->value.count != 1 || strcmp(deep->value.texts[0], "false") != 0;
    struct pattern pattern = {0};
    if (globs != NULL) {
        _cleanup_(mem_free) char *text = graph_value_text(&globs->value);
        FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the graph");
        TRY(pattern_create(text, &pattern, err));
    }
    for (size_t i = 0; i < replay->count; i++) {
        const char *path = replay->files[i].path;
        bool wanted = globs == NULL || pattern_match(&pattern, path);
        *ret_count += wanted && (recursive || strchr(path, '/') == NULL) && !replay->files[i].again;
    }
    pattern_destroy(&pattern);
    return STATUS_OK;
}

/* The stream ends when the watchers have seen this many files. A number too high costs seconds, until nothing has come
 * for a while; with a number too low the rest would be lost. */
static enum status count_expected(const struct graph *graph, struct replay *replay, struct err *err) {
    replay->expected = 0;
    for (size_t i = 0; i < graph->stage_count; i++)
        if (strcmp(graph->stages[i].kind, "watcher") == 0)
            TRY(count_wanted(&graph->stages[i], replay, &replay->expected, err));
    return STATUS_OK;
}

/* Refuses a session below the recording: what is played into it would count as recorded. The session's folder need not
 * exist yet; the nearest folder that exists says where it will lie. */
static enum status check_outside(const struct replay *replay, const char *session, struct err *err) {
    char path[PATH_SIZE], above[PATH_SIZE];
    int length = snprintf(path, sizeof path, "%s", session);
    FAIL_IF(length < 0 || length >= (int)sizeof path, err, STATUS_BAD_ARGUMENT, "%s: too long a path", session);
    _cleanup_(mem_free) char *known = realpath(path, NULL);
    while (known == NULL) {
        TRY(path_folder(path, above, sizeof above, err));
        if (strcmp(above, path) == 0) return STATUS_OK;
        memcpy(path, above, strlen(above) + 1);
        known = realpath(path, NULL);
    }
    FAIL_IF(path_is_below(known, replay->source, NULL), err, STATUS_BAD_ARGUMENT,
            "%s lies inside %s, which is to be played into it; use another --session", session, replay->source);
    return STATUS_OK;
}

/* Finds where the files will appear, below the session. Makes the session's folder, but nothing in it: the session may
 * be one that this replay must not touch. */
static enum status find_target(const char *session, char target[PATH_SIZE], struct err *err) {
    char path[PATH_SIZE];
    TRY(file_make_folders(session, 0777, err));
    _cleanup_(mem_free) char *absolute = realpath(session, NULL);
    FAIL_IF(absolute == NULL, err, STATUS_IO, "%s: cannot be found", session);
    TRY(path_join(absolute, "replay", path, sizeof path, err));
    _cleanup_(mem_free) char *known = realpath(path, NULL);
    snprintf(target, PATH_SIZE, "%s", known != NULL ? known : path);
    return STATUS_OK;
}

static enum status redirect_watchers(struct graph *graph, const char *session, struct err *err) {
    char target[PATH_SIZE];
    bool any = false;
    for (size_t i = 0; i < graph->stage_count; i++)
        any |= strcmp(graph->stages[i].kind, "watcher") == 0;
    FAIL_IF(!any, err, STATUS_BAD_ARGUMENT, "the graph has no watcher, which a replay needs");
    TRY(find_target(session, target, err));
    for (size_t i = 0; i < graph->stage_count; i++)
        if (strcmp(graph->stages[i].kind, "watcher") == 0)
            TRY(graph_put(&graph->stages[i].section, "directory", target, false, err));
    return STATUS_OK;
}

/* A picker that adopts templates of the session adopts those of the recorded one, at the same items. Otherwise what is
 * adopted, and when, would depend on how fast the replay runs. */
static enum status repeat_adoptions(struct graph *graph, const char *recorded, struct err *err) {
    char path[PATH_SIZE], name[PATH_SIZE];
    for (size_t i = 0; i < graph->stage_count; i++) {
        struct graph_section *section = &graph->stages[i].section;
        if (graph_entry(section, "templates_from") == NULL || graph_entry(section, "templates_history") != NULL)
            continue;
        int length = snprintf(name, sizeof name, "%s/history.jsonl", section->name);
        if (length < 0 || (size_t)length >= sizeof name ||
            path_join(recorded, name, path, sizeof path, NULL) != STATUS_OK)
            continue;
        _cleanup_(mem_free) char *absolute = realpath(path, NULL);
        if (absolute != NULL) TRY(graph_put(section, "templates_history", absolute, false, err));
    }
    return STATUS_OK;
}

static int usage(const struct err *err) {
    fprintf(stderr, "icestream: %s\n", err->message);
    return err->status == STATUS_IO || err->status == STATUS_NO_MEMORY ? EXIT_ERROR : EXIT_USAGE;
}

static enum status check_kills(const struct graph *graph, const struct replay *replay, struct err *err) {
    for (size_t i = 0; i < replay->kill_count; i++)
        FAIL_IF(graph_find(graph, replay->kills[i].stage) == NULL, err, STATUS_BAD_ARGUMENT,
                "--fault kill:%s@%lld: the graph has no such stage", replay->kills[i].stage,
                (long long)replay->kills[i].after);
    return STATUS_OK;
}

int command_replay(const struct options *options) {
    char folder[PATH_SIZE];
    struct err err = {0};
    struct replay replay;
    struct graph *graph;
    struct plan plan;
    if (watched_folder(options->words[0], folder, &err) != STATUS_OK ||
        replay_create(folder, options->speed, options->faults, options->fault_count, &replay, &err) != STATUS_OK)
        return usage(&err);
    const struct preset preset = {.kind = "watcher", .key = "directory", .value = replay.source};
    int code = check_graph(options->words[1], options, &preset, &graph, &plan);
    if (code == EXIT_OK) {
        if (check_kills(graph, &replay, &err) != STATUS_OK || count_expected(graph, &replay, &err) != STATUS_OK ||
            check_outside(&replay, options->session, &err) != STATUS_OK ||
            redirect_watchers(graph, options->session, &err) != STATUS_OK ||
            repeat_adoptions(graph, options->words[0], &err) != STATUS_OK) {
            code = usage(&err);
        } else {
            code = run_graph(options, graph, &plan, &replay);
        }
        plan_clear(&plan);
        graph_destroy(&graph);
    }
    replay_clear(&replay);
    return code;
}
