#include "common/edges/transport_monitor.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

enum { FRAME_MAX = 256 };

void *monitor_open(void *context, void *socket, int events, int number) {
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "inproc://monitor.%d", number);
    if (zmq_socket_monitor(socket, endpoint, events) != 0) return NULL;
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    if (monitor != NULL && zmq_connect(monitor, endpoint) != 0) {
        zmq_close(monitor);
        return NULL;
    }
    return monitor;
}

void monitor_close(void *socket, void *monitor) {
    zmq_socket_monitor(socket, NULL, 0);
    zmq_close(monitor);
}

/* An event has two frames: its number (16 bits) and value (32 bits), then the address. */
int monitor_next(void *monitor) {
    char frame[FRAME_MAX], rest[FRAME_MAX];
    int more = 1, length = zmq_recv(monitor, frame, sizeof frame, ZMQ_DONTWAIT);
    if (length < 0) return 0;
    size_t size = sizeof more;
    while (zmq_getsockopt(monitor, ZMQ_RCVMORE, &more, &size) == 0 && more)
        if (zmq_recv(monitor, rest, sizeof rest, ZMQ_DONTWAIT) < 0) break;
    uint16_t event = 0;
    if (length >= (int)sizeof event) memcpy(&event, frame, sizeof event);
    return event;
}
