/* Keeps the listening tcp sockets of the edges that leave the instances of one host. They are opened before an instance
 * starts and stay open over its restarts: its endpoints never change, no other program can take the ports, and who
 * connects while the instance is away waits in the kernel's queue. The launcher has one set for its own host, an agent
 * one for the host on which it runs.
 *
 * An instance whose program takes listening sockets (`--describe` says "descriptors": true) inherits them at the fork
 * under the numbers that its orders name. For other programs, which bind for themselves, the ports are only kept: nobody
 * gets one of them by chance, and who asks for it with SO_REUSEADDR, as libzmq does, may bind it. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_LISTENERS_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_LISTENERS_H

#include <jansson.h>
#include <stdbool.h>

#include "common/status.h"

enum { LISTENERS_ENDPOINT_SIZE = 32 }; /* room for "tcp://255.255.255.255:65535" */

struct listeners;

/* The sockets of one edge. The texts and descriptors stay as they are until the edge is closed. */
struct listener {
    char *edge;                                                       /* "watcher.0>lowpass-picker" */
    char data[LISTENERS_ENDPOINT_SIZE], ack[LISTENERS_ENDPOINT_SIZE]; /* endpoints: "tcp://192.168.1.5:41234" */
    int data_descriptor, ack_descriptor;                              /* close-on-exec */
    bool handed; /* the descriptors listen, and the instance takes them; false: they keep the ports for its program */
};

/* Makes an empty set. address: the one of this host to which others connect, IPv4, in numbers. */
enum status listeners_create(const char *address, struct listeners **ret_listeners, struct err *err);
/* Closes all sockets; accepts NULL. */
void listeners_destroy(struct listeners **listeners);

/* Opens the two sockets of an edge, unless it has them. edge: its name, which begins with the sending instance.
 * handed: the sender's program takes descriptors. The listener belongs to the set; a later call may move it, but not
 * what its pointers lead to. STATUS_UNAVAILABLE when ports or descriptors are short, STATUS_BAD_ARGUMENT when the
 * address is none of this host. */
enum status listeners_open(struct listeners *listeners, const char *edge, bool handed,
                           const struct listener **ret_listener, struct err *err);
/* Returns the sockets of an edge, or NULL; valid until the next call that opens or closes. */
const struct listener *listeners_find(const struct listeners *listeners, const char *edge);
/* Closes the sockets of all edges that leave an instance ("watcher.0"), which has moved to another host. */
void listeners_close(struct listeners *listeners, const char *instance);

/* Writes endpoints and descriptors into the orders of an instance (docs/protocol.md): each edge of "outputs" that the
 * set has gets "data" and "ack", and, if the sockets are handed over, "data_descriptor" and "ack_descriptor". */
enum status listeners_fill(const struct listeners *listeners, json_t *orders, struct err *err);
/* Lets the sockets of an instance's edges survive exec, and only these. Call it in the child, between fork and exec: it
 * uses nothing but fcntl. */
void listeners_hand_over(const struct listeners *listeners, const char *instance);

#endif
