/* Reads the modulation transfer function of a detector from a STAR file of RELION's form: a table with
 * rlnResolutionInversePixel (1/px of the detector) and rlnMtfValue. */
#ifndef ICESTREAM_COMMON_FORMATS_MTF_H
#define ICESTREAM_COMMON_FORMATS_MTF_H

#include "common/status.h"

struct mtf {
    int count;
    double *frequencies; /* 1/px of the detector, rising */
    double *values;      /* above 0 */
};

/* Reads a file. It must hold two rows or more, frequencies that rise, and values above 0. */
enum status mtf_read(const char *path, struct mtf *ret_mtf, struct err *err);
/* Frees the curve. */
void mtf_clear(struct mtf *mtf);
/* Returns the value at a frequency, between rows by a line; before the first row and behind the last one, theirs. */
double mtf_at(const struct mtf *mtf, double frequency);
/* Fills ret_curve[0 .. box/2] with the values at the shells of a map. detector: pixel size (Å) of the detector's own
 * pixels, before any binning. */
void mtf_fill(const struct mtf *mtf, double detector, int box, double pixel_size, float *ret_curve);

#endif
