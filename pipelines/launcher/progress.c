#include "pipelines/launcher/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "pipelines/launcher/status.h"

static const double LINE_SECONDS = 3, RATE_SECONDS = 10;

void progress_begin(struct progress *progress, struct log *log) {
    *progress = (struct progress){.terminal = isatty(STDERR_FILENO) == 1, .last_drawn = -1e9, .log = log};
}

/* The terminal echoes Ctrl-C as ^C where the cursor is, so the cursor goes to the first column before it goes up. */
static void wipe(struct progress *progress) {
    if (progress->lines > 0) fprintf(stderr, "\r\033[%dA\033[J", progress->lines);
    progress->lines = 0;
}

void progress_say(struct progress *progress, const char *text) {
    wipe(progress);
    fprintf(stderr, "icestream: %s\n", text);
    log_write(progress->log, LOG_INFO, "launcher", "%s", text);
}

void progress_end(struct progress *progress) {
    progress->lines = 0;
}

static void take_rates(struct progress *progress, const struct tally *tally) {
    double passed = clock_monotonic() - progress->last_rate;
    /* The work of an earlier run does not count. */
    bool first = progress->last_rate == 0;
    if (!first && passed < RATE_SECONDS) return;
    for (size_t i = 0; i < tally->count && i < PROGRESS_STAGES; i++) {
        progress->rate[i] = 60 * (double)(tally->stages[i].done - progress->rate_done[i]) / passed;
        progress->rate_done[i] = tally->stages[i].done;
    }
    progress->last_rate = clock_monotonic();
    progress->has_rate = !first;
}

/* Describes the instances of a stage: the busiest state, the last note. */
static void describe(const struct session *session, const struct plan *plan, size_t stage, char *state, char *note,
                     size_t size) {
    snprintf(state, size, "-");
    note[0] = '\0';
    for (size_t i = 0; i < plan->instance_count; i++) {
        if (plan->instances[i].stage != stage) continue;
        json_t *beat = status_heartbeat(session, plan->instances[i].name);
        const char *says = json_string_value(json_object_get(beat, "state"));
        const char *remark = json_string_value(json_object_get(beat, "note"));
        if (says != NULL && (strcmp(state, "processing") != 0 || strcmp(says, "processing") == 0))
            snprintf(state, size, "%.20s", says);
        if (remark != NULL && remark[0] != '\0') snprintf(note, size, "%s", remark);
        json_decref(beat);
    }
}

enum { WIDE = 110 };

static int terminal_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : WIDE;
}

/* Cuts the row at the width of the terminal: a longer row would take two lines, and the table could not be redrawn in
 * place. */
static void draw_row(char *row, int width) {
    char *end = row;
    /* Continuation bytes of UTF-8 (as in Å) take no column. */
    for (int columns = 0; *end != '\0'; end++)
        if (((unsigned char)*end & 0xC0) != 0x80 && ++columns > width) break;
    while (end > row && end[-1] == ' ')
        end--;
    *end = '\0';
    fprintf(stderr, "%s\n", row);
}

static void draw_table(struct progress *progress, const struct session *session, const struct plan *plan,
                       const struct tally *tally) {
    wipe(progress);
    char row[512];
    int width = terminal_width();
    /* When there is little room, the note is more useful than the state. */
    bool wide = width >= WIDE;
    snprintf(row, sizeof row, "%-18s %6s %6s %8s %6s %9s %8s  %s%s", "stage", "seen", "done", "rejected", "failed",
             "in flight", "per min", wide ? "state      " : "", "note");
    draw_row(row, width);
    progress->lines = 1;
    for (size_t i = 0; i < tally->count && i < PROGRESS_STAGES; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        char state[96], note[96], rate[16] = "";
        if (stage->left_out) continue;
        describe(session, plan, i, state, note, sizeof note);
        if (progress->has_rate) snprintf(rate, sizeof rate, "%.1f", progress->rate[i]);
        if (!wide) snprintf(state, sizeof state, "%s", note[0] != '\0' ? "" : "-");
        snprintf(row, sizeof row, "%-18.18s %6lld %6lld %8lld %6lld %9lld %8s  %-*s%s", stage->name,
                 (long long)stage->seen, (long long)stage->done, (long long)stage->rejected, (long long)stage->failed,
                 (long long)stage->in_flight, rate, wide ? 11 : 0, state, note);
        draw_row(row, width);
        progress->lines++;
    }
}

/* Prints "watcher 12  lowpass-picker 10/12  refiner 3/4 (iteration 7, 8.4 Å)". */
static void draw_line(struct progress *progress, const struct session *session, const struct plan *plan,
                      const struct tally *tally) {
    char line[sizeof progress->last_line] = "";
    size_t used = 0;
    for (size_t i = 0; i < tally->count && used < sizeof line; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        char state[96], note[96];
        if (stage->left_out) continue;
        describe(session, plan, i, state, note, sizeof note);
        long long finished = (long long)(stage->done + stage->rejected + stage->failed);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s %lld/%lld", used ? "  " : "", stage->name,
                                 finished, (long long)stage->seen);
        if (stage->failed > 0 && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, ", %lld failed", (long long)stage->failed);
        if (note[0] != '\0' && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, " (%s)", note);
    }
    if (strcmp(line, progress->last_line) == 0) return;
    memcpy(progress->last_line, line, sizeof line);
    fprintf(stderr, "%s\n", line);
}

void progress_draw(struct progress *progress, const struct session *session, const struct plan *plan,
                   const struct tally *tally) {
    take_rates(progress, tally);
    if (progress->terminal) {
        draw_table(progress, session, plan, tally);
    } else if (clock_monotonic() - progress->last_drawn >= LINE_SECONDS) {
        draw_line(progress, session, plan, tally);
        progress->last_drawn = clock_monotonic();
    }
}
