/* The house thread: answers what waits, one after the other, and looks after the sessions four times a second. */
#include "pipelines/launcher/serve/hub.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"

/* Answers that are sent later. */
struct late {
    struct {
        struct http_exchange *exchange;
        struct http_answer answer;
        double due; /* of clock_monotonic */
    } rows[HTTP_CONNECTIONS];
    size_t count;
};

static void send_late(struct hub *hub, struct late *late, double now) {
    size_t kept = 0;
    for (size_t i = 0; i < late->count; i++)
        if (late->rows[i].due <= now)
            http_server_answer(hub->server, late->rows[i].exchange, &late->rows[i].answer, NULL);
        else
            late->rows[kept++] = late->rows[i];
    late->count = kept;
}

static void answer(struct hub *hub, struct http_exchange *exchange, struct late *late) {
    struct http_answer answer = {0};
    struct events *events;
    double delay;
    hub_dispatch(hub, http_exchange_raw(exchange), &answer, &events, &delay);
    if (delay <= 0 || late->count == HTTP_CONNECTIONS) {
        http_server_answer(hub->server, exchange, &answer, events);
        return;
    }
    late->rows[late->count].exchange = exchange;
    late->rows[late->count].answer = answer;
    late->rows[late->count++].due = clock_monotonic() + delay;
}

static void tick(struct hub *hub) {
    if (hub->serve != NULL) serve_tick(hub->serve);
    if (hub->facility != NULL) facility_tick(hub->facility);
    http_server_sweep(hub->server, clock_monotonic());
}

enum status hub_run(struct hub *hub, bool (*ends)(void *context), void *context, struct err *err) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    _cleanup_(file_close) int signalled = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    FAIL_IF(signalled < 0, err, STATUS_UNAVAILABLE, "no descriptor for signals: %s", strerror(errno));
    enum status status = STATUS_OK;
    struct late late = {.count = 0};
    double next = clock_monotonic();
    for (bool ended = false; !ended;) {
        struct pollfd ready[] = {{.fd = http_server_descriptor(hub->server), .events = POLLIN},
                                 {.fd = signalled, .events = POLLIN}};
        double now = clock_monotonic(), wait = next - now;
        int milliseconds = wait > 0 ? (int)(wait * 1000) + 1 : 0;
        if (poll(ready, 2, milliseconds) < 0 && errno != EINTR) {
            status = err_set(err, STATUS_IO, __FILE__, __LINE__, "requests cannot be waited for: %s", strerror(errno));
            break;
        }
        struct http_exchange *exchange = http_server_next(hub->server);
        if (exchange != NULL) answer(hub, exchange, &late);
        now = clock_monotonic();
        send_late(hub, &late, now);
        if (now >= next) {
            tick(hub);
            next = clock_monotonic() + SERVE_TICK_MS / 1000.0;
        }
        ended = (ready[1].revents & POLLIN) != 0 || (ends != NULL && ends(context));
    }
    send_late(hub, &late, 1e300);
    return status;
}
