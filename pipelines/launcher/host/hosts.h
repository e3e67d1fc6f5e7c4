/* The hosts that have joined a session, as its launcher sees them. Each is a place where the supervisor may start
 * processes (run/place.h). A host is lost when it has not been heard for HOST_LOST seconds; whatever ran there then does
 * not count any more. It may join again, and a host that comes later joins in the same way.
 *
 * SESSION/hosts/launcher.json (0600) tells hosts where the launcher listens, and the keys: whoever can read it may
 * join. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_HOST_HOSTS_H
#define ICESTREAM_PIPELINES_LAUNCHER_HOST_HOSTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "pipelines/launcher/host/host_message.h"
#include "pipelines/launcher/run/place.h"

struct hosts;

/* All texts are borrowed. */
struct hosts_settings {
    const char *session;    /* its folder */
    const char *session_id; /* "": none */
    int run;
    const char *revision; /* of this program; hosts have the same */
    const char *address;  /* of this host, as numbers; it listens there */
    int port;             /* 0: any that is free */
    const char *public_key, *secret_key;
    size_t children; /* of the supervisor */
    void *context;
    /* Shows a message to the user; id: a short word for its kind if it is kept among the warnings, else NULL. */
    void (*say)(void *context, const char *id, const char *text);
    /* Called when a host has joined or is lost. */
    void (*changed)(void *context);
    /* Called when a process on a host listens at other endpoints than was told before. */
    void (*listens)(void *context, size_t child, const char *edge, const char *data, const char *ack);
};

/* A host, as the launcher sees it. */
struct host_view {
    const char *name, *address;
    int cores, gpus;
    bool there;   /* it takes processes; false: lost, or about to leave */
    bool leaving; /* it has said that it leaves */
};

/* Listens, and writes launcher.json. */
enum status hosts_create(const struct hosts_settings *settings, struct hosts **ret_hosts, struct err *err);
/* Tells all hosts that the session is over, and removes launcher.json; accepts NULL. */
void hosts_destroy(struct hosts **hosts);
/* Takes what has come, sends what is due, and finds hosts that are lost. Call it several times a second. */
void hosts_tend(struct hosts *hosts);

/* Hosts are numbered from 0 in the order in which they first joined; a number stays with its name. */
size_t hosts_count(const struct hosts *hosts);
struct host_view hosts_view(const struct hosts *hosts, size_t host);
/* Returns the place of a host; it lasts as long as the hosts. */
const struct process_place *hosts_place(struct hosts *hosts, size_t host);
/* Tells what the next process with this number shall know besides its specification. gpus: of the host, borrowed until
 * the next start; takes_descriptors: its program takes listening sockets. */
void hosts_prepare(struct hosts *hosts, size_t child, const int *gpus, size_t gpu_count, bool takes_descriptors);
/* Passes an instance file on that was written anew while its process runs on a host; does nothing for others. */
enum status hosts_pass_orders(struct hosts *hosts, size_t child, const char *path, struct err *err);
/* Passes the record of endpoints on to all hosts, now and when they join. text: its content. */
void hosts_pass_endpoints(struct hosts *hosts, const char *text);
/* Returns how many peers without the session's keys were turned away. */
long long hosts_refused(struct hosts *hosts);

#endif
