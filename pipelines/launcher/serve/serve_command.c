/* `icestream serve`: shows a session, or all sessions of a folder, as a page. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/serve/hub.h"
#include "pipelines/launcher/serve/listen.h"
#include "pipelines/launcher/session.h"

static const double LINGER = 600; /* s that a server of a run stays after its launcher is gone */

struct place {
    struct session session; /* .path "": a facility */
    char folder[PATH_SIZE]; /* of the session or the facility */
    char web[PATH_SIZE];    /* where token and socket lie; "": nothing can be written */
    char socket[PATH_SIZE]; /* the Unix socket; "": none */
    char address[300];      /* HOST:PORT; "": none */
    int listener;
    bool made; /* the socket's file is ours */
};

/* Finds what is to be shown, and where the server may keep its files. */
static enum status find_place(const struct options *options, struct place *place, struct err *err) {
    bool one = options->session != NULL;
    FAIL_IF(one == (options->sessions != NULL), err, STATUS_BAD_ARGUMENT,
            "--session DIR or --sessions DIR is required, one of them");
    if (one) {
        TRY(session_find(options->session, &place->session, err));
        memcpy(place->folder, place->session.path, sizeof place->folder);
        TRY(path_join(place->folder, "web", place->web, sizeof place->web, err));
    } else {
        char *whole = realpath(options->sessions, NULL);
        bool well = whole != NULL && file_is_folder(whole) && strlen(whole) < sizeof place->folder;
        if (well) strcpy(place->folder, whole);
        free(whole);
        FAIL_IF(!well, err, STATUS_NOT_FOUND, "--sessions %s: no such folder", options->sessions);
        TRY(path_join(place->folder, ".icestream-web", place->web, sizeof place->web, err));
    }
    if (file_make_folders(place->web, one ? 0777 : 0700, NULL) != STATUS_OK || access(place->web, W_OK) != 0)
        place->web[0] = '\0';
    return STATUS_OK;
}

static enum status take_token(const struct place *place, const char *name, bool anew, char token[TOKEN_SIZE],
                              struct err *err) {
    char path[PATH_SIZE];
    if (place->web[0] == '\0') return token_make(token, err);
    TRY(path_join(place->web, name, path, sizeof path, err));
    return token_load(path, anew, token, err);
}

/* Returns the port of the server before, so that open pages find this one; 0: none. */
static int last_port(const struct place *place) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    if (place->web[0] == '\0' || path_join(place->web, "port", path, sizeof path, NULL) != STATUS_OK ||
        file_read_whole(path, 16, &text, NULL, NULL) != STATUS_OK)
        return 0;
    int port = atoi(text);
    return port > 0 && port < 65536 ? port : 0;
}

static enum status open_listener(const struct options *options, struct place *place, struct err *err) {
    if (options->listen != NULL) {
        char name[256], path[PATH_SIZE], text[16];
        int port;
        TRY(listen_name(options->listen, name, sizeof name, err));
        TRY(listen_tcp(options->listen, options->behind_proxy, last_port(place), &place->listener, &port, err));
        snprintf(place->address, sizeof place->address, "%s:%d", name, port);
        snprintf(text, sizeof text, "%d\n", port);
        /* Without it the next server takes another port. */
        if (place->web[0] != '\0' && path_join(place->web, "port", path, sizeof path, NULL) == STATUS_OK)
            (void)file_write_whole(path, text, strlen(text), NULL);
        return STATUS_OK;
    }
    FAIL_IF(options->socket == NULL && place->web[0] == '\0', err, STATUS_BAD_ARGUMENT,
            "nothing can be written in %s: give --listen 127.0.0.1:0, or --socket PATH elsewhere", place->folder);
    if (options->socket == NULL)
        TRY(path_join(place->web, "ui.sock", place->socket, sizeof place->socket, err));
    else
        snprintf(place->socket, sizeof place->socket, "%s", options->socket);
    TRY(listen_unix(place->socket, &place->listener, err));
    place->made = true;
    char *whole = realpath(place->socket, NULL);
    if (whole != NULL && strlen(whole) < sizeof place->socket) strcpy(place->socket, whole);
    free(whole);
    return STATUS_OK;
}

static void print_address(const struct place *place, const char *what, const char *token) {
    char host[256] = "HOST";
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "HOST");
    if (place->address[0] != '\0') {
        const char *port = strrchr(place->address, ':') + 1;
        printf("%s: http://%s/?token=%s\n", what, place->address, token);
        printf("  from another machine, first: ssh -L %s:%s %s\n", port, place->address, host);
    } else {
        printf("%s: http://localhost:8080/?token=%s\n", what, token);
        printf("  first, on the machine with the browser: ssh -L 8080:%s %s\n", place->socket, host);
    }
}

static sigset_t ending_signals(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    return signals;
}

struct linger {
    const struct session *session;
    double seen; /* of clock_monotonic: when the launcher was last there */
    double next;
};

/* Returns whether the run for which the server was started has been over for long. */
static bool is_over(void *context) {
    struct linger *linger = context;
    double now = clock_monotonic();
    if (now < linger->next) return false;
    linger->next = now + 2;
    if (session_is_running(linger->session)) linger->seen = now;
    return now - linger->seen > LINGER;
}

static enum status prepare_guard(const struct options *options, const struct place *place, struct guard *guard,
                                 struct err *err) {
    const char *name = place->session.id[0] != '\0' ? place->session.id : place->folder;
    TRY(take_token(place, "token", options->new_token, guard->token, err));
    if (options->token_view) TRY(take_token(place, "token.view", options->new_token, guard->view_token, err));
    snprintf(guard->cookie, sizeof guard->cookie, "icestream_%016llx", (unsigned long long)text_hash(name));
    guard->hosts = options->hosts;
    guard->host_count = options->host_count;
    guard->metrics_open = options->metrics_open && options->listen != NULL && !options->behind_proxy;
    return STATUS_OK;
}

static void print_addresses(const struct options *options, const struct place *place, const struct guard *guard) {
    print_address(place, options->sessions != NULL ? "the sessions" : "the session", guard->token);
    if (options->token_view) print_address(place, "to look only", guard->view_token);
    fflush(stdout);
    if (!options->with_run) return;
    /* The launcher reads the address to the end of the stream. */
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDOUT_FILENO);
    file_close(&nothing);
}

/* Waits until the socket is free that another server of this session has: the one of a run whose launcher was killed.
 * CANCELLED: a signal came before. */
static enum status wait_for_socket(const struct options *options, struct place *place, struct err *err) {
    const struct timespec pause = {.tv_sec = 2};
    sigset_t signals = ending_signals();
    for (;;) {
        enum status status = open_listener(options, place, err);
        if (status != STATUS_BAD_STATE || !options->with_run) return status;
        if (sigtimedwait(&signals, NULL, &pause) > 0) return STATUS_CANCELLED;
    }
}

static enum status serve(const struct options *options, struct place *place, struct hub *hub, struct err *err) {
    TRY(prepare_guard(options, place, &hub->guard, err));
    enum status status = open_listener(options, place, err);
    bool taken = status == STATUS_BAD_STATE && options->with_run && place->socket[0] != '\0';
    if (taken) {
        print_addresses(options, place, &hub->guard);
        status = wait_for_socket(options, place, err);
        if (status == STATUS_CANCELLED) return STATUS_OK;
    }
    TRY(status);
    int listener = place->listener;
    place->listener = -1;
    TRY(http_server_start(listener, &hub->server, err));
    if (!taken) print_addresses(options, place, &hub->guard);
    if (options->sessions != NULL)
        TRY(facility_open(place->folder, hub->server, hub->log, &hub->facility, err));
    else
        TRY(serve_open(place->folder, hub->server, hub->log, &hub->serve, err));
    struct linger linger = {.session = &place->session, .seen = clock_monotonic()};
    return hub_run(hub, options->with_run ? is_over : NULL, &linger, err);
}

/* Signals come through a descriptor, in every thread. */
static void block_signals(void) {
    sigset_t signals = ending_signals();
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int command_serve(const struct options *options) {
    struct place place = {.listener = -1};
    struct hub hub = {0};
    struct err err = {0};
    enum status status = STATUS_OK;
    block_signals();
    if (!http_server_is_there()) {
        status = http_server_start(-1, &hub.server, &err);
    } else {
        status = find_place(options, &place, &err);
        if (status == STATUS_OK) status = log_open(NULL, "serve", LOG_WARN, &hub.log, &err);
        if (status == STATUS_OK) status = serve(options, &place, &hub, &err);
    }
    serve_close(&hub.serve);
    facility_close(&hub.facility);
    http_server_stop(&hub.server);
    file_close(&place.listener);
    if (place.made) unlink(place.socket);
    log_close(&hub.log);
    explicit_bzero(&hub.guard, sizeof hub.guard);
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT || status == STATUS_BAD_STATE ? EXIT_USAGE
                                                                                                     : EXIT_ERROR;
}
