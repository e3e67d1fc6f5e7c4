#include "pipelines/launcher/problems.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void problems_init(struct problems *problems, const char *source) {
    *problems = (struct problems){.source = strdup(source)};
    problems->no_memory = problems->source == NULL;
}

void problems_clear(struct problems *problems) {
    for (size_t i = 0; i < problems->count; i++)
        free(problems->list[i].text);
    free(problems->list);
    free(problems->source);
    *problems = (struct problems){0};
}

static bool grow(struct problems *problems) {
    if (problems->count < problems->capacity) return true;
    size_t capacity = problems->capacity ? 2 * problems->capacity : 16;
    struct problem *list = realloc(problems->list, capacity * sizeof *list);
    if (list == NULL) return false;
    problems->list = list;
    problems->capacity = capacity;
    return true;
}

void problems_add(struct problems *problems, enum problem_level level, int line, const char *format, ...) {
    if (level == PROBLEM_ERROR) problems->errors++;
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0 || !grow(problems)) {
        if (length >= 0) free(text);
        problems->no_memory = true;
        return;
    }
    problems->list[problems->count++] = (struct problem){.level = level, .line = line, .text = text};
}

static void sort_by_line(struct problems *problems) {
    for (size_t i = 1; i < problems->count; i++) {
        struct problem moved = problems->list[i];
        size_t j = i;
        for (; j > 0 && problems->list[j - 1].line > moved.line; j--)
            problems->list[j] = problems->list[j - 1];
        problems->list[j] = moved;
    }
}

void problems_print(struct problems *problems, FILE *out) {
    static const char *const names[] = {"error", "warning", "note"};
    sort_by_line(problems);
    const char *source = problems->source ? problems->source : "graph";
    for (size_t i = 0; i < problems->count; i++) {
        const struct problem *p = &problems->list[i];
        if (p->line > 0)
            fprintf(out, "%s:%d: %s: %s\n", source, p->line, names[p->level], p->text);
        else
            fprintf(out, "%s: %s: %s\n", source, names[p->level], p->text);
    }
    if (problems->no_memory) fprintf(out, "%s: error: out of memory; there may be more\n", source);
}
