/* Writes the products of a tomogram: SERIES.mrc, SERIES_slices.png, SERIES_residuals.csv (SIRT) and, last, SERIES.json,
 * the record of how and from what it was made; of a preview SERIES_preview.mrc and SERIES_preview.png. Each file is
 * whole or not there. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PRODUCTS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PRODUCTS_H

#include "stages/tilt-reconstructor/reconstruction.h"

struct products {
    const char *tomogram, *slices, *residuals, *record; /* paths; NULL residuals or record: do not write it */
};

/* Writes the products of a tomogram. fingerprint: for the record. */
enum status products_write(const struct reconstruction_settings *settings, const struct reconstruction *reconstruction,
                           const struct products *paths, uint64_t fingerprint, struct err *err);

/* Returns whether the tomogram and its record exist and the record has this fingerprint. */
bool products_are_of(const struct products *paths, uint64_t fingerprint);

/* Draws the three slices through the middle of a volume [nz][ny][nx]: xy below left as IMOD shows it (y upwards), xz
 * above it (z upwards), yz to the right. At most 1024 px a side; mean ± 3 standard deviations go from black to
 * white. */
enum status products_picture(const float *volume, int nx, int ny, int nz, const char *path, struct err *err);

#endif
