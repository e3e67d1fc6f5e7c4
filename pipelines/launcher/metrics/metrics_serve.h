/* GET /metrics of `icestream serve`. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_METRICS_METRICS_SERVE_H
#define ICESTREAM_PIPELINES_LAUNCHER_METRICS_METRICS_SERVE_H

#include "pipelines/launcher/serve/http.h"

http_handler metrics_get;

#endif
