/* The server as a whole: one session, or all sessions of a folder, behind one socket. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_HUB_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_HUB_H

#include "pipelines/launcher/serve/facility.h"
#include "pipelines/launcher/serve/guard.h"
#include "pipelines/launcher/serve/http_server.h"
#include "pipelines/launcher/serve/serve.h"

struct hub {
    struct http_server *server;
    struct guard guard;
    struct serve *serve;       /* the session; NULL: a facility */
    struct facility *facility; /* all sessions of a folder; NULL: one session */
    struct log *log;
};

/* dispatch.c: answers a request. ret_delay: s to wait before it is sent. ret_events: for a stream. */
void hub_dispatch(struct hub *hub, const struct http_raw *raw, struct http_answer *answer, struct events **ret_events,
                  double *ret_delay);
/* hub.c: answers requests and looks after the sessions until a signal comes (SIGINT, SIGTERM, SIGHUP; blocked by the
 * caller), or until `ends` says so. */
enum status hub_run(struct hub *hub, bool (*ends)(void *context), void *context, struct err *err);

#endif
