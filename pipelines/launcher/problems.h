/* Collects everything that is wrong with a graph, each problem with its line, so that the user can correct all in one
 * go. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PROBLEMS_H
#define ICESTREAM_PIPELINES_LAUNCHER_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum problem_level { PROBLEM_ERROR, PROBLEM_WARNING, PROBLEM_NOTE };

struct problem {
    enum problem_level level;
    int line; /* from 1; 0: not in the file, but from --set or about the graph as a whole */
    char *text;
};

struct problems {
    char *source; /* the graph's path, for messages */
    struct problem *list;
    size_t count, capacity;
    size_t errors;
    bool no_memory; /* a problem could not be recorded */
};

/* Begins an empty list. */
void problems_init(struct problems *problems, const char *source);
/* Frees the list. */
void problems_clear(struct problems *problems);
/* Adds one problem; the format is that of printf. */
void problems_add(struct problems *problems, enum problem_level level, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Prints "spa.yaml:7: error: …", in the order of lines; problems without a line come first. */
void problems_print(struct problems *problems, FILE *out);

#endif
