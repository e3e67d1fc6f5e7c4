/* The alarms as a part of `icestream serve`. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_SERVE_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_SERVE_H

#include "pipelines/launcher/serve/http.h"

/* A row of serve_parts.c. */
enum status alarms_serve_begin(struct serve *serve, struct err *err);
void alarms_serve_tick(struct serve *serve);
void alarms_serve_end(struct serve *serve);

http_handler alarms_get; /* GET /api/alarms */

#endif
