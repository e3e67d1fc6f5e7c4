#include "common/edges/transport_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/edges/transport_monitor.h"
#include "common/memory.h"

enum { KEY_BYTES = 32, FRAME_MAX = 256, MONITORS_MAX = 512, EVENTS_AT_ONCE = 1000 };
enum {
    REFUSALS =
        ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
};

struct guard {
    void *context, *door; /* libzmq sends its questions to the door (ZAP, RFC 27) */
    pthread_t thread;
    bool running;
    unsigned char key[KEY_BYTES];
    void *monitors[MONITORS_MAX]; /* they report what libzmq tells about each socket */
    int monitor_count;
    long long refused;
};

/* The frames of a question: version, request, domain, address, routing id, mechanism, and with CURVE the peer's key. */
enum { FRAME_REQUEST = 1, FRAME_MECHANISM = 5, FRAME_KEY = 6, FRAME_COUNT = 7 };

struct question {
    char request[FRAME_MAX];
    size_t request_length;
    bool curve, key_is_ours;
};

static bool is_text(const void *bytes, size_t length, const char *text) {
    return length == strlen(text) && memcmp(bytes, text, length) == 0;
}

/* Returns false when the context is being terminated. */
static bool receive(const struct guard *guard, struct question *question) {
    char frame[FRAME_MAX];
    int more = 1;
    for (int i = 0; more; i++) {
        int length = zmq_recv(guard->door, frame, sizeof frame, 0);
        if (length < 0 && errno == EINTR) {
            i--;
            continue;
        }
        if (length < 0) return false;
        /* zmq_recv returns the whole length even when it cut the frame off. */
        size_t held = (size_t)length < sizeof frame ? (size_t)length : sizeof frame;
        if (i == FRAME_REQUEST) {
            memcpy(question->request, frame, held);
            question->request_length = held;
        } else if (i == FRAME_MECHANISM)
            question->curve = is_text(frame, held, "CURVE");
        else if (i == FRAME_KEY)
            question->key_is_ours = held == KEY_BYTES && memcmp(frame, guard->key, KEY_BYTES) == 0;
        size_t size = sizeof more;
        if (zmq_getsockopt(guard->door, ZMQ_RCVMORE, &more, &size) != 0) return false;
    }
    return true;
}

static bool reply(const struct guard *guard, const struct question *question) {
    bool in = question->curve && question->key_is_ours;
    return zmq_send(guard->door, "1.0", 3, ZMQ_SNDMORE) >= 0 &&
           zmq_send(guard->door, question->request, question->request_length, ZMQ_SNDMORE) >= 0 &&
           zmq_send(guard->door, in ? "200" : "400", 3, ZMQ_SNDMORE) >= 0 &&
           zmq_send(guard->door, in ? "OK" : "not of this session", in ? 2 : 19, ZMQ_SNDMORE) >= 0 &&
           zmq_send(guard->door, "", 0, ZMQ_SNDMORE) >= 0 && zmq_send(guard->door, "", 0, 0) >= 0;
}

static void *answer_all(void *argument) {
    const struct guard *guard = argument;
    for (struct question question = {0}; receive(guard, &question); question = (struct question){0})
        if (!reply(guard, &question)) break;
    int none = 0;
    zmq_setsockopt(guard->door, ZMQ_LINGER, &none, sizeof none);
    zmq_close(guard->door);
    return NULL;
}

static enum status begin(struct guard *guard, const char *public_key, struct err *err) {
    FAIL_IF(zmq_z85_decode(guard->key, public_key) == NULL, err, STATUS_BAD_ARGUMENT,
            "the session's public key is not of 40 characters of Z85");
    guard->door = zmq_socket(guard->context, ZMQ_REP);
    FAIL_IF(guard->door == NULL || zmq_bind(guard->door, "inproc://zeromq.zap.01") != 0, err, status_of_reading(errno),
            "the guard of the sockets cannot be set up: %s", zmq_strerror(errno));
    /* Signals belong to the threads of the program, not to this one. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&guard->thread, NULL, answer_all, guard);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    FAIL_IF(failed != 0, err, status_of_reading(failed), "a thread cannot be started: %s (too many processes?)",
            strerror(failed));
    guard->running = true;
    return STATUS_OK;
}

enum status guard_create(void *context, const char *public_key, struct guard **ret_guard, struct err *err) {
    struct guard *guard = calloc(1, sizeof *guard);
    FAIL_IF(guard == NULL, err, STATUS_NO_MEMORY, "no memory for the guard of the sockets");
    guard->context = context;
    enum status status = begin(guard, public_key, err);
    if (status != STATUS_OK) {
        if (guard->door != NULL) zmq_close(guard->door);
        free(guard);
        return status;
    }
    *ret_guard = guard;
    return STATUS_OK;
}

bool guard_socket(struct guard *guard, void *socket, int number) {
    if (guard->monitor_count == MONITORS_MAX) {
        errno = EMFILE;
        return false;
    }
    if (zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "icestream", 9) != 0) return false;
    void *monitor = monitor_open(guard->context, socket, REFUSALS, number);
    if (monitor != NULL) guard->monitors[guard->monitor_count++] = monitor;
    return monitor != NULL;
}

long long guard_refused(struct guard *guard) {
    for (int i = 0; i < guard->monitor_count; i++)
        for (int events = 0; events < EVENTS_AT_ONCE && monitor_next(guard->monitors[i]) != 0; events++)
            guard->refused++;
    return guard->refused;
}

void guard_close(struct guard *guard) {
    for (int i = 0; guard != NULL && i < guard->monitor_count; i++)
        zmq_close(guard->monitors[i]);
}

void guard_destroy(struct guard **guard) {
    if (*guard == NULL) return;
    if ((*guard)->running) pthread_join((*guard)->thread, NULL);
    mem_free(guard);
}
