#include "pipelines/launcher/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/progress_table.h"
#include "pipelines/launcher/status.h"

static const double LINE_SECONDS = 3, RATE_SECONDS = 10, FIRST_RATE_SECONDS = 3;

void progress_begin(struct progress *progress, struct log *log) {
    *progress = (struct progress){
        .last_drawn = -1e9, .begun = clock_monotonic(), .begun_real = clock_realtime(), .made = -1, .log = log};
    screen_begin(&progress->screen, STDERR_FILENO);
    /* Items that failed in an earlier run are no news. */
    for (size_t i = 0; i < PROGRESS_STAGES; i++)
        progress->stages[i].failed_time = progress->begun_real;
}

void progress_say(struct progress *progress, const char *text) {
    if (progress->begun == 0) progress_begin(progress, progress->log);
    _cleanup_(mem_free) char *line = malloc(strlen(text) + sizeof "icestream: \n");
    if (line != NULL) {
        sprintf(line, "icestream: %s\n", text);
        screen_say(&progress->screen, line);
    }
    log_write(progress->log, LOG_INFO, "launcher", "%s", text);
}

void progress_end(struct progress *progress) {
    screen_leave(&progress->screen);
}

static int64_t finished(const struct tally_stage *stage) {
    return stage->done + stage->rejected + stage->failed;
}

static void take_rates(struct progress *progress, const struct tally *tally) {
    double now = clock_monotonic(), passed = now - progress->last_rate;
    /* The work of an earlier run does not count. */
    bool first = progress->last_rate == 0;
    if (!first && passed < (progress->has_rate ? RATE_SECONDS : FIRST_RATE_SECONDS)) return;
    for (size_t i = 0; i < tally->count && i < PROGRESS_STAGES; i++) {
        progress->stages[i].rate = 60 * (double)(finished(&tally->stages[i]) - progress->stages[i].finished) / passed;
        progress->stages[i].finished = finished(&tally->stages[i]);
    }
    progress->last_rate = now;
    progress->has_rate = !first;
}

/* Returns what an instance does, as far as it says. */
static const char *activity(const struct progress *progress, const struct tally_stage *stage, const json_t *beat) {
    json_int_t pid = json_integer_value(json_object_get(beat, "pid"));
    const char *state = json_string_value(json_object_get(beat, "state"));
    const char *doing = json_string_value(json_object_get(beat, "doing"));
    /* The heartbeat may be that of an earlier run, or of a process that has ended. */
    if (json_number_value(json_object_get(beat, "time")) < progress->begun_real) return "starting";
    if (pid > 0 && !status_lives(beat)) return stage->in_flight > 0 ? "starting" : "ended";
    if (doing != NULL && doing[0] != '\0') return doing;
    return state != NULL ? state : "-";
}

/* A stage of several instances: the one that says most. */
static int weight(const char *state) {
    static const char *const plain[] = {"-", "ended", "starting", "waiting", "blocked", "processing"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(state, plain[i]) == 0) return (int)i;
    return (int)(sizeof plain / sizeof *plain);
}

static void describe(const struct progress *progress, const struct session *session, const struct plan *plan,
                     size_t index, const struct tally_stage *stage, struct progress_row *row, double *resolution) {
    snprintf(row->state, sizeof row->state, "-");
    for (size_t i = 0; i < plan->instance_count; i++) {
        if (plan->instances[i].stage != index) continue;
        json_t *beat = status_heartbeat(session, plan->instances[i].name);
        const char *says = activity(progress, stage, beat);
        const char *note = json_string_value(json_object_get(beat, "note"));
        double own = json_number_value(json_object_get(beat, "resolution"));
        if (weight(says) >= weight(row->state)) snprintf(row->state, sizeof row->state, "%s", says);
        if (note != NULL && note[0] != '\0') snprintf(row->note, sizeof row->note, "%s", note);
        if (own > 0) *resolution = own;
        json_decref(beat);
    }
    text_trim(row->state);
    text_trim(row->note);
}

/* The items of a session are those of the last stage that passes items on: they have come all the way. */
static void take_sums(const struct progress *progress, const struct tally *tally, struct progress_sums *sums) {
    sums->elapsed = clock_monotonic() - progress->begun;
    sums->rate = -1;
    sums->made = progress->made;
    sums->made_name = progress->made_name;
    for (size_t i = 0; i < tally->count && i < PROGRESS_STAGES; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        if (stage->left_out || stage->cumulative) continue;
        sums->items = finished(stage);
        if (progress->has_rate) sums->rate = progress->stages[i].rate;
    }
}

static size_t fill_rows(const struct progress *progress, const struct session *session, const struct plan *plan,
                        const struct tally *tally, struct progress_row *rows, struct progress_sums *sums) {
    size_t count = 0;
    take_sums(progress, tally, sums);
    for (size_t i = 0; i < tally->count && i < PROGRESS_STAGES; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        if (stage->left_out) continue;
        rows[count] = (struct progress_row){.name = stage->name,
                                            .seen = stage->seen,
                                            .done = stage->done,
                                            .rejected = stage->rejected,
                                            .failed = stage->failed,
                                            .in_flight = stage->in_flight,
                                            .rate = progress->has_rate ? progress->stages[i].rate : NAN};
        describe(progress, session, plan, i, stage, &rows[count++], &sums->resolution);
    }
    return count;
}

static void draw_table(struct progress *progress, const struct progress_sums *sums, const struct progress_row *rows,
                       size_t count) {
    char *text = NULL;
    size_t length = 0;
    int columns, height;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) return;
    screen_size(&progress->screen, &columns, &height);
    /* Some terminals begin a new line when the last column is full. */
    progress_table(sums, rows, count, columns - 1, out);
    if (fclose(out) == 0) screen_draw(&progress->screen, text);
    free(text);
}

/* Prints "watcher 12/12  lowpass-picker 10/12  refiner 3/4, computing iteration 7 (iteration 6, 8.4 Å)". */
static void draw_line(struct progress *progress, const struct progress_row *rows, size_t count) {
    char line[sizeof progress->last_line] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof line; i++) {
        const struct progress_row *row = &rows[i];
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s %lld/%lld", used ? "  " : "", row->name,
                                 (long long)(row->done + row->rejected + row->failed), (long long)row->seen);
        if (row->failed > 0 && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, ", %lld failed", (long long)row->failed);
        if (weight(row->state) > weight("processing") && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, ", %s", row->state);
        if (row->note[0] != '\0' && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, " (%s)", row->note);
    }
    text_trim(line);
    if (strcmp(line, progress->last_line) == 0) return;
    memcpy(progress->last_line, line, sizeof line);
    fprintf(stderr, "%s\n", line);
}

void progress_draw(struct progress *progress, const struct session *session, const struct plan *plan,
                   const struct tally *tally) {
    struct progress_sums sums = {0};
    take_rates(progress, tally);
    progress_failures(progress, session, tally);
    if (!progress->screen.terminal && clock_monotonic() - progress->last_drawn < LINE_SECONDS) return;
    struct progress_row *rows = calloc(PROGRESS_STAGES, sizeof *rows);
    if (rows == NULL) return;
    if (progress->screen.terminal) progress_count_made(progress, session, tally);
    size_t count = fill_rows(progress, session, plan, tally, rows, &sums);
    if (progress->screen.terminal)
        draw_table(progress, &sums, rows, count);
    else
        draw_line(progress, rows, count);
    progress->last_drawn = clock_monotonic();
    free(rows);
}
