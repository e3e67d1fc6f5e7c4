/* What libzmq tells of one socket's connections. */
#ifndef ICESTREAM_COMMON_EDGES_TRANSPORT_MONITOR_H
#define ICESTREAM_COMMON_EDGES_TRANSPORT_MONITOR_H

#include <stdbool.h>

/* Before the socket is bound or connected. number: no two monitors of a context have the same. NULL: errno says why. To
 * be closed with zmq_close after the socket. */
void *monitor_open(void *context, void *socket, int events, int number);
/* The next event (ZMQ_EVENT_…), or 0. Never blocks. */
int monitor_next(void *monitor);

#endif
