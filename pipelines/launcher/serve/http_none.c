/* Stands in for the server where icestream was built without libmicrohttpd. */
#include <unistd.h>

#include "pipelines/launcher/serve/http_server.h"

bool http_server_is_there(void) {
    return false;
}

enum status http_server_start(int listener, struct http_server **ret_server, struct err *err) {
    (void)ret_server;
    close(listener);
    FAIL(
        err, STATUS_UNSUPPORTED,
        "this icestream was built without libmicrohttpd and cannot show a page: install libmicrohttpd-dev and build it "
        "again; `icestream status` and `icestream report` work without it");
}

void http_server_stop(struct http_server **server) {
    *server = NULL;
}

int http_server_descriptor(const struct http_server *server) {
    (void)server;
    return -1;
}

struct http_exchange *http_server_next(struct http_server *server) {
    (void)server;
    return NULL;
}

const struct http_raw *http_exchange_raw(const struct http_exchange *exchange) {
    (void)exchange;
    return NULL;
}

void http_server_answer(struct http_server *server, struct http_exchange *exchange, struct http_answer *answer,
                        struct events *events) {
    (void)server;
    (void)exchange;
    (void)events;
    http_answer_clear(answer);
}

void http_server_wake(struct http_server *server) {
    (void)server;
}

void http_server_forget(struct http_server *server, const struct events *events) {
    (void)server;
    (void)events;
}

void http_server_sweep(struct http_server *server, double now) {
    (void)server;
    (void)now;
}

int http_server_streams(struct http_server *server, const struct events *events) {
    (void)server;
    (void)events;
    return 0;
}
