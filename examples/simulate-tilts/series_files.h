/* Writes the files of a simulated series as microscopes do: a stack with .rawtlt and .mdoc, or a file for each tilt
 * and an .mdoc that grows with them. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_TILTS_SERIES_FILES_H
#define ICESTREAM_EXAMPLES_SIMULATE_TILTS_SERIES_FILES_H

#include "examples/simulate-tilts/balls.h"

/* Lists the tilts, every `step` from `from` to `to`: by angle, or dose-symmetric, from the middle outwards by turns.
 * The caller frees *ret_angles. */
enum status tilt_scheme(double from, double to, double step, bool dose_symmetric, double **ret_angles, int *ret_count,
                        struct err *err);

struct series_files_options {
    const char *folder, *name;   /* DIR: images go to DIR/tilts, the truth to DIR/truth; both exist */
    double pixel_size, interval; /* Å; s between files */
    double snr;                  /* variance of the first projection over the noise's; 0: no noise */
    double background;           /* added to every pixel */
    double shift;                /* px: largest shift of an image, either way; the first is not shifted */
    uint64_t seed;
    int nx, ny;
    bool single; /* a file for each tilt */
};

/* Writes DIR/tilts/NAME.st, NAME.rawtlt and NAME.st.mdoc; or NAME_001_0.0.mrc … and NAME.mdoc. Writes DIR/truth/NAME.xf
 * too, which undoes the shifts: a line for each image in the order of the stack. */
enum status series_files_write(const struct series_files_options *options, const struct balls *balls,
                               const double *angles, int count, struct err *err);

#endif
