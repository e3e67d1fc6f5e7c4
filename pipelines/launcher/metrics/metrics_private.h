/* Declarations that the files of the metrics share. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_METRICS_METRICS_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_METRICS_METRICS_PRIVATE_H

#include "pipelines/launcher/metrics/metrics.h"
#include "pipelines/launcher/metrics/metrics_text.h"

/* metrics_build.c: returns the version of this program, with its commit. */
const char *metrics_build(void);
/* metrics_stages.c: what stages have done, from ledgers and heartbeats. */
void metrics_stages(const struct metrics_source *source, struct metrics_text *text);
/* metrics_instances.c: what each process says in its heartbeat. */
void metrics_instances(const struct metrics_source *source, struct metrics_text *text);
/* metrics_quality.c: exposures, rejections and maps. */
enum status metrics_quality(const struct metrics_source *source, struct metrics_text *text, struct err *err);
/* metrics_machine.c: disks, GPUs, alarms and the server itself. */
void metrics_machine(const struct metrics_source *source, struct metrics_text *text);

#endif
