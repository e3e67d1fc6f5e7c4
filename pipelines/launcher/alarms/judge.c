#include "pipelines/launcher/alarms/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "pipelines/launcher/alarms/conditions.h"

static const double KEEP_CLEARED = 24 * 3600; /* s that a table shows an alarm that has cleared */

static bool is_same(const struct alarm *alarm, enum alarm_kind kind, const char *subject) {
    return alarm->kind == kind && strcmp(alarm->subject, subject) == 0;
}

/* An entry that nobody needs any more: nothing holds, and nobody is to be told. */
static bool is_spare(const struct alarm *alarm, double time) {
    if (alarm->holds > 0 || alarm_fires(alarm)) return false;
    return alarm->started == 0 || (alarm->told == 0 && time - alarm->ended > KEEP_CLEARED);
}

/* Finds the alarm's entry or makes one. NULL: the table is full of alarms that fire. */
static struct alarm *take(struct alarm_table *table, enum alarm_kind kind, const char *subject, double time) {
    struct alarm *spare = NULL;
    for (size_t i = 0; i < table->count; i++) {
        if (is_same(&table->alarms[i], kind, subject)) return &table->alarms[i];
        if (spare == NULL && is_spare(&table->alarms[i], time)) spare = &table->alarms[i];
    }
    if (spare == NULL && table->count < ALARM_TABLE) spare = &table->alarms[table->count++];
    /* With no room left, an alarm that has cleared makes place. */
    for (size_t i = 0; spare == NULL && i < table->count; i++)
        if (table->alarms[i].holds == 0 && !alarm_fires(&table->alarms[i])) spare = &table->alarms[i];
    if (spare == NULL) return NULL;
    *spare = (struct alarm){.kind = kind, .value = NAN};
    snprintf(spare->subject, sizeof spare->subject, "%s", subject);
    text_trim(spare->subject);
    return spare;
}

struct judging {
    const struct alarm_settings *settings;
    struct alarm_table *table;
    double time;
    bool running; /* else what no longer holds clears at once: nobody will look again */
    bool holds[ALARM_TABLE];
};

/* Takes a condition that holds at the time of the present sample. */
static void found(void *context, const struct condition *condition) {
    struct judging *j = context;
    if (j->settings->rules[condition->kind].off) return;
    struct alarm *alarm = take(j->table, condition->kind, condition->subject, j->time);
    if (alarm == NULL) return;
    const bool fires = alarm_fires(alarm);
    j->holds[alarm - j->table->alarms] = true;
    if (alarm->holds == 0) alarm->holds = j->time;
    alarm->fine = 0;
    alarm->value = condition->value;
    if (fires && alarm->severity != condition->severity) alarm->changed = true;
    alarm->severity = condition->severity;
    snprintf(alarm->text, sizeof alarm->text, "%s", condition->text);
    text_trim(alarm->text);
    if (fires || j->time - alarm->holds < j->settings->rules[condition->kind].hold) return;
    alarm->started = j->time;
    alarm->ended = 0;
    alarm->changed = true;
}

/* Clears what has not held for long enough. */
static void clear(struct judging *j) {
    for (size_t i = 0; i < j->table->count; i++) {
        struct alarm *alarm = &j->table->alarms[i];
        const bool off = j->settings->rules[alarm->kind].off;
        if (j->holds[i]) continue;
        alarm->holds = 0;
        if (!alarm_fires(alarm)) continue;
        if (alarm->fine == 0) alarm->fine = j->time;
        if (!off && j->running && j->time - alarm->fine < j->settings->rules[alarm->kind].hold) continue;
        alarm->ended = j->time;
        alarm->changed = true;
    }
}

double alarms_silenced_until(const struct alarm_table *table, const struct alarm *alarm, double now) {
    double until = 0;
    for (size_t i = 0; i < table->silence_count; i++) {
        const struct alarm_silence *silence = &table->silences[i];
        const bool name =
            strcmp(silence->name, "all") == 0 || strcmp(silence->name, alarm_rule(alarm->kind)->name) == 0;
        const bool subject = silence->subject[0] == '\0' || strcmp(silence->subject, alarm->subject) == 0;
        if (name && subject && silence->until > now) until = fmax(until, silence->until);
    }
    return until;
}

/* Decides who is told: whoever was told that an alarm fires is told that it cleared, also while it is silenced. */
static void decide(struct alarm_table *table, const struct alarm_settings *settings, double now) {
    for (size_t i = 0; i < table->count; i++) {
        struct alarm *alarm = &table->alarms[i];
        const double until = alarms_silenced_until(table, alarm, now);
        alarm->until_changed = until != alarm->until && alarm_fires(alarm);
        alarm->until = until;
        if (!alarm_fires(alarm))
            alarm->due = alarm->started > 0 && alarm->told > 0;
        else
            alarm->due = alarm->until == 0 && (alarm->told == 0 || alarm->severity > alarm->told_severity ||
                                               now - alarm->told >= settings->repeat);
    }
}

void alarms_judge(const struct alarm_sample *samples, size_t count, double now, const struct alarm_settings *settings,
                  struct alarm_table *table) {
    for (size_t i = 0; i < table->count; i++)
        table->alarms[i].changed = false;
    for (size_t i = 0; i < count; i++) {
        if (!(samples[i].time > table->judged)) continue;
        struct judging judging = {
            .settings = settings, .table = table, .time = samples[i].time, .running = samples[i].running};
        const struct conditions conditions = {
            .samples = samples, .at = i, .settings = settings, .found = found, .context = &judging};
        conditions_find(&conditions);
        clear(&judging);
        table->judged = samples[i].time;
    }
    decide(table, settings, now);
}

void alarms_set_back(struct alarm_table *table, double now) {
    for (size_t i = 0; i < table->count; i++) {
        struct alarm *alarm = &table->alarms[i];
        double *const moments[] = {&alarm->holds, &alarm->fine, &alarm->started, &alarm->ended, &alarm->told};
        for (size_t k = 0; k < sizeof moments / sizeof moments[0]; k++)
            *moments[k] = fmin(*moments[k], now);
    }
    if (table->judged >= now) table->judged = now - 1;
}

void alarms_told(struct alarm_table *table, double now) {
    for (size_t i = 0; i < table->count; i++) {
        struct alarm *alarm = &table->alarms[i];
        if (!alarm->due) continue;
        alarm->due = false;
        alarm->told = alarm_fires(alarm) ? now : 0;
        alarm->told_severity = alarm->severity;
    }
}

enum status alarms_table_silence(struct alarm_table *table, const char *name, const char *subject, double until,
                                 double now, struct err *err) {
    FAIL_IF(strcmp(name, "all") != 0 && alarm_kind_find(name) == ALARM_KINDS, err, STATUS_BAD_ARGUMENT,
            "'%s' is no alarm that can be silenced; give the name of an alarm, or 'all'", name);
    FAIL_IF(strlen(subject) >= ALARM_NAME, err, STATUS_BAD_ARGUMENT, "'%.40s…' is no subject of an alarm", subject);
    size_t at = 0;
    for (size_t i = 0; i < table->silence_count; i++) { /* drops those that are over, and the one that changes */
        const struct alarm_silence *one = &table->silences[i];
        if (one->until <= now || (strcmp(one->name, name) == 0 && strcmp(one->subject, subject) == 0)) continue;
        table->silences[at++] = *one;
    }
    table->silence_count = at;
    if (!(until > now)) return STATUS_OK;
    FAIL_IF(at == ALARM_SILENCES, err, STATUS_BAD_STATE, "%d silences hold already; take one back first",
            ALARM_SILENCES);
    struct alarm_silence *silence = &table->silences[table->silence_count++];
    silence->until = until;
    snprintf(silence->name, sizeof silence->name, "%s", name);
    snprintf(silence->subject, sizeof silence->subject, "%s", subject);
    return STATUS_OK;
}

void alarm_fingerprint(const struct alarm *alarm, char ret_text[17]) {
    char key[2 * ALARM_NAME];
    snprintf(key, sizeof key, "%s %s", alarm_rule(alarm->kind)->name, alarm->subject);
    snprintf(ret_text, 17, "%016llx", (unsigned long long)text_hash(key));
}
