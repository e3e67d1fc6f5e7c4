/* Numbers about the exposures of a session, for alarms and metrics: medians of the quantities that a microscopist
 * watches, rates and reasons. Reads a view alone. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_EXPOSURES_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_EXPOSURES_H

#include "pipelines/launcher/alarms/judge.h"
#include "pipelines/launcher/view/view.h"

/* The columns of a quantity in a view. first −1: no exposure has it. */
struct exposures_column {
    int first, second; /* second −1: none; else the quantity is the mean of both */
    double factor;     /* from the column's unit to that of the quantity */
};
struct exposures_column exposures_column(const struct view *view, enum alarm_quantity quantity);
/* Returns the quantity of a row; NaN: it has none. */
double exposures_value(const struct view *view, struct exposures_column column, size_t row);
/* Copies the values of the last rows that have one, newest first, `most` at most. Returns how many. */
size_t exposures_recent(const struct view *view, struct exposures_column column, size_t most, double *values);

/* Returns when the newest exposure was found, s since 1970; NaN: there is none. */
double exposures_last(const struct view *view);
/* Returns how many exposures were found within the last `span` s. */
size_t exposures_within(const struct view *view, double now, double span);
/* Returns the median time between the last 101 exposures (s); NaN for fewer than 3. */
double exposures_interval(const struct view *view);

/* Writes a reason without what differs from exposure to exposure, so that reasons can be counted: "rlnCtfMaxResolution
 * 12.3 > 10 (reject_if)" becomes "rlnCtfMaxResolution > 10". The name of a file at the beginning goes; other numbers become N. */
void exposures_reason(const char *reason, char *text, size_t size);

#endif
