#include "pipelines/launcher/alarms/alarms_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/files.h"
#include "pipelines/launcher/json_values.h"

static json_t *moment(double time) {
    return time > 0 ? json_real(time) : json_null();
}

json_t *alarm_json(const struct alarm *alarm, double now) {
    char fingerprint[17];
    const char *state = !alarm_fires(alarm) ? "cleared" : alarm->until > now ? "silenced" : "firing";
    alarm_fingerprint(alarm, fingerprint);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:s}", "alarm", alarm_rule(alarm->kind)->name,
                     "subject", alarm->subject, "severity", alarm_severity_name(alarm->severity), "state", state,
                     "text", alarm->text, "value", json_value_number(alarm->value), "since", moment(alarm->started),
                     "ended", moment(alarm->ended), "until", moment(alarm->until > now ? alarm->until : 0),
                     "fingerprint", fingerprint);
}

static int newer(const void *a, const void *b) {
    const struct alarm *x = *(const struct alarm *const *)a, *y = *(const struct alarm *const *)b;
    if (alarm_fires(x) != alarm_fires(y)) return alarm_fires(x) ? -1 : 1;
    return (y->started > x->started) - (y->started < x->started);
}

static json_t *list_alarms(const struct alarm_table *table, double now) {
    const struct alarm *sorted[ALARM_TABLE];
    size_t count = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < table->count; i++)
        if (table->alarms[i].started > 0) sorted[count++] = &table->alarms[i];
    qsort(sorted, count, sizeof sorted[0], newer);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, alarm_json(sorted[i], now));
    return list;
}

static json_t *list_rules(const struct alarm_settings *settings) {
    json_t *list = json_array();
    for (int i = 0; i < ALARM_KINDS; i++) {
        const struct alarm_rule *rule = alarm_rule((enum alarm_kind)i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s, s:f, s:s, s:b}", "alarm", rule->name, "severity",
                                              alarm_severity_name(rule->severity), "threshold",
                                              json_value_number(settings->rules[i].threshold), "unit", rule->unit,
                                              "for", settings->rules[i].hold, "summary", rule->summary, "off",
                                              settings->rules[i].off));
    }
    return list;
}

json_t *alarms_json(const struct alarm_table *table, const struct alarm_settings *settings, double now) {
    json_t *silences = json_array();
    for (size_t i = 0; i < table->silence_count; i++)
        if (table->silences[i].until > now)
            json_array_append_new(silences, json_pack("{s:s, s:s, s:f}", "alarm", table->silences[i].name, "subject",
                                                      table->silences[i].subject, "until", table->silences[i].until));
    return json_pack("{s:i, s:f, s:o, s:o, s:o}", "v", 1, "now", now, "alarms", list_alarms(table, now), "silences",
                     silences, "rules", list_rules(settings));
}

static void write_time(double time, char *text, size_t size) {
    const time_t whole = (time_t)floor(time);
    struct tm parts;
    if (time <= 0 || gmtime_r(&whole, &parts) == NULL)
        snprintf(text, size, "0001-01-01T00:00:00Z"); /* as Alertmanager writes no time */
    else
        strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

json_t *alarms_webhook(const struct alarm_table *table, const char *session) {
    json_t *list = json_array();
    bool firing = false;
    for (size_t i = 0; i < table->count; i++) {
        const struct alarm *alarm = &table->alarms[i];
        char fingerprint[17], start[32], end[32], summary[ALARM_NAME + 64];
        if (!alarm->due) continue;
        firing |= alarm_fires(alarm);
        alarm_fingerprint(alarm, fingerprint);
        write_time(alarm->started, start, sizeof start);
        write_time(alarm->ended, end, sizeof end);
        snprintf(summary, sizeof summary, "%s%s%s", alarm_rule(alarm->kind)->name, alarm->subject[0] ? " " : "",
                 alarm->subject);
        json_array_append_new(list,
                              json_pack("{s:s, s:{s:s, s:s, s:o, s:s}, s:{s:s, s:s}, s:s, s:s, s:s, s:s}", "status",
                                        alarm_fires(alarm) ? "firing" : "resolved", "labels", "alertname",
                                        alarm_rule(alarm->kind)->name, "severity", alarm_severity_name(alarm->severity),
                                        "session", json_value_text(path_name(session)), "subject", alarm->subject,
                                        "annotations", "summary", summary, "description", alarm->text, "startsAt",
                                        start, "endsAt", end, "generatorURL", "", "fingerprint", fingerprint));
    }
    return json_pack("{s:s, s:o, s:i, s:s, s:s, s:{}, s:{s:o}, s:{s:o}, s:s, s:o}", "version", "4", "groupKey",
                     json_value_text(session), "truncatedAlerts", 0, "status", firing ? "firing" : "resolved",
                     "receiver", "icestream", "groupLabels", "commonLabels", "session",
                     json_value_text(path_name(session)), "commonAnnotations", "folder", json_value_text(session),
                     "externalURL", "", "alerts", list);
}
