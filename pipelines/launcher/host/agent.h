/* A host's own end of the control channel (`icestream host`): starts the processes that the launcher asks for, passes
 * signals on, and reports heartbeats and deaths. It decides nothing but this: when another launcher has taken over, or the
 * launcher has lost this host, its processes are killed; when it is told to leave, they are stopped and go on elsewhere;
 * when it has heard no launcher for a long time, it ends. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_HOST_AGENT_H
#define ICESTREAM_PIPELINES_LAUNCHER_HOST_AGENT_H

#include <stdbool.h>

#include "common/status.h"

/* All texts are borrowed. */
struct agent_options {
    const char *session;  /* the folder of the session */
    const char *name;     /* by which the session knows this host */
    const char *address;  /* where its edges listen; NULL: the address from which the launcher is reached */
    const char *revision; /* of this program */
    int cores, gpus;
    double alone;     /* s without a launcher before it ends */
    double stop_kill; /* s from SIGTERM to SIGKILL */
};

enum agent_outcome {
    AGENT_OVER,    /* the session is over */
    AGENT_LEFT,    /* a signal has ended it, and its processes before */
    AGENT_REFUSED, /* the launcher does not take it; the reason was shown */
    AGENT_ALONE    /* no launcher was heard for too long */
};

/* Joins the session, and works for it until it ends. Meanwhile SIGCHLD, SIGINT, SIGTERM and SIGHUP of this thread are
 * blocked; the last three make it leave. When it returns, no process of it is left. */
enum status agent_run(const struct agent_options *options, enum agent_outcome *ret_outcome, struct err *err);

#endif
