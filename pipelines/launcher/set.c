/* `icestream set`: gives stages of a session other values of their parameters, while it runs or before its next run. */
#include "pipelines/launcher/set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/graph/graph_check.h"
#include "pipelines/launcher/machine.h"
#include "pipelines/launcher/session.h"

struct setting {
    const struct session *session;
    const char *const *words;
    size_t word_count;
    FILE *problems;
    json_t *changes; /* of before */
    struct graph *before, *after;
    json_t *entries;
};

static void setting_clear(struct setting *setting) {
    json_decref(setting->changes);
    json_decref(setting->entries);
    graph_destroy(&setting->before);
    graph_destroy(&setting->after);
}

/* A value that would not start is refused here, with the words of `icestream check`. */
static enum status check(struct setting *setting, struct err *err) {
    struct machine machine;
    struct problems problems;
    char path[PATH_SIZE];
    int length = snprintf(path, sizeof path, "%s/graph.yaml", setting->session->path);
    FAIL_IF(length < 0 || length >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "%s: too long a path", setting->session->path);
    machine_inspect(&machine);
    problems_init(&problems, path);
    enum status status = graph_check(setting->after, &machine, &problems, err);
    bool wrong = problems.errors > 0;
    if (wrong) problems_print(&problems, setting->problems);
    problems_clear(&problems);
    FAIL_IF(status == STATUS_OK && wrong, err, STATUS_BAD_ARGUMENT,
            "nothing has changed: the session would not run with that");
    return status;
}

static enum status apply_words(struct setting *setting, struct err *err) {
    struct problems problems;
    problems_init(&problems, setting->session->path);
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < setting->word_count; i++) {
        const char *word = setting->words[i], *dot = strchr(word, '.'), *equals = strchr(word, '=');
        if (dot == NULL || equals == NULL || dot > equals || dot == word || dot + 1 == equals || equals[1] == '\0')
            status = err_set(err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__,
                             "'%s': expected STAGE.KEY=VALUE, as in lowpass-picker.threshold=0.3", word);
        else if (strncmp(word, "session.", 8) == 0)
            status = err_set(err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__,
                             "'%s': the values of session never change; use another --session", word);
        else
            status = graph_set(setting->after, word, &problems, err);
    }
    bool wrong = problems.errors > 0;
    if (wrong) problems_print(&problems, setting->problems);
    problems_clear(&problems);
    FAIL_IF(status == STATUS_OK && wrong, err, STATUS_BAD_ARGUMENT, "nothing has changed");
    return status;
}

/* The graphs were made from the same file, and only values that were set differ. What follows from other values (a box
 * from a diameter) stands in graph.yaml, and stays. */
static enum status compare(struct setting *setting, const char *stage_name, const char *key, struct err *err) {
    const struct graph_stage *stage = graph_find(setting->after, stage_name);
    const struct graph_stage *old = graph_find(setting->before, stage_name);
    const struct graph_entry *before = graph_entry(&old->section, key), *after = graph_entry(&stage->section, key);
    FAIL_IF(change_kind(stage, key) == PARAM_NEVER, err, STATUS_BAD_ARGUMENT,
            "%s.%s never changes in a session (%s --describe says what does); begin another --session with that value",
            stage_name, key, path_name(stage->program));
    if (before != NULL && after != NULL && graph_value_equal(&before->value, &after->value)) return STATUS_OK;
    size_t i;
    json_t *known;
    json_array_foreach(setting->entries, i, known) {
        if (strcmp(json_string_value(json_object_get(known, "stage")), stage_name) == 0 &&
            strcmp(json_string_value(json_object_get(known, "key")), key) == 0)
            return STATUS_OK;
    }
    json_array_append_new(setting->entries, change_entry(stage, key, before, after));
    return STATUS_OK;
}

static enum status collect(struct setting *setting, struct err *err) {
    for (size_t i = 0; i < setting->word_count; i++) {
        const char *word = setting->words[i];
        char stage[128], key[128];
        size_t dot = strcspn(word, "."), equals = strcspn(word, "=");
        snprintf(stage, sizeof stage, "%.*s", (int)dot, word);
        snprintf(key, sizeof key, "%.*s", (int)(equals - dot - 1), word + dot + 1);
        for (char *c = key; *c != '\0'; c++)
            if (*c == '-') *c = '_';
        TRY(compare(setting, stage, key, err));
    }
    return STATUS_OK;
}

static enum status prepare(struct setting *setting, struct err *err) {
    const struct session *session = setting->session;
    TRY(changes_read(session, &setting->changes, err));
    TRY(session_read_graph(session, &setting->before, err));
    TRY(changes_apply(setting->changes, setting->before, err));
    TRY(session_read_graph(session, &setting->after, err));
    TRY(changes_apply(setting->changes, setting->after, err));
    TRY(apply_words(setting, err));
    TRY(check(setting, err));
    setting->entries = json_array();
    FAIL_IF(setting->entries == NULL, err, STATUS_NO_MEMORY, "no memory for the change");
    return collect(setting, err);
}

/* Needs the lock. */
static enum status set_held(struct setting *setting, const char *by, const char *peer, struct set_result *ret_result,
                            struct err *err) {
    TRY(prepare(setting, err));
    int number = 0;
    if (json_array_size(setting->entries) > 0) {
        json_t *change = json_pack("{s:s, s:O}", "by", by, "changes", setting->entries);
        if (change != NULL && peer != NULL) json_object_set_new(change, "peer", json_string(peer));
        FAIL_IF(change == NULL, err, STATUS_NO_MEMORY, "no memory for the change");
        enum status status = changes_write(setting->session, change, &number, err);
        json_decref(change);
        TRY(status);
    }
    *ret_result = (struct set_result){.number = number, .entries = json_incref(setting->entries)};
    return STATUS_OK;
}

enum status set_values_held(const struct session *session, const char *by, const char *const *words, size_t count,
                            const char *peer, FILE *problems, struct set_result *ret_result, struct err *err) {
    struct setting setting = {.session = session, .words = words, .word_count = count, .problems = problems};
    enum status status = set_held(&setting, by, peer, ret_result, err);
    setting_clear(&setting);
    return status;
}

enum status set_values(const struct session *session, const char *const *words, size_t count, const char *peer,
                       FILE *problems, struct set_result *ret_result, struct err *err) {
    int lock;
    TRY(changes_hold(session, &lock, err));
    enum status status = set_values_held(session, "set", words, count, peer, problems, ret_result, err);
    close(lock);
    return status;
}

static void report(const struct session *session, const struct set_result *result) {
    size_t i;
    json_t *entry;
    json_array_foreach(result->entries, i, entry) {
        char text[768];
        change_text(entry, text, sizeof text);
        printf("change %d: %s\n", result->number, text);
    }
    if (json_array_size(result->entries) == 0)
        puts("nothing has changed: the session has these values");
    else if (!session_is_running(session))
        puts("the next run of the session takes it over");
    else
        puts("the running session takes it over; `icestream redo` makes earlier items again with it");
}

int command_set(const struct options *options) {
    struct err err = {0};
    struct session session = {0};
    struct set_result result = {0};
    enum status status = session_find(options->session, &session, &err);
    if (status == STATUS_OK)
        status = set_values(&session, options->words, options->word_count, NULL, stderr, &result, &err);
    if (status == STATUS_OK) report(&session, &result);
    json_decref(result.entries);
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    bool wrong = status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT || status == STATUS_BAD_FORMAT;
    return wrong ? EXIT_USAGE : EXIT_ERROR;
}
