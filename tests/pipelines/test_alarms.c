/* Tests the judge of the alarms on recorded samples: tests/pipelines/alarms holds recordings with what must fire. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/scratch.h"
#include "tests/pipelines/alarm_samples.h"

enum { LINE = 4096, SAMPLES = 512, NAMES = 2048 };
static const char *const RECORDINGS[] = {"run", "disk", "gpu", "microscope", "map"};

/* A session as the judge sees it: all samples so far. */
struct replay {
    struct alarm_sample samples[SAMPLES];
    size_t count;
    struct alarm_settings settings;
    struct alarm_table table;
    bool fired[ALARM_KINDS], cleared[ALARM_KINDS];
};

static struct replay *replay_new(void) {
    struct replay *r = calloc(1, sizeof *r);
    assert_non_null(r);
    alarm_settings_default(&r->settings);
    return r;
}

/* Writes what fires as "NAME SUBJECT SEVERITY" in the order of the table of rules, line by line. */
static void list_firing(const struct alarm_table *table, char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (int kind = 0; kind < ALARM_KINDS; kind++)
        for (size_t i = 0; i < table->count; i++) {
            const struct alarm *alarm = &table->alarms[i];
            if ((int)alarm->kind != kind || !alarm_fires(alarm)) continue;
            length += (size_t)snprintf(text + length, size - length, "%s %s %s\n", alarm_rule(alarm->kind)->name,
                                       alarm->subject, alarm_severity_name(alarm->severity));
            assert_true(strlen(alarm->text) > 20);
            assert_int_not_equal(alarm->text[strlen(alarm->text) - 1], '.');
        }
}

static void expect(const struct replay *r, const json_t *expected, const char *file, int line) {
    char found[NAMES], wanted[NAMES] = "";
    size_t length = 0;
    for (size_t i = 0; i < json_array_size(expected); i++)
        length += (size_t)snprintf(wanted + length, sizeof wanted - length, "%s\n",
                                   json_string_value(json_array_get(expected, i)));
    list_firing(&r->table, found, sizeof found);
    if (strcmp(found, wanted) != 0) fail_msg("%s:%d: fires:\n%sexpected:\n%s", file, line, found, wanted);
}

static void set(struct alarm_settings *settings, const char *text) {
    struct err err = {0};
    if (strncmp(text, "defocus=0.8,2.2", 15) == 0)
        settings->defocus_least = 0.8, settings->defocus_most = 2.2;
    else
        assert_ok(alarm_settings_set(settings, text, &err));
}

static void push(struct replay *r, const json_t *line) {
    assert_true(r->count < SAMPLES);
    if (r->count == 0)
        sample_clear(&r->samples[0]);
    else
        r->samples[r->count] = r->samples[r->count - 1];
    sample_read(&r->samples[r->count++], line);
}

/* Judges each sample as it comes, and compares where the recording says what must fire. */
static void play(struct replay *r, const char *name) {
    char path[PATH_SIZE], text[LINE];
    snprintf(path, sizeof path, "%s/tests/pipelines/alarms/%s.jsonl", getenv("ICESTREAM_SOURCE"), name);
    FILE *file = fopen(path, "re");
    if (file == NULL) fail_msg("%s is missing", path);
    for (int at = 1; fgets(text, sizeof text, file) != NULL; at++) {
        json_t *line = json_loads(text, 0, NULL);
        if (line == NULL) fail_msg("%s:%d is no JSON", path, at);
        if (json_object_get(line, "expect") != NULL) {
            expect(r, json_object_get(line, "expect"), path, at);
        } else if (json_object_get(line, "set") != NULL) {
            set(&r->settings, json_string_value(json_object_get(line, "set")));
        } else {
            push(r, line);
            alarms_judge(r->samples, r->count, r->samples[r->count - 1].time, &r->settings, &r->table);
        }
        for (size_t i = 0; i < r->table.count; i++) {
            const struct alarm *alarm = &r->table.alarms[i];
            r->fired[alarm->kind] |= alarm_fires(alarm);
            r->cleared[alarm->kind] |= alarm->started > 0 && alarm->ended > 0;
        }
        json_decref(line);
    }
    fclose(file);
}

static void each_alarm_fires_and_clears(void **state) {
    (void)state;
    bool fired[ALARM_KINDS] = {false}, cleared[ALARM_KINDS] = {false};
    for (size_t i = 0; i < sizeof RECORDINGS / sizeof RECORDINGS[0]; i++) {
        struct replay *r = replay_new();
        play(r, RECORDINGS[i]);
        for (int kind = 0; kind < ALARM_KINDS; kind++)
            fired[kind] |= r->fired[kind], cleared[kind] |= r->cleared[kind];
        free(r);
    }
    for (int kind = 0; kind < ALARM_KINDS; kind++)
        if (!fired[kind] || !cleared[kind])
            fail_msg("no recording makes %s %s", alarm_rule((enum alarm_kind)kind)->name,
                     fired[kind] ? "clear" : "fire");
}

static void assert_same(const struct alarm_table *a, const struct alarm_table *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct alarm *x = &a->alarms[i], *y = &b->alarms[i];
        assert_int_equal(x->kind, y->kind);
        assert_string_equal(x->subject, y->subject);
        assert_string_equal(x->text, y->text);
        assert_true(x->started == y->started && x->ended == y->ended && x->holds == y->holds);
    }
}

/* Samples that are judged one by one, all together or twice give the same table. */
static void the_judge_is_pure(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof RECORDINGS / sizeof RECORDINGS[0]; i++) {
        struct replay *r = replay_new();
        static struct alarm_table whole, again;
        play(r, RECORDINGS[i]);
        whole = again = (struct alarm_table){0};
        const double now = r->samples[r->count - 1].time;
        alarms_judge(r->samples, r->count, now, &r->settings, &whole);
        assert_same(&whole, &r->table);
        alarms_judge(r->samples, r->count, now, &r->settings, &again);
        assert_same(&whole, &again);
        /* A clock that was set back brings older samples: these change nothing. */
        struct alarm_sample old = r->samples[r->count - 1];
        old.time -= 100;
        old.adds_up = false;
        alarms_judge(&old, 1, now, &r->settings, &again);
        assert_true(again.judged == whole.judged);
        free(r);
    }
}

/* A session in which a condition holds from the start, one sample each 10 s. */
static void trouble_for(struct replay *r, int samples, bool trouble) {
    for (int i = 0; i < samples; i++) {
        const double time = r->count > 0 ? r->samples[r->count - 1].time + 10 : SAMPLES_BEGIN;
        struct alarm_sample *sample = &r->samples[0];
        if (r->count > 0) sample = &r->samples[1];
        sample_clear(sample);
        sample->time = sample->last_exposure = time;
        sample->running = true;
        sample->adds_up = !trouble;
        if (r->count < 2) r->count++;
        alarms_judge(r->samples, r->count, time, &r->settings, &r->table);
        r->samples[0] = *sample;
    }
}

static void a_flicker_neither_fires_nor_clears(void **state) {
    (void)state;
    struct replay *r = replay_new();
    for (int i = 0; i < 20; i++) { /* it holds for 50 s of each minute */
        trouble_for(r, 5, true);
        trouble_for(r, 1, false);
    }
    assert_int_equal(r->table.count, 1);
    assert_false(alarm_fires(&r->table.alarms[0]));
    trouble_for(r, 7, true);
    assert_true(alarm_fires(&r->table.alarms[0]));
    for (int i = 0; i < 20; i++) {
        trouble_for(r, 5, false);
        trouble_for(r, 1, true);
        assert_true(alarm_fires(&r->table.alarms[0]));
    }
    trouble_for(r, 7, false);
    assert_false(alarm_fires(&r->table.alarms[0]));
    free(r);
}

static void whoever_was_told_is_told_of_the_end(void **state) {
    (void)state;
    struct replay *r = replay_new();
    struct err err = {0};
    const struct alarm *alarm = &r->table.alarms[0];
    trouble_for(r, 6, true);
    assert_false(alarm->due);
    trouble_for(r, 1, true);
    assert_true(alarm->due && alarm->changed);
    alarms_told(&r->table, r->table.judged);
    trouble_for(r, 4 * 360 - 1, true);
    assert_false(alarm->due || alarm->changed);
    trouble_for(r, 1, true); /* 4 hours later */
    assert_true(alarm->due && !alarm->changed);
    alarms_told(&r->table, r->table.judged);
    trouble_for(r, 7, false);
    assert_true(alarm->due && alarm->changed && alarm->ended > 0);
    alarms_told(&r->table, r->table.judged);
    trouble_for(r, 1, false);
    assert_false(alarm->due);

    /* Nobody is told of what fires and clears while it is silenced. */
    const double now = r->table.judged;
    assert_int_equal(alarms_table_silence(&r->table, "dosk", "", now + 600, now, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "dosk"));
    assert_ok(alarms_table_silence(&r->table, "does_not_add_up", "", now + 300, now, &err));
    trouble_for(r, 20, true);
    assert_true(alarm_fires(alarm) && !alarm->due && alarm->until == now + 300);
    trouble_for(r, 10, true); /* the silence ends while it still fires */
    assert_true(alarm->due && alarm->until == 0);
    /* Another silence for another subject, or one that is taken back, silences nothing. */
    assert_ok(alarms_table_silence(&r->table, "all", "refiner", r->table.judged + 900, r->table.judged, &err));
    assert_ok(alarms_table_silence(&r->table, "all", "", r->table.judged + 900, r->table.judged, &err));
    trouble_for(r, 1, true);
    assert_false(alarm->due);
    assert_ok(alarms_table_silence(&r->table, "all", "", 0, r->table.judged, &err));
    trouble_for(r, 1, true);
    assert_true(alarm->due);
    free(r);
}

static bool equal(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static void assert_same_settings(const struct alarm_settings *a, const struct alarm_settings *b) {
    for (int i = 0; i < ALARM_KINDS; i++) {
        assert_true(equal(a->rules[i].threshold, b->rules[i].threshold) && equal(a->rules[i].hold, b->rules[i].hold));
        assert_int_equal(a->rules[i].off, b->rules[i].off);
    }
    assert_true(equal(a->defocus_least, b->defocus_least) && equal(a->defocus_most, b->defocus_most));
    assert_true(a->repeat == b->repeat && a->quality_least == b->quality_least);
}

static void settings_are_read_and_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"disk",   "=5",        "disk=",      "disk=five",    "disk=-1",    "disk=nan",
                                      "desk=5", "trouble=5", "repeat=off", "disk.for=off", "disk.fir=5", ""};
    struct alarm_settings settings, before;
    struct err err = {0};
    alarm_settings_default(&settings);
    before = settings;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(alarm_settings_set(&settings, bad[i], &err), STATUS_BAD_ARGUMENT);
        assert_same_settings(&settings, &before);
    }
    alarm_settings_set(&settings, "dsk=5", &err);
    assert_non_null(strstr(err.message, "did you mean 'disk'"));
    json_t *session = json_loads("{\"alarms\": [\"disk=5\", \"picks=off\", \"trouble.for=30\", \"repeat=60\", \"bad\"],"
                                 " \"defocus\": [\"0.8\", 2.5]}",
                                 0, NULL);
    alarm_settings_read(session, &settings);
    assert_true(settings.rules[ALARM_DISK].threshold == 5 && settings.rules[ALARM_PICKS].off);
    assert_true(settings.rules[ALARM_TROUBLE].hold == 30 && settings.repeat == 60);
    assert_true(settings.defocus_least == 0.8 && settings.defocus_most == 2.5);
    json_decref(session);
    alarm_settings_read(NULL, &settings);
    assert_same_settings(&settings, &before);
}

/* A rule that is switched off never fires, and what fires clears at once. */
static void a_rule_can_be_switched_off(void **state) {
    (void)state;
    struct replay *r = replay_new();
    struct err err = {0};
    trouble_for(r, 10, true);
    assert_true(alarm_fires(&r->table.alarms[0]));
    assert_ok(alarm_settings_set(&r->settings, "does_not_add_up=off", &err));
    trouble_for(r, 1, true);
    assert_false(alarm_fires(&r->table.alarms[0]));
    free(r);
}

/* More alarms than a table holds: the rest waits, and nothing is written past the end. */
static void a_table_may_be_full(void **state) {
    (void)state;
    struct replay *r = replay_new();
    struct alarm_sample *sample = &r->samples[0];
    for (int round = 0; round < 40; round++) {
        sample_clear(sample);
        sample->time = SAMPLES_BEGIN + 10 * round;
        sample->last_exposure = sample->time;
        sample->running = true;
        sample->stage_count = ALARM_STAGES;
        for (int i = 0; i < ALARM_STAGES; i++) {
            snprintf(sample->stages[i].instance, ALARM_NAME, "stage%d.%d", i, round);
            sample->stages[i].silent = 100;
        }
        alarms_judge(sample, 1, sample->time, &r->settings, &r->table);
        assert_true(r->table.count <= ALARM_TABLE);
    }
    assert_int_equal(r->table.count, ALARM_TABLE);
    free(r);
}

/* The handbook has each rule with its numbers and its sentence. */
static void the_handbook_has_all_rules(void **state) {
    (void)state;
    char path[PATH_SIZE], *text, row[1024], threshold[64];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/docs/handbook/alarms.md", getenv("ICESTREAM_SOURCE"));
    assert_ok(file_read_whole(path, 1 << 20, &text, NULL, &err));
    for (int i = 0; i < ALARM_KINDS; i++) {
        const struct alarm_rule *rule = alarm_rule((enum alarm_kind)i);
        char hold[32] = "at once";
        if (rule->hold > 0) snprintf(hold, sizeof hold, "%g s", rule->hold);
        snprintf(threshold, sizeof threshold, "%g%s%s", rule->threshold, rule->unit[0] ? " " : "", rule->unit);
        snprintf(row, sizeof row, "| `%s` | %s | %s | %s | %s |\n", rule->name, alarm_severity_name(rule->severity),
                 isnan(rule->threshold) ? "" : threshold, hold, rule->summary);
        if (strstr(text, row) == NULL) fail_msg("docs/handbook/alarms.md lacks the row:\n%s", row);
    }
    free(text);
}

/* A clock that runs an hour ahead fires an alarm; then it is set right. */
static void a_clock_that_is_set_back_blinds_nobody(void **state) {
    (void)state;
    enum { HOUR = 3600 };
    struct replay *r = replay_new();
    for (int i = 0; i < 2; i++) {
        struct alarm_sample *sample = &r->samples[0];
        const double now = SAMPLES_BEGIN + (i == 0 ? HOUR : 0);
        if (i > 0) alarms_set_back(&r->table, now);
        sample_clear(sample);
        sample->time = now;
        sample->running = true;
        snprintf(sample->paused, sizeof sample->paused, "%s", i == 0 ? "the disk is nearly full" : "");
        alarms_judge(sample, 1, now, &r->settings, &r->table);
        const struct alarm *alarm = &r->table.alarms[0];
        assert_int_equal(r->table.count, 1);
        assert_int_equal(alarm_fires(alarm), i == 0);
        assert_true(r->table.judged == now && alarm->started <= now && alarm->ended <= now);
        alarms_told(&r->table, now);
    }
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_alarm_fires_and_clears),
        cmocka_unit_test(the_judge_is_pure),
        cmocka_unit_test(a_flicker_neither_fires_nor_clears),
        cmocka_unit_test(whoever_was_told_is_told_of_the_end),
        cmocka_unit_test(settings_are_read_and_refused),
        cmocka_unit_test(a_rule_can_be_switched_off),
        cmocka_unit_test(a_table_may_be_full),
        cmocka_unit_test(a_clock_that_is_set_back_blinds_nobody),
        cmocka_unit_test(the_handbook_has_all_rules),
    };
    return scratch_run("alarms", tests, sizeof tests / sizeof tests[0]);
}
