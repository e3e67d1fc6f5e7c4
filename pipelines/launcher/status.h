/* Prints what `status` shows, and the tables at the end of `run`. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_STATUS_H
#define ICESTREAM_PIPELINES_LAUNCHER_STATUS_H

#include <stdio.h>

#include "pipelines/launcher/options.h"
#include "pipelines/launcher/tally.h"

/* Prints a table: stage, seen, done, rejected, failed, in flight, and where the products are. */
void status_table(const struct session *session, const struct tally *tally, FILE *out);
/* Prints a table of the inputs where what was sent is not yet seen, acknowledged, or is lost; nothing if there are
 * none. */
void status_inputs(const struct tally *tally, FILE *out);
/* Prints why the counts do not add up, and what to do. reason: from tally_reconciles. */
void status_miscount(const struct session *session, const char *reason, FILE *out);
/* Prints the rejected and failed items with their reasons; up to `limit` for each stage. */
void status_reasons(const struct tally *tally, size_t limit, FILE *out);
/* status_heartbeat.c: returns the last heartbeat of an instance, or NULL. */
json_t *status_heartbeat(const struct session *session, const char *instance);
/* Returns whether the process of a heartbeat is there. One of another host cannot be asked; its launcher notes its end. */
bool status_lives(const json_t *beat);

/* status_hosts.c: returns the hosts of a session that runs, as a list of {"name", "address", "cores", "gpus", "there"}; an
 * empty one if it has but its own. Prints them, and who runs there. */
json_t *status_hosts_json(const struct session *session);
void status_hosts(const struct session *session, FILE *out);

/* status_changes.c: returns the history of the session's changes, oldest first, each with "in_force": whether the
 * processes of its stages work with it (null: nobody knows). Prints it as text. */
json_t *status_changes_json(const struct session *session, const json_t *plan);
void status_changes(const struct session *session, const json_t *plan, FILE *out);

#endif
