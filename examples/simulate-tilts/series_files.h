/* The files of a simulated series, as microscopes leave them: a stack with .rawtlt and .mdoc, or a file for each tilt
 * and an .mdoc that grows with them. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_TILTS_SERIES_FILES_H
#define ICESTREAM_EXAMPLES_SIMULATE_TILTS_SERIES_FILES_H

#include "examples/simulate-tilts/balls.h"

/* Every `step` from `from` to `to`, by angle, or as dose-symmetric schemes take them: the middle first, then further
 * and further out by turns. angles is freed by the caller. */
enum status tilt_scheme(double from, double to, double step, bool dose_symmetric, double **ret_angles, int *ret_count,
                        struct err *err);

struct series_files_options {
    const char *folder, *name;   /* DIR: images go to DIR/tilts, the truth to DIR/truth; both are there */
    double pixel_size, interval; /* Å; s between files */
    double snr;                  /* variance of the first projection over the noise's; 0: no noise */
    double background;           /* added to every pixel */
    double shift;                /* images lie up to so many px off, either way; the first does not */
    uint64_t seed;
    int nx, ny;
    bool single; /* a file for each tilt */
};

/* DIR/tilts/NAME.st, NAME.rawtlt and NAME.st.mdoc; or NAME_001_0.0.mrc … and NAME.mdoc. And DIR/truth/NAME.xf, which
 * undoes the shifts: a line for each image in the order of the stack. */
enum status series_files_write(const struct series_files_options *options, const struct balls *balls,
                               const double *angles, int count, struct err *err);

#endif
