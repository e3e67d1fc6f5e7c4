/* The report as a part of `icestream serve` (serve/serve.h): SESSION/web/report.html and what lies beside it, every ten
 * minutes while there is something new, and when the session ends. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_REPORT_REPORT_SERVE_H
#define ICESTREAM_PIPELINES_LAUNCHER_REPORT_REPORT_SERVE_H

#include "common/status.h"

struct serve;
struct report_keeper;

/* The rows of serve_parts.c. */
enum status report_serve_begin(struct serve *serve, struct err *err);
void report_serve_tick(struct serve *serve);
void report_serve_end(struct serve *serve);

#endif
