/* Alarms as JSON: for the page, and for programs that take Alertmanager's webhook. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_JSON_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_JSON_H

#include <jansson.h>

#include "pipelines/launcher/alarms/judge.h"

/* Returns one alarm as /api/alarms has it (alarms.h); NULL: no memory. */
json_t *alarm_json(const struct alarm *alarm, double now);
/* Returns the lists "alarms" (newest first), "silences" and "rules". */
json_t *alarms_json(const struct alarm_table *table, const struct alarm_settings *settings, double now);
/* Returns the alarms that are due as the body of Alertmanager's webhook, version 4: "status" is firing as long as one of
 * them fires. session: its folder. Times are RFC 3339 in UTC. */
json_t *alarms_webhook(const struct alarm_table *table, const char *session);

#endif
