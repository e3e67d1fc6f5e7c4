/* Lays out the live table of a run for the width of a terminal. Knows no terminal and no session, so that tests can ask for
 * any width. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PROGRESS_TABLE_H
#define ICESTREAM_PIPELINES_LAUNCHER_PROGRESS_TABLE_H

#include <stdint.h>
#include <stdio.h>

struct progress_row {
    const char *name;
    int64_t seen, done, rejected, failed, in_flight;
    double rate;               /* items per minute; NaN: not known yet */
    char state[96], note[512]; /* what the stage does now; what it says of itself */
};

/* Values of the whole session; below 0: not known. */
struct progress_sums {
    double elapsed; /* s */
    int64_t items;  /* finished */
    double rate;    /* items per minute */
    int64_t made;   /* particles, or picks while there are none */
    const char *made_name;
    double resolution; /* Å */
};

/* Prints one line of the sums ("0:12:34   128 items   12.3 per minute   34567 particles   8.4 Å"), the headings, and a
 * line for each stage. No line is wider than `width` columns. The columns that matter least are left out where there is
 * no room for them; a state or note that is too long goes on in further lines. No number is cut. */
void progress_table(const struct progress_sums *sums, const struct progress_row *rows, size_t count, int width,
                    FILE *out);

#endif
