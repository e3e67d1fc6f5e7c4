/* Handlers of the server itself: the page's files, events, health. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_SERVE_HANDLERS_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_SERVE_HANDLERS_H

#include "pipelines/launcher/serve/http.h"

http_handler serve_page;   /* page.c: "/" and the files beside it */
http_handler serve_events; /* events.c: /api/events */
http_handler serve_health; /* health.c: /healthz: "ok" while the house thread lives */
http_handler serve_ready;  /* health.c: /readyz: 200 while the run lives, its ledgers add up and no alarm is critical */
http_handler serve_sessions; /* facility_handlers.c: /api/sessions of `serve --sessions` */

#endif
