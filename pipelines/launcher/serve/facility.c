#include "pipelines/launcher/serve/facility.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/serve/facility_list.h"

enum { OPEN_MAX_SESSIONS = 32 };
static const double KEPT = 120; /* s */

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
    struct facility_list *list;
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
    enum status status = facility_list_create(facility->folder, &facility->list, err);
    if (status != STATUS_OK) {
        free(facility);
        return status;
    }
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
    facility_list_destroy(&(*facility)->list);
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
    facility_list_tick(facility->list);
}

/* Returns whether the folder at this path is another one than that which was opened. */
static bool is_replaced(const struct serve *serve, const char *path) {
    struct stat opened, now;
    return fstat(serve->folder_fd, &opened) != 0 || stat(path, &now) != 0 || opened.st_ino != now.st_ino ||
           opened.st_dev != now.st_dev;
}

enum status facility_session(struct facility *facility, const char *name, struct serve **ret_serve, struct err *err) {
    char path[PATH_SIZE];
    bool there = facility_path(facility->folder, name, path);
    for (size_t i = 0; i < facility->count; i++) {
        struct open_session *session = &facility->open[i];
        if (strcmp(session->name, name) != 0) continue;
        if (!there || is_replaced(session->serve, path)) {
            drop(facility, i);
            break;
        }
        session->used = clock_monotonic();
        *ret_serve = session->serve;
        return STATUS_OK;
    }
    FAIL_IF(!there, err, STATUS_NOT_FOUND, "there is no such session");
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

enum status facility_sessions(struct facility *facility, json_t **ret_json, struct err *err) {
    return facility_list_json(facility->list, ret_json, err);
}
