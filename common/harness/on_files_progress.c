/* Shows how far a run on files is: on a terminal a bar that is drawn again in place, elsewhere a line now and then. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"
#include "common/text.h"

static const double DRAW_PAUSE = 0.25, LINE_PAUSE = 5, LINE_PAUSE_MOST = 120;
enum { BAR = 20, LINE_SIZE = 512 };

struct files_progress {
    pthread_mutex_t lock; /* of the screen, which warnings of other threads use too */
    struct screen screen;
    char last[LINE_SIZE];
    double begun, next, pause;
    size_t total;
};

static void write_log_line(void *context, const char *line) {
    struct files_progress *progress = context;
    pthread_mutex_lock(&progress->lock);
    screen_say(&progress->screen, line);
    pthread_mutex_unlock(&progress->lock);
}

void files_progress_begin(struct stage *stage, size_t total) {
    if (stage->mode != STAGE_ON_FILES) return;
    struct files_progress *progress = calloc(1, sizeof *progress);
    if (progress == NULL) return; /* the run does without */
    pthread_mutex_init(&progress->lock, NULL);
    screen_begin(&progress->screen, STDERR_FILENO);
    progress->begun = clock_monotonic();
    progress->pause = progress->screen.terminal ? DRAW_PAUSE : LINE_PAUSE;
    progress->next = progress->begun + progress->pause;
    progress->total = total;
    if (progress->screen.terminal) log_set_screen(stage->log, write_log_line, progress);
    stage->files_progress = progress;
}

void files_progress_end(struct stage *stage) {
    struct files_progress *progress = stage->files_progress;
    if (progress == NULL) return;
    log_set_screen(stage->log, NULL, NULL);
    if (progress->screen.terminal) screen_wipe(&progress->screen);
    pthread_mutex_destroy(&progress->lock);
    mem_free(&stage->files_progress);
}

static void print_time(double seconds, FILE *out) {
    long long whole = (long long)seconds;
    fprintf(out, "%lld:%02d:%02d", whole / 3600, (int)(whole / 60 % 60), (int)(whole % 60));
}

static void print_bar(const struct files_sums *sums, FILE *out) {
    size_t full = sums->total > 0 ? BAR * sums->finished / sums->total : 0;
    for (size_t i = 0; i < BAR; i++)
        fputs(i < full ? "█" : "░", out);
    fputs("  ", out);
}

void files_progress_print(const struct files_sums *sums, bool bar, FILE *out) {
    bool counts = sums->total > 0, going = counts && sums->finished < sums->total;
    if (bar && going) print_bar(sums, out);
    if (counts) fprintf(out, "%zu of %zu  ", sums->finished, sums->total);
    if (sums->failed > 0) fprintf(out, "%zu failed  ", sums->failed);
    if (going && sums->finished > 0 && sums->elapsed > 0) {
        double each = sums->elapsed / (double)sums->finished;
        fprintf(out, "%.*f per minute  ", 60 / each < 10 ? 1 : 0, 60 / each);
        print_time(ceil(each * (double)(sums->total - sums->finished)), out);
        fputs(" left", out);
    } else {
        print_time(sums->elapsed, out);
    }
    if (!going && sums->doing[0] != '\0') fprintf(out, "  %s", sums->doing);
    if (!going && sums->note[0] != '\0') fprintf(out, "  (%s)", sums->note);
}

/* Breaks the line at the width of the terminal. */
static void draw(struct files_progress *progress, const char *text) {
    char lines[2 * LINE_SIZE];
    size_t used = 0;
    int columns, rows;
    screen_size(&progress->screen, &columns, &rows);
    for (const char *at = text; *at != '\0';) {
        size_t bytes = screen_break(at, (size_t)(columns > 8 ? columns - 1 : 8));
        int length = snprintf(lines + used, sizeof lines - used, "%.*s\n", (int)bytes, at);
        if (length < 0 || (size_t)length >= sizeof lines - used) break;
        used += (size_t)length;
        at += bytes;
        while (*at == ' ' || *at == '\n')
            at++;
    }
    lines[used] = '\0';
    pthread_mutex_lock(&progress->lock);
    screen_draw(&progress->screen, lines);
    pthread_mutex_unlock(&progress->lock);
}

static void show(struct files_progress *progress, const char *name, const struct files_sums *sums) {
    char text[LINE_SIZE] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    if (out == NULL) return;
    files_progress_print(sums, progress->screen.terminal, out);
    fclose(out);
    text_trim(text);
    if (progress->screen.terminal)
        draw(progress, text);
    else
        fprintf(stderr, "icestream-%s: %s\n", name, text);
}

void files_progress_wait(struct stage *stage) {
    struct files_progress *progress = stage->files_progress;
    stage_wait_until(stage, progress != NULL ? progress->next : INFINITY);
    if (progress == NULL || clock_monotonic() < progress->next) return;
    struct files_sums sums = {.elapsed = clock_monotonic() - progress->begun,
                              .total = progress->total,
                              .finished = (size_t)stage->done_ticket,
                              .failed = (size_t)atomic_load(&stage->metrics.failed)};
    metrics_texts(&stage->metrics, sums.doing, sums.note);
    /* A terminal may stand still (Ctrl-S): the threads must not wait for it. */
    stage_unlock(stage);
    show(progress, stage->name, &sums);
    stage_lock(stage);
    /* A log of a long run gets fewer lines. */
    if (!progress->screen.terminal && progress->pause < LINE_PAUSE_MOST) progress->pause *= 1.5;
    progress->next = clock_monotonic() + progress->pause;
}
