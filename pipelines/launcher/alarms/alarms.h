/* The alarms of one session while `icestream serve` runs: takes samples, has them judged, keeps what happened in
 * SESSION/web/alarms.jsonl, publishes it to the page and tells the program of `session.notify`.
 *
 * A server that starts anew reads the file, so that it repeats neither what somebody was told nor a silence. One server
 * of a session keeps and tells (it holds web/alarms.lock); others only show, and so does one that cannot write. A session
 * that nobody has run since the server began shows its last alarms as the file has them. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_ALARMS_H

#include <jansson.h>
#include <stdio.h>

#include "pipelines/launcher/alarms/judge.h"

struct alarms;
struct gpu;
struct view;

/* Inputs and outlets of a session's alarms. The strings and the view are borrowed. */
struct alarms_options {
    const char *folder; /* of the session, absolute */
    struct view *view;
    bool read_only; /* nothing is written, nobody is told */
    void *context;
    void (*publish)(void *context, json_t *alarm); /* one alarm that fired, cleared or was silenced; steals it */
    /* Returns how many GPUs the machine has; *ret_list is borrowed until the next call. NULL: none are looked at. */
    size_t (*gpus)(void *context, const struct gpu **ret_list);
    /* Describe a refiner's newest map: efficiency of the directions; beam tilt (mrad). NaN: not known. May be NULL. */
    double (*efficiency)(void *context, const char *stage);
    double (*beam_tilt)(void *context, const char *stage);
};
enum status alarms_open(const struct alarms_options *options, struct alarms **ret_alarms, struct err *err);
/* Tells what is still to be told, which takes 20 s at most, and frees everything; accepts NULL. */
void alarms_close(struct alarms **alarms);
/* Does what is due: a sample every second, a judgement, the program that tells. Call it a few times a second, after
 * view_poll. now: s since 1970; monotonic: s of clock_monotonic. */
void alarms_step(struct alarms *alarms, double now, double monotonic);

/* Shows alarms and neither keeps nor tells them, from now on: another server of the session does. */
void alarms_show_only(struct alarms *alarms, bool show_only);

/* Returns what /api/alarms answers: {"v": 1, "now": s, "alarms": [{"alarm", "subject", "severity", "state": "firing" |
 * "silenced" | "cleared", "text", "value", "since", "ended", "until", "fingerprint"}], newest first; "silences":
 * [{"alarm", "subject", "until"}]; "rules": [{"alarm", "severity", "threshold", "unit", "for", "summary", "off"}];
 * "notify": {"program", "sent", "failed", "message"} or null; "complaint": why the file cannot be written, or null}.
 * Unknown times and values are null. NULL: no memory. */
json_t *alarms_answer(const struct alarms *alarms, double now);

/* Silences an alarm, or "all", until a time (s since 1970); a time that has passed takes the silence back. subject "":
 * every subject. who and why go into the file; either may be NULL. BAD_ARGUMENT: there is no such alarm. UNAVAILABLE:
 * nothing can be written to the session. */
enum status alarms_silence(struct alarms *alarms, const char *name, const char *subject, double until, double now,
                           const char *who, const char *why, struct err *err);

/* Returns the table as last judged, for the metrics. */
const struct alarm_table *alarms_table(const struct alarms *alarms);
/* Returns how often each instance was started again since the server began: {"refiner.0": 1}; borrowed. */
const json_t *alarms_restarts(const struct alarms *alarms);
/* Writes a line for each alarm of severity critical that fires and is not silenced: its name, its subject and its text. */
void alarms_critical(const struct alarms *alarms, FILE *out);
/* Returns the alarms of any session that fire by its alarms.jsonl, each as alarms_answer has it. An empty list where
 * there is no file. NULL: no memory. */
json_t *alarms_of_folder(const char *folder, double now);
/* Reads the state of a session's alarms from its alarms.jsonl. */
enum status alarms_read_folder(const char *folder, struct alarm_table *ret_table, struct err *err);

#endif
