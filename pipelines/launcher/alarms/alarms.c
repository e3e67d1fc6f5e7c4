#include "pipelines/launcher/alarms/alarms.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/alarms/alarms_file.h"
#include "pipelines/launcher/alarms/alarms_json.h"
#include "pipelines/launcher/alarms/notify.h"
#include "pipelines/launcher/alarms/sampler.h"
#include "pipelines/launcher/json_values.h"
#include "pipelines/launcher/view/view.h"

enum { SAMPLES = 180 };
static const double PERIOD = 1, SPACING = 25, HISTORY = 3700; /* s */
static const double LAST_WORDS = 20;                          /* s that the end may take */

struct alarms {
    struct alarms_options options;
    char file[PATH_SIZE], lock_file[PATH_SIZE], output[PATH_SIZE];
    int lock; /* −1: another server keeps the file, or nobody can */
    int64_t offset;
    struct sampler *sampler;
    struct alarm_settings settings;
    struct alarm_sample *samples;
    size_t count;
    double sampled;
    bool show_only;
    bool live; /* the session ran since the server began */
    struct alarm_table *table;
    struct notify *notify;   /* NULL: the session names none */
    char program[PATH_SIZE]; /* of session.notify, as the notifier has it */
    long long failed;        /* of the notifier, as the file knows */
    char complaint[256];     /* about the file; "": none */
};

/* ---- the file ---- */

static json_t *event_json(const struct alarm *alarm, double now, const char *event) {
    return json_pack("{s:f, s:s, s:s, s:s, s:s, s:s, s:o, s:f}", "time", now, "event", event, "alarm",
                     alarm_rule(alarm->kind)->name, "subject", alarm->subject, "severity",
                     alarm_severity_name(alarm->severity), "text", alarm->text, "value",
                     json_value_number(alarm->value), "since", alarm->started);
}

static void keep(struct alarms *alarms, json_t *line) {
    struct err err = {0};
    if (alarms->lock < 0) {
        json_decref(line);
        return;
    }
    if (alarms_file_append(alarms->file, line, &err) == STATUS_OK)
        alarms->complaint[0] = '\0';
    else
        snprintf(alarms->complaint, sizeof alarms->complaint, "%.250s", err.message);
}

/* Takes the lock if nobody has it: then this server keeps the file and tells. */
static void try_lock(struct alarms *alarms) {
    char folder[PATH_SIZE];
    if (alarms->options.read_only || alarms->show_only || alarms->lock >= 0) return;
    /* A session that somebody has removed does not come back as an empty folder. */
    if (path_join(alarms->options.folder, "web", folder, sizeof folder, NULL) != STATUS_OK ||
        (mkdir(folder, 0777) != 0 && errno != EEXIST))
        return;
    int descriptor = open(alarms->lock_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (descriptor >= 0 && fcntl(descriptor, F_OFD_SETLK, &whole) != 0) file_close(&descriptor);
    alarms->lock = descriptor;
}

/* ---- the program that tells ---- */

static void choose_program(struct alarms *alarms) {
    const json_t *session = json_object_get(view_graph(alarms->options.view), "session");
    const char *program = json_string_value(json_object_get(session, "notify"));
    if (program == NULL) program = "";
    if (strcmp(program, alarms->program) == 0 || strlen(program) >= sizeof alarms->program) return;
    notify_free(&alarms->notify);
    memcpy(alarms->program, program, strlen(program) + 1);
    struct notify_options options = {
        .program = alarms->program, .folder = alarms->options.folder, .output = alarms->output};
    notify_defaults(&options);
    if (program[0] != '\0') notify_new(&options, &alarms->notify, NULL);
}

/* Notes in the file who was told: a server that starts anew does not tell it again. */
static void note_told(struct alarms *alarms, double now) {
    for (size_t i = 0; i < alarms->table->count; i++) {
        const struct alarm *alarm = &alarms->table->alarms[i];
        if (!alarm->due) continue;
        keep(alarms, json_pack("{s:f, s:s, s:s, s:s, s:s}", "time", now, "event", "told", "alarm",
                               alarm_rule(alarm->kind)->name, "subject", alarm->subject, "severity",
                               alarm_severity_name(alarm->severity)));
    }
}

/* Hands all that is due over in one text, unless the program is busy with an earlier one. Without a program nobody is
 * told. Returns whether something still has to be handed over. */
static bool tell(struct alarms *alarms, double now) {
    bool due = false;
    for (size_t i = 0; i < alarms->table->count; i++)
        due |= alarms->table->alarms[i].due;
    if (!due || alarms->notify == NULL || alarms->lock < 0) return false;
    if (notify_busy(alarms->notify)) return true;
    json_t *body = alarms_webhook(alarms->table, alarms->options.folder);
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(body);
    if (text == NULL || notify_add(alarms->notify, text, NULL) != STATUS_OK) {
        free(text);
        return true;
    }
    note_told(alarms, now);
    alarms_told(alarms->table, now);
    return false;
}

static void look_after_program(struct alarms *alarms, double now, double monotonic) {
    if (alarms->notify == NULL) return;
    notify_tick(alarms->notify, monotonic);
    const struct notify_state state = notify_state(alarms->notify);
    if (state.failed > alarms->failed)
        keep(alarms, json_pack("{s:f, s:s, s:s}", "time", now, "event", "tell-failed", "message", state.message));
    alarms->failed = state.failed;
}

/* ---- samples ---- */

/* The newest sample replaces the one before unless that is SPACING younger than its own: comparisons with earlier times
 * need no more, and an hour takes little memory. */
static void take_sample(struct alarms *alarms, double now) {
    struct alarm_sample *samples = alarms->samples, sample;
    if (sampler_take(alarms->sampler, now, &alarms->settings, &sample, NULL) != STATUS_OK) return;
    /* Samples of a time that comes again cannot be compared with. */
    if (alarms->count == 0 || now < samples[alarms->count - 1].time) {
        alarms->count = 0;
        alarms_set_back(alarms->table, now);
    }
    const size_t count = alarms->count;
    if (count >= 2 && samples[count - 1].time - samples[count - 2].time < SPACING) alarms->count--;
    size_t first = 0;
    while (first < alarms->count && now - samples[first].time > HISTORY)
        first++;
    if (alarms->count - first == SAMPLES) first++;
    alarms->count -= first;
    if (first > 0) memmove(samples, samples + first, alarms->count * sizeof *samples);
    samples[alarms->count++] = sample;
}

static const char *what_happened(const struct alarm *alarm, double judged) {
    if (!alarm_fires(alarm)) return "clears";
    if (alarm->started == judged) return "fires";
    return alarm->severity > alarm_rule(alarm->kind)->severity ? "worse" : "better";
}

static void report_changes(struct alarms *alarms, double now) {
    for (size_t i = 0; i < alarms->table->count; i++) {
        const struct alarm *alarm = &alarms->table->alarms[i];
        if (!alarm->changed && !alarm->until_changed) continue;
        if (alarm->changed) keep(alarms, event_json(alarm, now, what_happened(alarm, alarms->table->judged)));
        if (alarms->options.publish != NULL) alarms->options.publish(alarms->options.context, alarm_json(alarm, now));
    }
}

static void sample_and_judge(struct alarms *alarms, double now) {
    alarms->live |= view_is_running(alarms->options.view);
    try_lock(alarms);
    /* Another server of this session may have silenced something, or may keep the file. */
    alarms_file_read(alarms->file, alarms->lock >= 0, &alarms->offset, alarms->table, NULL);
    if (!alarms->live) return;
    const json_t *session = json_object_get(view_graph(alarms->options.view), "session");
    alarm_settings_read(session, &alarms->settings);
    choose_program(alarms);
    take_sample(alarms, now);
    alarms_judge(alarms->samples, alarms->count, now, &alarms->settings, alarms->table);
    report_changes(alarms, now);
}

void alarms_step(struct alarms *alarms, double now, double monotonic) {
    if (alarms->sampled == 0 || monotonic - alarms->sampled >= PERIOD) {
        alarms->sampled = monotonic;
        sample_and_judge(alarms, now);
    }
    tell(alarms, now);
    look_after_program(alarms, now, monotonic);
}

void alarms_show_only(struct alarms *alarms, bool show_only) {
    alarms->show_only = show_only;
    if (show_only) file_close(&alarms->lock);
}

/* ---- begin and end ---- */

enum status alarms_open(const struct alarms_options *options, struct alarms **ret_alarms, struct err *err) {
    struct alarms *alarms = NULL;
    TRY(mem_new(1, sizeof *alarms, "the alarms", &alarms, err));
    alarms->options = *options;
    alarms->lock = -1;
    alarm_settings_read(json_object_get(view_graph(options->view), "session"), &alarms->settings);
    enum status status = mem_new(SAMPLES, sizeof *alarms->samples, "the samples of alarms", &alarms->samples, err);
    if (status == STATUS_OK) status = mem_new(1, sizeof *alarms->table, "the alarms", &alarms->table, err);
    const struct sampler_sources sources = {.context = options->context,
                                            .gpus = options->gpus,
                                            .efficiency = options->efficiency,
                                            .beam_tilt = options->beam_tilt};
    if (status == STATUS_OK) status = sampler_new(options->view, &sources, &alarms->sampler, err);
    if (status == STATUS_OK)
        status = path_join(options->folder, "web/alarms.jsonl", alarms->file, sizeof alarms->file, err);
    if (status == STATUS_OK)
        status = path_join(options->folder, "web/alarms.lock", alarms->lock_file, sizeof alarms->lock_file, err);
    if (status == STATUS_OK)
        status = path_join(options->folder, "web/notify.log", alarms->output, sizeof alarms->output, err);
    if (status == STATUS_OK) status = alarms_file_read(alarms->file, false, &alarms->offset, alarms->table, err);
    if (status != STATUS_OK) {
        alarms_close(&alarms);
        return status;
    }
    *ret_alarms = alarms;
    return STATUS_OK;
}

/* The run may have ended because a stage gave up: whoever is to be told hears of it before the server ends. */
static void last_words(struct alarms *alarms) {
    const double until = clock_monotonic() + LAST_WORDS;
    if (!alarms->live || alarms->notify == NULL || alarms->lock < 0) return;
    sampler_renew(alarms->sampler);
    sample_and_judge(alarms, clock_realtime());
    for (bool busy = true; busy && clock_monotonic() < until;) {
        bool left = tell(alarms, clock_realtime());
        look_after_program(alarms, clock_realtime(), clock_monotonic());
        busy = left || notify_busy(alarms->notify);
        if (busy) clock_pause(0.05);
    }
}

void alarms_close(struct alarms **address) {
    struct alarms *alarms = *address;
    if (alarms == NULL) return;
    if (alarms->sampler != NULL) last_words(alarms);
    notify_free(&alarms->notify);
    sampler_free(&alarms->sampler);
    file_close(&alarms->lock);
    free(alarms->samples);
    free(alarms->table);
    free(alarms);
    *address = NULL;
}

/* ---- for others ---- */

json_t *alarms_answer(const struct alarms *alarms, double now) {
    json_t *answer = alarms_json(alarms->table, &alarms->settings, now);
    json_t *notify = json_null();
    if (answer == NULL) return NULL;
    if (alarms->notify != NULL) {
        const struct notify_state state = notify_state(alarms->notify);
        notify = json_pack("{s:s, s:I, s:I, s:s}", "program", alarms->program, "sent", (json_int_t)state.sent, "failed",
                           (json_int_t)state.failed, "message", state.message);
    }
    json_object_set_new(answer, "notify", notify);
    json_object_set_new(answer, "complaint",
                        alarms->complaint[0] != '\0' ? json_string(alarms->complaint) : json_null());
    return answer;
}

enum status alarms_silence(struct alarms *alarms, const char *name, const char *subject, double until, double now,
                           const char *who, const char *why, struct err *err) {
    FAIL_IF(alarms->options.read_only, err, STATUS_UNAVAILABLE,
            "%s: nothing can be written there, so no alarm can be silenced", alarms->options.folder);
    struct alarm_table *table = alarms->table;
    struct alarm_silence silence = {.until = until}, before[ALARM_SILENCES];
    const size_t before_count = table->silence_count;
    memcpy(before, table->silences, sizeof before);
    TRY(alarms_table_silence(table, name, subject, until, now, err));
    snprintf(silence.name, sizeof silence.name, "%s", name);
    snprintf(silence.subject, sizeof silence.subject, "%s", subject);
    const enum status status = alarms_file_silence(alarms->file, &silence, now, who, why, err);
    if (status != STATUS_OK) { /* nobody else would know of it, nor would the next server */
        memcpy(table->silences, before, sizeof before);
        table->silence_count = before_count;
        return status;
    }
    for (size_t i = 0; i < table->count; i++) {
        struct alarm *alarm = &table->alarms[i];
        const double silenced = alarms_silenced_until(table, alarm, now);
        if (silenced == alarm->until) continue;
        alarm->until = silenced;
        alarm->due &= !(alarm->until > 0 && alarm_fires(alarm));
        if (alarms->options.publish != NULL && alarm->started > 0)
            alarms->options.publish(alarms->options.context, alarm_json(alarm, now));
    }
    return STATUS_OK;
}

const struct alarm_table *alarms_table(const struct alarms *alarms) {
    return alarms->table;
}

const json_t *alarms_restarts(const struct alarms *alarms) {
    return sampler_restarts(alarms->sampler);
}

void alarms_critical(const struct alarms *alarms, FILE *out) {
    for (size_t i = 0; i < alarms->table->count; i++) {
        const struct alarm *alarm = &alarms->table->alarms[i];
        if (!alarm_fires(alarm) || alarm->severity != ALARM_CRITICAL || alarm->until != 0) continue;
        fprintf(out, "critical alarm %s%s%s: %s\n", alarm_rule(alarm->kind)->name, alarm->subject[0] != '\0' ? " " : "",
                alarm->subject, alarm->text);
    }
}

enum status alarms_read_folder(const char *folder, struct alarm_table *ret_table, struct err *err) {
    char path[PATH_SIZE];
    int64_t offset = 0;
    *ret_table = (struct alarm_table){0};
    TRY(path_join(folder, "web/alarms.jsonl", path, sizeof path, err));
    return alarms_file_read(path, false, &offset, ret_table, err);
}

json_t *alarms_of_folder(const char *folder, double now) {
    _cleanup_(mem_free) struct alarm_table *table = NULL;
    json_t *list = json_array();
    if (mem_new(1, sizeof *table, "the alarms of a session", &table, NULL) != STATUS_OK ||
        alarms_read_folder(folder, table, NULL) != STATUS_OK)
        return list;
    for (size_t i = 0; i < table->count; i++)
        if (alarm_fires(&table->alarms[i])) json_array_append_new(list, alarm_json(&table->alarms[i], now));
    return list;
}
