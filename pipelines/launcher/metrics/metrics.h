/* Writes the metrics of a session in Prometheus' text format, for `/metrics` and `icestream metrics`.
 *
 * Counts of the ledgers are gauges, because `icestream retry` lowers these numbers; counters come from heartbeats and
 * fall only when a process starts again. Each sample carries the label `session`. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_METRICS_METRICS_H
#define ICESTREAM_PIPELINES_LAUNCHER_METRICS_METRICS_H

#include <jansson.h>
#include <stdio.h>

#include "common/status.h"

struct view;
struct alarm_table;
struct gpu;

/* The content type of /metrics. */
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* State of the server that the session does not hold. */
struct metrics_server {
    double cpu, resident; /* s, bytes */
    long long requests;   /* answered so far */
    int listeners;
};

struct metrics_source {
    struct view *view;                   /* polled */
    double now;                          /* s since 1970 */
    const struct alarm_table *alarms;    /* NULL: not known */
    const struct metrics_server *server; /* NULL: no server writes this */
    const json_t *restarts;              /* {"refiner.0": 1}; NULL: not known */
    const struct gpu *gpus;              /* of this machine */
    size_t gpu_count;
};

/* Writes all families that the session has. Fails when the stream fails, or without memory. */
enum status metrics_write(const struct metrics_source *source, FILE *out, struct err *err);

#endif
