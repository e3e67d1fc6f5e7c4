/* Stands in for what lies behind the requests of tests/fuzz/fuzz_requests.c: the view, the ledgers, the history and the
 * alarms of a session. Each function checks that it is asked for what its header allows, and touches no file. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "pipelines/launcher/alarms/alarms.h"
#include "pipelines/launcher/api/api.h"
#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/mark.h"
#include "pipelines/launcher/redo.h"
#include "pipelines/launcher/retry.h"
#include "pipelines/launcher/set.h"
#include "pipelines/launcher/view/view.h"

enum { EXPOSURES = 3, CLASSES = 1001 };

static void check_text(const char *text) {
    FUZZ_CHECK(text != NULL);
    json_t *json = json_string(text); /* NULL: not UTF-8, which JSON cannot hold */
    FUZZ_CHECK(json != NULL);
    json_decref(json);
}

static void check_names(const char *stage, const char *const *names, size_t count) {
    if (stage != NULL) FUZZ_CHECK(stage[0] != '\0');
    for (size_t i = 0; i < count; i++)
        check_text(names[i]);
}

static void check_author(const struct mark_author *author) {
    FUZZ_CHECK(author->peer != NULL);
    if (author->why != NULL) check_text(author->why);
}

/* ---- The view ---- */

int64_t view_find(const struct view *view, int64_t number) {
    (void)view;
    return number >= 1 && number <= EXPOSURES ? number - 1 : -1;
}

const struct view_row *view_row(const struct view *view, size_t row) {
    static const struct view_row rows[EXPOSURES] = {
        {.number = 1, .source = "watcher", .id = "a", .name = "a", .reason = "", .hole = ""},
        {.number = 2, .source = "watcher", .id = "b", .name = "b<", .reason = "", .hole = ""},
        {.number = 3, .source = "watcher", .id = "日", .name = "日", .reason = "", .hole = ""}};
    (void)view;
    FUZZ_CHECK(row < EXPOSURES);
    return &rows[row];
}

enum view_state view_state(const struct view *view) {
    (void)view;
    return VIEW_RUNNING;
}

int view_run(const struct view *view) {
    (void)view;
    return 1;
}

const json_t *view_plan(const struct view *view) {
    (void)view;
    return NULL;
}

void api_forget(struct serve *serve) {
    (void)serve;
}

/* ---- The session, which nobody runs, and its history ---- */

enum status session_find(const char *path, struct session *ret_session, struct err *err) {
    (void)err;
    *ret_session = (struct session){.lock = -1, .run = 1};
    snprintf(ret_session->path, sizeof ret_session->path, "%s", path);
    return STATUS_OK;
}

bool session_is_running(const struct session *session) {
    (void)session;
    return false;
}

enum status changes_hold(const struct session *session, int *ret_lock, struct err *err) {
    (void)session;
    *ret_lock = memfd_create("lock", MFD_CLOEXEC);
    FAIL_IF(*ret_lock < 0, err, STATUS_UNAVAILABLE, "no lock");
    return STATUS_OK;
}

enum status changes_write(const struct session *session, const json_t *change, int *ret_number, struct err *err) {
    (void)session;
    (void)err;
    FUZZ_CHECK(json_is_string(json_object_get(change, "by")) && json_is_string(json_object_get(change, "note")));
    *ret_number = 1;
    return STATUS_OK;
}

/* ---- The deeds ---- */

enum status retry_items(const struct session *session, const struct retry_request *request,
                        struct retry_outcome *ret_outcome, struct err *err) {
    (void)session;
    (void)err;
    check_names(request->stage, request->names, request->name_count);
    ret_outcome->total = (int64_t)request->name_count;
    for (size_t i = 0; i < request->name_count; i++)
        fprintf(request->out, "%s\n", request->names[i]);
    return STATUS_OK;
}

enum status redo_items(const struct session *session, const struct redo_request *request,
                       struct redo_outcome *ret_outcome, struct err *err) {
    (void)session;
    check_names(request->stage, request->names, request->name_count);
    FAIL_IF(request->name_count > REDO_AT_ONCE, err, STATUS_BAD_ARGUMENT, "too many");
    for (size_t i = 0; i < request->name_count; i++)
        fprintf(request->out, "%s goes again\n", request->names[i]);
    ret_outcome->total = (int64_t)request->name_count;
    return STATUS_OK;
}

enum status mark_items(const struct session *session, const struct ledger_key *keys, size_t count, enum choice choice,
                       const struct mark_author *author, struct mark_result *ret_result, struct err *err) {
    (void)session;
    (void)err;
    FUZZ_CHECK(choice == CHOICE_NONE || choice == CHOICE_KEEP || choice == CHOICE_REJECT);
    check_author(author);
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(keys[i].source != NULL && keys[i].id != NULL);
    *ret_result = (struct mark_result){.number = count > 0, .changed = count};
    return STATUS_OK;
}

void mark_write_lost(const struct mark_result *result, FILE *out) {
    fprintf(out, "; %zu", result->changed);
}

enum status mark_stage(const struct session *session, const json_t *plan, const char *name, const char **ret_stage,
                       struct err *err) {
    (void)session;
    (void)plan;
    FAIL_IF(name != NULL && strcmp(name, "classifier") != 0, err, STATUS_BAD_ARGUMENT, "there is no classifier %s",
            name);
    *ret_stage = "classifier";
    return STATUS_OK;
}

enum status mark_class_count(const struct session *session, const char *stage, int iteration, int *ret_count,
                             struct err *err) {
    (void)session;
    (void)stage;
    FAIL_IF(iteration > 9, err, STATUS_NOT_FOUND, "no snapshot");
    *ret_count = iteration % 2 == 0 ? CLASSES : 4;
    return STATUS_OK;
}

enum status mark_classes(const struct session *session, const char *stage, int iteration,
                         const struct mark_group *groups, size_t group_count, const struct mark_author *author,
                         struct mark_result *ret_result, struct err *err) {
    (void)session;
    (void)err;
    FUZZ_CHECK(strcmp(stage, "classifier") == 0 && iteration >= 1 && group_count == 2);
    check_author(author);
    for (size_t g = 0; g < group_count; g++) {
        FUZZ_CHECK(groups[g].count <= CLASSES);
        for (size_t i = 0; i < groups[g].count; i++)
            FUZZ_CHECK(groups[g].classes[i] >= 1);
        ret_result->changed += groups[g].count;
    }
    ret_result->number = 2;
    return STATUS_OK;
}

enum status mark_classes_undo(const struct session *session, const char *stage, int iteration, const int *classes,
                              size_t count, const struct mark_author *author, struct mark_result *ret_result,
                              struct err *err) {
    (void)session;
    (void)stage;
    (void)classes;
    (void)err;
    FUZZ_CHECK(iteration >= 1 && count == 0);
    check_author(author);
    *ret_result = (struct mark_result){.number = iteration % 2};
    return STATUS_OK;
}

enum status set_values(const struct session *session, const char *const *words, size_t count, const char *peer,
                       FILE *problems, struct set_result *ret_result, struct err *err) {
    (void)session;
    FUZZ_CHECK(count > 0 && peer != NULL);
    *ret_result = (struct set_result){.number = 3, .entries = json_array()};
    for (size_t i = 0; i < count; i++) {
        check_text(words[i]);
        for (const char *at = words[i]; *at != '\0'; at++)
            FUZZ_CHECK((unsigned char)*at >= ' '); /* a line's end would begin another key of the graph */
        json_array_append_new(ret_result->entries, json_pack("{s:s, s:s, s:n, s:s, s:s}", "stage", "picker", "key",
                                                             "threshold", "old", "new", words[i], "changes", "live"));
        fprintf(problems, "graph.yaml: error: %s\n", words[i]);
    }
    FAIL_IF(words[0][0] == '!', err, STATUS_BAD_ARGUMENT, "refused");
    return STATUS_OK;
}

enum status alarms_silence(struct alarms *alarms, const char *name, const char *subject, double until, double now,
                           const char *who, const char *why, struct err *err) {
    FUZZ_CHECK(alarms != NULL && until >= 0 && now > 0 && who != NULL);
    check_text(name);
    check_text(subject);
    if (why != NULL) check_text(why);
    FAIL_IF(strcmp(name, "disk") != 0 && strcmp(name, "all") != 0, err, STATUS_BAD_ARGUMENT, "no such alarm");
    return STATUS_OK;
}
