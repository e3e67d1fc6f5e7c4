/* One session that is served: its view, its parts, its files. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "pipelines/launcher/serve/events.h"
#include "pipelines/launcher/serve/http_server.h"
#include "pipelines/launcher/serve/serve.h"
#include "pipelines/launcher/view/view.h"

enum { TRIES = 100 };
static const double AWAY_LEAST = 3; /* s */

static int open_at(int folder, const char *path, int flags) {
    struct open_how how = {.flags = (unsigned)(flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int descriptor = -1;
    for (int i = 0; i < TRIES && descriptor < 0; i++) {
        descriptor = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
        if (descriptor < 0 && errno != EAGAIN) break; /* EAGAIN: a folder was renamed meanwhile */
    }
    return descriptor;
}

enum status serve_open_beneath(const struct serve *serve, const char *path, int *ret_descriptor, int64_t *ret_size,
                               struct err *err) {
    struct stat about;
    int descriptor = open_at(serve->folder_fd, path, 0);
    int reason = errno;
    FAIL_IF(descriptor < 0 && (reason == EMFILE || reason == ENFILE), err, STATUS_UNAVAILABLE, "%s: %s", path,
            strerror(reason));
    FAIL_IF(descriptor < 0 && reason == ENOSYS, err, STATUS_UNSUPPORTED,
            "%s: files are shown from Linux 5.6 on; this kernel is older, or its container forbids openat2", path);
    FAIL_IF(descriptor < 0, err, STATUS_NOT_FOUND, "%s: no such file in this session", path);
    if (fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(descriptor);
        FAIL(err, STATUS_NOT_FOUND, "%s: no file", path);
    }
    *ret_descriptor = descriptor;
    *ret_size = about.st_size;
    return STATUS_OK;
}

int serve_open_folder(const struct serve *serve, const char *path) {
    return open_at(serve->folder_fd, path, O_DIRECTORY);
}

enum status serve_web_file(const struct serve *serve, const char *name, char path[PATH_SIZE], struct err *err) {
    FAIL_IF(serve->read_only, err, STATUS_UNAVAILABLE, "%s/web cannot be written", serve->folder);
    int length = snprintf(path, PATH_SIZE, "%s/web/%s", serve->folder, name);
    FAIL_IF(length < 0 || length >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "%s: too long a path", serve->folder);
    /* A session that somebody has removed does not come back as an empty folder. */
    FAIL_IF(mkdirat(serve->folder_fd, "web", 0777) != 0 && errno != EEXIST, err, status_of_writing(errno),
            "%s/web cannot be made: %s", serve->folder, status_reason(errno));
    return STATUS_OK;
}

static void moment(struct serve *serve) {
    serve->now = clock_realtime();
    serve->now_monotonic = clock_monotonic();
}

static enum status open_view(struct serve *serve, const char *folder, struct err *err) {
    TRY(view_open(folder, &serve->view, err));
    view_hurry(serve->view, SERVE_PATIENCE);
    memcpy(serve->folder, view_session(serve->view)->path, sizeof serve->folder);
    serve->folder_fd = open(serve->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    FAIL_IF(serve->folder_fd < 0, err, STATUS_IO, "%s: cannot be opened: %s", serve->folder, strerror(errno));
    char path[PATH_SIZE];
    serve->read_only = serve_web_file(serve, "", path, NULL) != STATUS_OK || access(path, W_OK) != 0;
    return STATUS_OK;
}

/* Notes whether the last look has failed. Looks that follow closely read nothing, and cannot fail. */
static void note_look(struct serve *serve, enum status status, const struct err *err) {
    bool failed = status != STATUS_OK;
    if (failed && !serve->away) log_write(serve->log, LOG_WARN, "view", "%s", err->message);
    if (failed) serve->failed = serve->now_monotonic;
    serve->away = failed || (serve->away && serve->now_monotonic - serve->failed < AWAY_LEAST);
}

enum status serve_open(const char *folder, struct http_server *server, struct log *log, struct serve **ret_serve,
                       struct err *err) {
    struct serve *serve = calloc(1, sizeof *serve);
    FAIL_IF(serve == NULL, err, STATUS_NO_MEMORY, "no memory for the session");
    serve->folder_fd = -1;
    serve->server = server;
    serve->log = log;
    moment(serve);
    serve->begun = serve->now;
    serve->listened = serve->now_monotonic;
    enum status status = open_view(serve, folder, err);
    if (status == STATUS_OK) status = events_create(&serve->events, err);
    if (status != STATUS_OK) {
        serve_close(&serve);
        return status;
    }
    struct err own = {0};
    note_look(serve, view_poll(serve->view, serve->now, &serve->changed, &own), &own);
    for (const struct serve_part *part = serve_parts; part->name != NULL; part++)
        if (part->begin != NULL && part->begin(serve, &own) != STATUS_OK)
            log_write(log, LOG_WARN, "part", "%s: %s", part->name, own.message);
    *ret_serve = serve;
    return STATUS_OK;
}

void serve_close(struct serve **serve) {
    struct serve *s = *serve;
    if (s == NULL) return;
    if (s->events != NULL) {
        size_t count = 0;
        while (serve_parts[count].name != NULL)
            count++;
        /* Later parts use earlier ones: the last look of the alarms is at the GPUs of the api. */
        while (count-- > 0)
            if (serve_parts[count].end != NULL) serve_parts[count].end(s);
        if (s->server != NULL) http_server_forget(s->server, s->events);
    }
    view_close(&s->view);
    events_destroy(&s->events);
    file_close(&s->folder_fd);
    free(s);
    *serve = NULL;
}

void serve_tick(struct serve *serve) {
    struct err err = {0};
    moment(serve);
    unsigned changed = 0;
    enum status status = view_poll(serve->view, serve->now, &changed, &err);
    note_look(serve, status, &err);
    serve->changed = changed;
    for (const struct serve_part *part = serve_parts; part->name != NULL; part++)
        if (part->tick != NULL) part->tick(serve);
    serve->changed = 0;
}

bool serve_is_heard(struct serve *serve) {
    if (serve->server == NULL) return false;
    if (serve_listeners(serve) > 0) serve->listened = serve->now_monotonic;
    if (serve->now_monotonic - serve->listened <= SERVE_ALONE) return true;
    events_gap(serve->events);
    return false;
}

void serve_publish(struct serve *serve, const char *event, json_t *json) {
    if (!serve_is_heard(serve)) {
        json_decref(json);
        return;
    }
    events_publish(serve->events, event, json);
    http_server_wake(serve->server);
}

void serve_publish_text(struct serve *serve, const char *event, const char *data) {
    if (!serve_is_heard(serve)) return;
    events_publish_text(serve->events, event, data);
    http_server_wake(serve->server);
}

int serve_listeners(const struct serve *serve) {
    return serve->server != NULL ? http_server_streams(serve->server, serve->events) : 0;
}
