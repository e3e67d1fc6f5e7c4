/* Prints the result of a run on files: what was made, and where it lies. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/harness/stage_private.h"
#include "common/memory.h"

/* Items that one item brings: their number in an item, and their name, which is a word of the descriptor's `out`. */
static const char *const made[][2] = {{"$.picks.count", "picks"}, {"$.particles.count", "particles"}};

void stage_incomplete(struct stage *stage) {
    stage_lock(stage);
    stage->incomplete = true;
    stage_unlock(stage);
}

void stage_result(struct stage *stage, const char *const *files, const char *format, ...) {
    char *text = NULL;
    va_list args;
    if (stage->mode != STAGE_ON_FILES) return;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) return;
    stage_lock(stage);
    free(stage->result.text);
    stage->result.text = text;
    stage->result.files = files;
    stage_unlock(stage);
}

void stage_result_clear(struct stage *stage) {
    mem_free(&stage->result.text);
    stage->result.files = NULL;
}

static void print_made(struct stage *stage, long long items) {
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        int64_t sum = 0;
        if (strstr(stage->descriptor->out, made[i][1]) == NULL ||
            ledger_sum(stage->ledger, made[i][0], &sum, NULL) != STATUS_OK)
            continue;
        fprintf(stderr, "icestream-%s: %" PRId64 " %s of %lld %s\n", stage->name, sum, made[i][1], items,
                items == 1 ? "item" : "items");
    }
}

/* Paths below the working directory are shown as the user would type them. */
static const char *shown_path(const char *path) {
    char here[PATH_SIZE];
    const char *rest;
    bool below = getcwd(here, sizeof here) != NULL && path_is_below(path, here, &rest) && rest[0] != '\0';
    return below ? path + (rest - path) : path;
}

static void print_files(const struct stage *stage) {
    for (size_t i = 0; stage->result.files != NULL && stage->result.files[i] != NULL; i++) {
        char path[PATH_SIZE];
        if (path_join(stage->folder, stage->result.files[i], path, sizeof path, NULL) == STATUS_OK && file_exists(path))
            fprintf(stderr, "  %s\n", shown_path(path));
    }
}

void stage_print_result(struct stage *stage, long long done) {
    if (done == 0 && stage->descriptor->produce == NULL) return;
    print_made(stage, done);
    const char *text = stage->result.text != NULL ? stage->result.text : "";
    bool noted = text[0] == '\0' && stage->descriptor->cumulative;
    if (noted) text = stage->metrics.note;
    if (text[0] != '\0') fprintf(stderr, "icestream-%s: %s\n", stage->name, text);
    print_files(stage);
}
