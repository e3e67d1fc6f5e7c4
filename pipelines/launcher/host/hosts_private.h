/* Declares hosts for their files: hosts.c (who is there), hosts_orders.c (orders that are sent), place_host.c (a host as a
 * place), hosts_files.c (what is written into the session). */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_HOST_HOSTS_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_HOST_HOSTS_PRIVATE_H

#include <stdint.h>

#include "common/edges/transport_control.h"
#include "common/files.h"
#include "pipelines/launcher/host/hosts.h"

enum { HOST_ERROR_SIZE = 512 };

/* A process on a host. */
struct remote {
    int start;  /* its number; 0: none */
    bool lost;  /* its host is */
    bool ended; /* and wait_status tells how */
    int wait_status;
    char error[HOST_ERROR_SIZE];                   /* of its log, when it has ended */
    int64_t beats;                                 /* heartbeats so far */
    bool writes;                                   /* its host can write heartbeats */
    char heartbeat[PATH_SIZE], current[PATH_SIZE]; /* where they go in the session */
};

struct order {
    int64_t number;
    char *text;
    size_t length;
};

struct host {
    struct hosts *hosts;
    struct process_place place;
    char name[HOST_NAME_SIZE], address[65], peer[CONTROL_PEER_SIZE], member[HOST_MEMBER_SIZE];
    int cores, gpus;
    bool there, leaving;
    bool answered; /* as this member */
    double heard_at, beat_at, sent_at;
    char rival[CONTROL_PEER_SIZE]; /* who wants to join by the same name; "": nobody */
    double rival_at;               /* since when */
    struct order *orders;          /* that no state has heard yet, by their numbers */
    size_t order_count, order_room;
    int64_t order_number;   /* of the last one */
    struct remote *remotes; /* one for each child of the supervisor */
};

/* The next start of a child, as hosts_prepare has described it. */
struct host_preparation {
    const int *gpus;
    size_t gpu_count;
    bool takes_descriptors;
};

struct hosts {
    struct hosts_settings settings;
    struct control *control;
    int port;
    char path[PATH_SIZE]; /* of launcher.json */
    char *text;           /* what this launcher wrote into it */
    char *endpoints;      /* the record that was passed on last; NULL: none */
    struct host **list;   /* each stays where it is */
    size_t count;
    int starts;  /* the number of the last process that was started */
    int members; /* and of the last member */
    double tended_at, file_at;
    struct host_preparation *preparations; /* one for each child */
};

/* hosts_orders.c */
/* Sends a message to a peer; what cannot be sent is lost. content: the reference is taken. */
void hosts_send(struct hosts *hosts, const char *peer, enum host_kind kind, json_t *content);
/* Gives an order to a host that is there. content: its members but number and member; the reference is taken. */
enum status hosts_order(struct host *host, const char *what, json_t *content, struct err *err);
/* Strikes orders off that a host has heard; sends the others again when they wait for too long. */
void hosts_orders_heard(struct host *host, int64_t number);
void hosts_orders_repeat(struct host *host);
void hosts_orders_clear(struct host *host);

/* place_host.c */
extern const struct place_operations hosts_place_operations;

/* hosts_files.c */
enum status hosts_write_launcher(struct hosts *hosts, struct err *err);
/* Returns whether launcher.json is another launcher's, which has taken the session over. */
bool hosts_are_anothers(const struct hosts *hosts);
/* Write what a process has sent into the session. What cannot be written is left out. */
void hosts_write_beat(const struct host *host, const struct remote *remote, const char *text);
void hosts_write_end(const struct remote *remote);
void hosts_write_current(const struct remote *remote, const json_t *process);

#endif
