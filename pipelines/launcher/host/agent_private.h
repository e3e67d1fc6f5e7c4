/* Declares the agent for its files: agent.c (the channel, and what follows from what), agent_children.c (processes),
 * agent_orders.c (what the launcher orders), agent_state.c (what is reported). */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_HOST_AGENT_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_HOST_AGENT_PRIVATE_H

#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "common/edges/transport_control.h"
#include "common/edges/transport_keys.h"
#include "common/files.h"
#include "pipelines/launcher/host/agent.h"
#include "pipelines/launcher/host/host_message.h"
#include "pipelines/launcher/run/listeners.h"
#include "pipelines/launcher/run/place.h"

enum { AGENT_ERROR_SIZE = 512, AGENT_WORDS = 4 };

/* A process that the launcher has ordered. */
struct agent_child {
    int start; /* the launcher's number of it */
    pid_t pid; /* 0: it could not be started */
    bool ended;
    int wait_status;
    char name[128], program[PATH_SIZE], log[PATH_SIZE];
    char orders[PATH_SIZE], heartbeat[PATH_SIZE], current[PATH_SIZE]; /* in the agent's own folder */
    char **env;                                                       /* ends with NULL */
    char error[AGENT_ERROR_SIZE];
    int64_t beats, beats_told;
    struct timespec beat; /* time of the last heartbeat */
    bool writes;          /* a heartbeat can be written */
    json_t *renewed;      /* orders that have changed, and could not be written yet; NULL: none */
};

/* The content of SESSION/hosts/launcher.json. */
struct agent_launcher {
    char *text; /* the file; NULL: not read yet */
    char address[65], session_id[64];
    char public_key[TRANSPORT_KEY_SIZE], secret_key[TRANSPORT_KEY_SIZE];
    int port, run;
};

struct agent {
    const struct agent_options *options;
    char path[PATH_SIZE];   /* of launcher.json */
    char folder[PATH_SIZE]; /* its own, on this host */
    char peer[CONTROL_PEER_SIZE], address[65];
    struct agent_launcher launcher;
    struct control *control;       /* NULL: not connected */
    char member[HOST_MEMBER_SIZE]; /* "": not welcomed */
    int64_t heard;                 /* number of the last order that was carried out */
    struct listeners *listeners;
    json_t *record; /* of endpoints, a text that could not be written yet; NULL: none */
    struct agent_child **children;
    size_t count;
    int signals; /* a signalfd */
    sigset_t old_mask;
    bool changed; /* something is to be told at once */
    bool leaving, over, refused, told_alone;
    bool unwritten; /* a file could not be written, which was reported */
    double heard_at, told_at, looked_at, joined_at, kill_at, write_at;
};

/* agent_children.c */
/* Starts what an order says. What goes wrong is reported as the end of the process. */
enum status agent_start(struct agent *agent, const json_t *order, struct err *err);
struct agent_child *agent_find(const struct agent *agent, int start);
/* Writes the orders of a process into the agent's folder. */
enum status agent_write_orders(const struct agent *agent, const struct agent_child *child, const json_t *orders,
                               struct err *err);
/* Looks for processes that have ended, and for heartbeats. */
void agent_look(struct agent *agent);
void agent_signal_all(const struct agent *agent, int signal);
void agent_forget(struct agent *agent, int start);
/* Kills all processes, waits for their end, and forgets where the edges of their run have moved. */
void agent_kill_all(struct agent *agent);

/* agent_orders.c: takes one message of the launcher. */
void agent_take(struct agent *agent, const void *bytes, size_t length);
/* Writes the files that could not be written before; tries about once a second. */
void agent_write_late(struct agent *agent);
/* Writes a file of the agent's folder whole; nothing there outlives the host. */
enum status agent_write_file(const char *path, const char *text, struct err *err);
/* Names the record of endpoints. */
enum status agent_endpoints_path(const struct agent *agent, char path[PATH_SIZE], struct err *err);

/* agent_state.c: tell the launcher that this host is here; how its processes are. */
void agent_tell_join(struct agent *agent);
void agent_tell_state(struct agent *agent);

#endif
