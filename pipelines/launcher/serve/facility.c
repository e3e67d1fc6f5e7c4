#include "pipelines/launcher/serve/facility.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/alarms/alarms.h"
#include "pipelines/launcher/view/view.h"

enum { OPEN_MAX_SESSIONS = 32 };
static const double KEPT = 120, LIST_EVERY = 2; /* s */

struct open_session {
    char *name;
    struct serve *serve;
    double used; /* of clock_monotonic */
};

struct facility {
    char folder[PATH_SIZE];
    struct http_server *server;
    struct log *log;
    struct open_session open[OPEN_MAX_SESSIONS];
    size_t count;
    json_t *listed; /* the last list */
    double listed_at;
};

enum status facility_open(const char *folder, struct http_server *server, struct log *log,
                          struct facility **ret_facility, struct err *err) {
    char *whole = realpath(folder, NULL);
    FAIL_IF(whole == NULL, err, STATUS_NOT_FOUND, "%s: %s", folder, strerror(errno));
    struct facility *facility = calloc(1, sizeof *facility);
    bool well = facility != NULL && strlen(whole) < sizeof facility->folder && file_is_folder(whole);
    if (well) strcpy(facility->folder, whole);
    free(whole);
    if (!well) {
        free(facility);
        FAIL(err, STATUS_BAD_ARGUMENT, "--sessions %s: no folder", folder);
    }
    facility->server = server;
    facility->log = log;
    facility->listed_at = -LIST_EVERY;
    *ret_facility = facility;
    return STATUS_OK;
}

static void drop(struct facility *facility, size_t index) {
    serve_close(&facility->open[index].serve);
    free(facility->open[index].name);
    facility->open[index] = facility->open[--facility->count];
}

void facility_close(struct facility **facility) {
    if (*facility == NULL) return;
    while ((*facility)->count > 0)
        drop(*facility, (*facility)->count - 1);
    json_decref((*facility)->listed);
    free(*facility);
    *facility = NULL;
}

void facility_tick(struct facility *facility) {
    double now = clock_monotonic();
    for (size_t i = facility->count; i-- > 0;) {
        struct open_session *session = &facility->open[i];
        serve_tick(session->serve);
        if (serve_listeners(session->serve) > 0) session->used = now;
        if (now - session->used > KEPT) drop(facility, i);
    }
}

/* Returns whether the name is that of a folder with a session, and its path. */
static bool session_path(const struct facility *facility, const char *name, char path[PATH_SIZE]) {
    char plan[PATH_SIZE];
    return name[0] != '.' && name[0] != '\0' && strchr(name, '/') == NULL &&
           path_join(facility->folder, name, path, PATH_SIZE, NULL) == STATUS_OK &&
           path_join(path, "log/plan.json", plan, sizeof plan, NULL) == STATUS_OK && file_exists(plan);
}

enum status facility_session(struct facility *facility, const char *name, struct serve **ret_serve, struct err *err) {
    char path[PATH_SIZE];
    for (size_t i = 0; i < facility->count; i++)
        if (strcmp(facility->open[i].name, name) == 0) {
            facility->open[i].used = clock_monotonic();
            *ret_serve = facility->open[i].serve;
            return STATUS_OK;
        }
    FAIL_IF(!session_path(facility, name, path), err, STATUS_NOT_FOUND, "there is no such session");
    if (facility->count == OPEN_MAX_SESSIONS) { /* the one that nobody has looked at for the longest time makes room */
        size_t oldest = 0;
        for (size_t i = 1; i < facility->count; i++)
            if (facility->open[i].used < facility->open[oldest].used) oldest = i;
        drop(facility, oldest);
    }
    struct open_session session = {.name = strdup(name), .used = clock_monotonic()};
    FAIL_IF(session.name == NULL, err, STATUS_NO_MEMORY, "no memory for the session");
    enum status status = serve_open(path, facility->server, facility->log, &session.serve, err);
    if (status != STATUS_OK) {
        free(session.name);
        return status;
    }
    session.serve->one_of_many = true;
    facility->open[facility->count++] = session;
    *ret_serve = session.serve;
    return STATUS_OK;
}

/* ---- The list ---- */

static json_t *stage_counts(const struct tally *tally) {
    json_t *stages = json_array();
    for (size_t i = 0; i < tally->count; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        json_array_append_new(stages,
                              json_pack("{s:s, s:I, s:I, s:I, s:I}", "stage", stage->name, "in_flight",
                                        (json_int_t)stage->in_flight, "done", (json_int_t)stage->done, "rejected",
                                        (json_int_t)stage->rejected, "failed", (json_int_t)stage->failed));
    }
    return stages;
}

/* Describes one session as its ledgers tell; NULL: it cannot be read. */
static json_t *describe(const char *path, const char *name) {
    struct view *view = NULL;
    unsigned changed;
    json_t *json = NULL;
    if (view_open(path, &view, NULL) != STATUS_OK) return NULL;
    if (view_poll(view, clock_realtime(), &changed, NULL) == STATUS_OK || view_tally(view) != NULL) {
        double last = view_last_time(view);
        json = json_pack("{s:s, s:s, s:i, s:o, s:b, s:o, s:o}", "name", name, "state",
                         view_state_name(view_state(view)), "run", view_run(view), "changed",
                         last == last ? json_real(last) : json_null(), "adds_up", view_adds_up(view, NULL), "stages",
                         stage_counts(view_tally(view)), "alarms", alarms_of_folder(path, clock_realtime()));
    }
    view_close(&view);
    return json;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

enum status facility_list(struct facility *facility, json_t **ret_json, struct err *err) {
    double now = clock_monotonic();
    if (facility->listed == NULL || now - facility->listed_at > LIST_EVERY) {
        struct dirent **entries = NULL;
        int count = scandir(facility->folder, &entries, NULL, by_name);
        FAIL_IF(count < 0, err, STATUS_UNAVAILABLE, "%s: %s", facility->folder, strerror(errno));
        json_t *sessions = json_array();
        for (int i = 0; i < count; i++) {
            char path[PATH_SIZE];
            /* JSON holds UTF-8 alone; a folder of another name is no address either. */
            json_t *session =
                session_path(facility, entries[i]->d_name, path) ? describe(path, entries[i]->d_name) : NULL;
            if (session != NULL) json_array_append_new(sessions, session);
            free(entries[i]);
        }
        free(entries);
        json_decref(facility->listed);
        facility->listed =
            json_pack("{s:i, s:s, s:o}", "v", 1, "folder", path_name(facility->folder), "sessions", sessions);
        facility->listed_at = clock_monotonic();
    }
    FAIL_IF(facility->listed == NULL, err, STATUS_NO_MEMORY, "no memory for the list of sessions");
    *ret_json = json_incref(facility->listed);
    return STATUS_OK;
}
