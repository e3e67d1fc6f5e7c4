/* The warnings of a session: those of the stages, from their ledgers, and the launcher's own, from a ledger of the name
 * "icestream" that the launcher makes with its first warning. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_WARNINGS_H
#define ICESTREAM_PIPELINES_LAUNCHER_WARNINGS_H

#include <jansson.h>
#include <stdio.h>

#include "pipelines/launcher/session.h"

#define WARNINGS_LAUNCHER "icestream"

/* Returns [{"stage", "id", "message", "count", "first", "last"}], stage by stage and the launcher's last. Times are s
 * since 1970. */
enum status warnings_read(const struct session *session, const json_t *plan, json_t **ret_warnings, struct err *err);
/* Prints "STAGE: warning: MESSAGE (ID, 12 times)" for each. */
void warnings_list(const json_t *warnings, FILE *out);
/* Adds one warning of the launcher. */
enum status warnings_add(const struct session *session, const char *id, const char *message, struct err *err);

#endif
