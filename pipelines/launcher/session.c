#include "pipelines/launcher/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/memory.h"

enum { PLAN_TEXT_MAX = 1 << 22, PLAN_VERSION = 1 };

enum status session_file(const struct session *session, const char *folder, const char *name, const char *ending,
                         char path[PATH_SIZE], struct err *err) {
    int length = snprintf(path, PATH_SIZE, "%s/%s/%s%s", session->path, folder, name, ending);
    FAIL_IF(length < 0 || length >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "%s: too long a path", session->path);
    return STATUS_OK;
}

static enum status absolute(const char *path, char *ret_path, struct err *err) {
    char *whole = realpath(path, NULL);
    FAIL_IF(whole == NULL, err, STATUS_NOT_FOUND, "%s: %s", path, strerror(errno));
    size_t length = strlen(whole);
    if (length < PATH_SIZE) memcpy(ret_path, whole, length + 1);
    free(whole);
    FAIL_IF(length >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "%s: too long a path", path);
    return STATUS_OK;
}

/* Returns a lock on the whole file, as open file description locks need it: `status` can ask about it without taking
 * it. */
static struct flock whole_file(short type) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

static enum status take_lock(struct session *session, struct err *err) {
    char path[PATH_SIZE];
    TRY(session_file(session, "log", "lock", "", path, err));
    session->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    FAIL_IF(session->lock < 0, err, STATUS_IO, "%s: cannot be opened: %s", path, strerror(errno));
    struct flock lock = whole_file(F_WRLCK);
    if (fcntl(session->lock, F_OFD_SETLK, &lock) == 0) return STATUS_OK;
    FAIL_IF(errno == EAGAIN || errno == EACCES, err, STATUS_BAD_STATE,
            "%s: another icestream is running this session; wait for it, or end it with Ctrl-C", session->path);
    FAIL(err, STATUS_IO, "%s: cannot be locked: %s", path, strerror(errno));
}

/* A lock that somebody else has keeps this process away, unless the ledgers are in PostgreSQL and the last launcher ran
 * on another host: then the lease decides. */
static enum status take_lock_or_lease(struct session *session, struct err *err) {
    struct err own = {0};
    enum status status = take_lock(session, &own);
    if (status == STATUS_BAD_STATE && session_leased_elsewhere(session)) status = STATUS_OK;
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    return session_take_lease(session, err);
}

enum status session_hold(struct session *session, struct err *err) {
    enum status status = take_lock_or_lease(session, err);
    if (status != STATUS_OK) session_end(session);
    return status;
}

bool session_is_running(const struct session *session) {
    char path[PATH_SIZE];
    if (session_file(session, "log", "lock", "", path, NULL) != STATUS_OK) return false;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC); /* a user who may only read asks, too */
    if (descriptor < 0) return false;
    struct flock lock = whole_file(F_WRLCK);
    bool running = fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(descriptor);
    return running || session_is_leased(session);
}

enum status session_find(const char *path, struct session *ret_session, struct err *err) {
    struct session session = {.lock = -1};
    TRY(absolute(path, session.path, err));
    char plan[PATH_SIZE];
    TRY(session_file(&session, "log", "plan.json", "", plan, err));
    FAIL_IF(!file_exists(plan), err, STATUS_NOT_FOUND, "%s is not a session: it has no log/plan.json", path);
    json_t *known = NULL;
    if (session_read_plan(&session, &known, NULL) == STATUS_OK) session_take_id(&session, known);
    json_decref(known);
    TRY(session_find_server(&session, err));
    *ret_session = session;
    return STATUS_OK;
}

bool session_keeps_ledger(const json_t *planned) {
    const char *program = json_string_value(json_object_get(planned, "program"));
    return program != NULL && session_is_ours(program);
}

bool session_is_ours(const char *program) {
    return strncmp(path_name(program), "icestream-", strlen("icestream-")) == 0;
}

bool session_passes_on(const json_t *planned) {
    return json_array_size(json_object_get(planned, "from")) == 0 ||
           !json_is_true(json_object_get(planned, "cumulative"));
}

enum status session_read_plan(const struct session *session, json_t **ret_plan, struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(session_file(session, "log", "plan.json", "", path, err));
    TRY(file_read_whole(path, PLAN_TEXT_MAX, &text, &length, err));
    json_t *plan = json_loadb(text, length, 0, NULL);
    if (!json_is_array(json_object_get(plan, "stages"))) {
        json_decref(plan);
        FAIL(err, STATUS_BAD_FORMAT, "%s: not the plan of a session", path);
    }
    json_int_t version = json_integer_value(json_object_get(plan, "v"));
    if (version > PLAN_VERSION) {
        json_decref(plan);
        FAIL(err, STATUS_UNSUPPORTED,
             "%s: the plan has version %" JSON_INTEGER_FORMAT ", and this program reads up to %d: a later icestream "
             "wrote it; use that one, or begin a new session in another folder",
             path, version, PLAN_VERSION);
    }
    *ret_plan = plan;
    return STATUS_OK;
}

enum status session_ledger(const struct session *session, const char *stage, bool read_only, struct ledger **ret_ledger,
                           struct err *err) {
    char path[PATH_SIZE];
    bool there = true;
    *ret_ledger = NULL;
    TRY(session_ledger_path(session, stage, read_only, path, err));
    if (!read_only && ledger_is_address(path)) TRY(session_check_server(session, false, err));
    /* Files know of no lease: neither the ledgers of programs of others, nor what says that the ledgers stand. */
    if (!read_only && session->lease != NULL) {
        TRY(session_await_lease(session, err));
        TRY(ledger_lease_check(session->lease, err));
    }
    /* To read in PostgreSQL says itself that nothing is there. */
    if (!read_only || !ledger_is_address(path)) TRY(ledger_exists(path, &there, err));
    if (!there) return STATUS_OK;
    double patience = session->patience > 0 ? session->patience : LEDGER_PATIENCE;
    enum status status = ledger_open_patient(path, stage, read_only, patience, ret_ledger, err);
    if (status == STATUS_OK) {
        status = ledger_check_owner(*ret_ledger, stage, session->id, err);
        if (status == STATUS_OK && !read_only) status = session_ledger_changes(session, err);
        if (status == STATUS_OK && !read_only && session->lease != NULL) ledger_fence(*ret_ledger, session->lease);
        if (status != STATUS_OK) ledger_close(ret_ledger);
        return status;
    }
    if (status != STATUS_NOT_FOUND) return status;
    if (err != NULL) *err = (struct err){0};
    *ret_ledger = NULL;
    return STATUS_OK;
}

/* ---- plan.json ---- */

/* Returns by how many seconds local time is ahead of UTC. Logs are in local time, ledgers in UTC. */
static int utc_offset(void) {
    time_t now = time(NULL);
    struct tm local;
    return localtime_r(&now, &local) != NULL ? (int)local.tm_gmtoff : 0;
}

static json_t *stage_plan(const struct plan *plan, size_t index) {
    const struct graph_stage *stage = &plan->graph->stages[index];
    json_t *from = json_array(), *instances = json_array();
    for (size_t k = 0; k < stage->from_count; k++)
        json_array_append_new(from, json_string(plan->graph->stages[stage->from[k]].section.name));
    for (size_t i = 0; i < plan->instance_count; i++)
        if (plan->instances[i].stage == index) json_array_append_new(instances, json_string(plan->instances[i].name));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:b, s:b}", "name", stage->section.name, "program", stage->program,
                     "kind", stage->kind, "from", from, "instances", instances, "cumulative", stage->cumulative,
                     "revisions", (int)json_is_true(json_object_get(stage->describe, "revisions")));
}

static enum status write_plan(const struct session *session, const struct plan *plan, struct err *err) {
    json_t *stages = json_array();
    for (size_t i = 0; i < plan->graph->stage_count; i++)
        json_array_append_new(stages, stage_plan(plan, i));
    json_t *root =
        json_pack("{s:i, s:s, s:i, s:i, s:i, s:b, s:o}", "v", PLAN_VERSION, "id", session->id, "run", session->run,
                  "pid", (int)getpid(), "utc_offset", utc_offset(), "separate", session->separate, "stages", stages);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the plan");
    char path[PATH_SIZE];
    enum status status = session_file(session, "log", "plan.json", "", path, err);
    if (status == STATUS_OK) status = file_write_whole(path, text, strlen(text), err);
    free(text);
    return status;
}

/* Goes on from the plan of the run before. Products stay where that run put them: a plan that does not say where is of
 * a version that kept all products of a stage in one folder. */
static enum status next_run(struct session *session, const struct graph *graph, struct err *err) {
    char path[PATH_SIZE];
    TRY(session_file(session, "log", "plan.json", "", path, err));
    session->run = 1;
    session->separate = graph->separate;
    if (!file_exists(path)) return STATUS_OK;
    json_t *old = NULL;
    TRY(session_read_plan(session, &old, err));
    session->run = (int)json_integer_value(json_object_get(old, "run")) + 1;
    session->separate = json_is_true(json_object_get(old, "separate"));
    session_take_id(session, old);
    json_decref(old);
    return STATUS_OK;
}

/* An earlier launcher may have been killed before it had synced what it made. */
static enum status sync_folders(const struct session *session, struct err *err) {
    char above[PATH_SIZE];
    TRY(path_folder(session->path, above, sizeof above, err));
    TRY(file_sync_folder(above, err));
    return file_sync_folder(session->path, err);
}

enum status session_begin(const char *path, const struct plan *plan, struct session *ret_session, struct err *err) {
    struct session session = {.lock = -1};
    char folder[PATH_SIZE];
    TRY(file_make_folders(path, 0777, err));
    TRY(absolute(path, session.path, err));
    FAIL_IF(!item_text_fits(session.path), err, STATUS_BAD_ARGUMENT,
            "the path of the session holds bytes that are not UTF-8, which its tables and orders cannot hold; choose "
            "another folder");
    TRY(session_file(&session, "log", "", "", folder, err));
    TRY(file_make_folders(folder, 0777, err));
    TRY(session_file(&session, "ledger", "", "", folder, err));
    TRY(file_make_folders(folder, 0777, err));
    TRY(session_may_write(&session, err));
    TRY(session_find_server(&session, err));
    TRY(next_run(&session, plan->graph, err)); /* its id leads to its lease */
    enum status status = take_lock_or_lease(&session, err);
    if (status == STATUS_OK) status = sync_folders(&session, err);
    if (status == STATUS_OK) status = session_find_server(&session, err);
    if (status == STATUS_OK) status = next_run(&session, plan->graph, err);
    if (status == STATUS_OK) status = session_keep_graph(&session, plan->graph, err);
    if (status == STATUS_OK) status = session_need_id(&session, plan->graph, err);
    if (status == STATUS_OK) status = session_use_server(&session, plan->graph, err);
    if (status == STATUS_OK) status = write_plan(&session, plan, err);
    if (status != STATUS_OK) {
        session_end(&session);
        return status;
    }
    *ret_session = session;
    return STATUS_OK;
}

void session_end(struct session *session) {
    ledger_lease_give_back(&session->lease);
    if (session->lock >= 0) close(session->lock);
    session->lock = -1;
}
