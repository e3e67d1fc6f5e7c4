/* The files and folders that the sources of a session leave out, for `icestream status`. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_STATUS_LEFT_OUT_H
#define ICESTREAM_PIPELINES_LAUNCHER_STATUS_LEFT_OUT_H

#include <jansson.h>
#include <stdio.h>

#include "pipelines/launcher/session.h"

/* Returns [{"stage", "path", "reason", "time"}] of all stages, the oldest first: the caller owns the list. A stage keeps
 * its own in SESSION/STAGE/left_out.json, at most the latest 1000. */
json_t *status_left_out(const struct session *session, const json_t *plan);
/* Prints how many each stage leaves out, if any. */
void status_left_out_text(const struct session *session, const json_t *plan, FILE *out);

#endif
