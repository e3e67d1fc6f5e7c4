/* Writes samples in Prometheus' text format: one block for each family, label values with their escapes. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_METRICS_METRICS_TEXT_H
#define ICESTREAM_PIPELINES_LAUNCHER_METRICS_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct metrics_text {
    FILE *out;
    const char *session; /* value of the label that each sample of a session carries */
    const char *name;    /* of the family that is written */
    const char *type, *help;
    bool begun; /* the family's head is written; a family without samples has none */
};

/* Begins a family. type: gauge, counter or histogram. The strings are borrowed until the next family. */
void metrics_family(struct metrics_text *text, const char *name, const char *type, const char *help);
/* Adds a sample to the family. Labels are pairs of name and value, ended by NULL. A NaN writes nothing. */
void metrics_sample(struct metrics_text *text, double value, ...) __attribute__((sentinel));
/* Adds a histogram: counts are cumulative, count + 1 of them, the last one for +Inf. */
void metrics_histogram(struct metrics_text *text, const double *limits, const double *counts, size_t count, double sum,
                       const char *label, const char *value);

#endif
