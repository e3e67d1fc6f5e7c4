/* The alarms of one session while `icestream serve` runs: takes samples, has them judged, keeps what happened in
 * SESSION/web/alarms.jsonl, publishes it to the page and tells the program of `session.notify`.
 *
 * A server that starts anew reads the file, so that it repeats neither what somebody was told nor a silence. Where the
 * session cannot be written, alarms are shown and neither kept nor told. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_H

#include <jansson.h>

#include "common/status.h"
#include "pipelines/launcher/alarms/judge.h"

struct alarms;
struct serve;
struct http_request;
struct http_answer;

/* The rows of serve_parts.c. */
enum status alarms_begin(struct serve *serve, struct err *err);
void alarms_tick(struct serve *serve);
void alarms_end(struct serve *serve);
/* GET /api/alarms: {"v": 1, "now": s, "alarms": [{"alarm", "subject", "severity", "state": "firing" | "silenced" |
 * "cleared", "text", "value", "since", "ended", "until", "fingerprint"}], newest first; "silences": [{"alarm", "subject",
 * "until"}]; "rules": [{"alarm", "severity", "threshold", "unit", "for", "summary", "off"}]; "notify": {"program",
 * "sent", "failed", "message"} or null}. Unknown times and values are null. */
enum status alarms_answer(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                          struct err *err);

/* Silences an alarm, or "all", until a time (s since 1970); a time that has passed takes the silence back. subject "":
 * every subject. who and why go into alarms.jsonl; either may be NULL. BAD_ARGUMENT: there is no such alarm.
 * UNAVAILABLE: nothing can be written to the session. */
enum status alarms_silence(struct serve *serve, const char *name, const char *subject, double until, const char *who,
                           const char *why, struct err *err);
/* Counts the alarms that fire and are not silenced, and names the worst severity among them. */
struct alarm_counts {
    int firing, silenced;
    enum alarm_severity worst; /* of those firing */
};
struct alarm_counts alarms_count(const struct serve *serve);
/* Returns the table, for the metrics; NULL without alarms. */
const struct alarm_table *alarms_table(const struct serve *serve);
/* Reads the last state of alarms of any session from its alarms.jsonl, for a list of sessions. 0 where there is none. */
struct alarm_counts alarms_count_file(const char *folder, double now);

#endif
