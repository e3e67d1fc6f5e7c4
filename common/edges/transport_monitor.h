/* Reports what libzmq tells about the connections of one socket. */
#ifndef ICESTREAM_COMMON_EDGES_TRANSPORT_MONITOR_H
#define ICESTREAM_COMMON_EDGES_TRANSPORT_MONITOR_H

#include <stdbool.h>

/* Opens a monitor; call it before the socket is bound or connected. number: unique among the monitors of a context.
 * Returns NULL on failure, with the reason in errno. Close the monitor with monitor_close, or with zmq_close just before
 * the context is terminated. */
void *monitor_open(void *context, void *socket, int events, int number);
/* Ends the monitor of a socket that is not closed yet. A thread of libzmq that reports to a monitor that is gone waits
 * for ever, and all other sockets with it. */
void monitor_close(void *socket, void *monitor);
/* Returns the next event (ZMQ_EVENT_…), or 0. Never blocks. */
int monitor_next(void *monitor);

#endif
