/* What `status` prints, and the tables that `run` ends with. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_STATUS_H
#define ICESTREAM_PIPELINES_LAUNCHER_STATUS_H

#include <stdio.h>

#include "pipelines/launcher/options.h"
#include "pipelines/launcher/tally.h"

/* Stage, seen, done, rejected, failed, in flight, and where the products lie. */
void status_table(const struct session *session, const struct tally *tally, FILE *out);
/* The rejected and failed items with their reasons; up to `limit` of each stage. */
void status_reasons(const struct tally *tally, size_t limit, FILE *out);
/* What an instance last said of itself, or NULL. */
json_t *status_heartbeat(const struct session *session, const char *instance);

#endif
