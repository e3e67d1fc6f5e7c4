/* Brings images of particles to one grid (box and pixel size), and takes off what belongs to the image rather than to
 * its CTF: antisymmetric phases, anisotropic magnification, the factor between two detectors.
 *
 * The transform of the image is read where the frequencies of the new grid lie: Y(q) = g(|q|) e^(−iφ(q)) X(M⁻¹ q), q in
 * 1/Å. With the magnification matrix M, as RELION 3.1 has it, an image is X(k) = e^(iφ(Mk)) CTF(Mk) P(Mk), so that Y is
 * an ordinary image: CTF and projection are those at q. If both grids have the same extent and M = 1, frequencies
 * coincide, and coefficients are copied; otherwise X is interpolated with a Kaiser-Bessel window on a grid of twice the
 * size, to 1e-5 of its greatest value. In real space the larger image is cut to the extent of the smaller one, and the
 * smaller one is extended with zeros. White noise keeps its power at each frequency: Y is scaled by pixel sizes, from/to.
 * What lies beyond regrid_limit is taken off. */
#ifndef ICESTREAM_KERNELS_REGRID_REGRID_H
#define ICESTREAM_KERNELS_REGRID_REGRID_H

#include <stddef.h>

#include "common/status.h"
#include "kernels/ctf/aberration.h"

struct regrid_options {
    int from_box, box;                                       /* px, even */
    double from_pixel, pixel_size;                           /* Å */
    double magnification[4];                                 /* M: rows follow each other */
    const struct aberration *odd;                            /* φ; NULL: 0 */
    double (*factor)(const void *context, double frequency); /* g, frequency in 1/Å; NULL: 1 */
    const void *context;
};

/* Returns whether the result would be the image as it is. */
int regrid_changes_nothing(const struct regrid_options *options);
/* Returns the frequency (1/Å) up to which the result holds the image in every direction, 0 if that is all of the new
 * grid's shells. */
double regrid_limit(const struct regrid_options *options);

/* Images that end below the last shell of their grid have less noise than others, although no frequency of them has
 * less. Returns the share that they have of the power of noise whose mean power of a pixel in shell s is spectrum[s].
 * limit: as above, in shells, 0: none; the result is then 1. */
double regrid_share(const float *spectrum, int shells, double limit);
/* Returns the last shell in which such images have the noise of others: a mask takes some out of the shells before the
 * limit, and carries it beyond. */
int regrid_last_shell(int shells, double limit);

struct regrid; /* plans and tables, shared by threads */
enum status regrid_create(const struct regrid_options *options, struct regrid **ret_regrid, struct err *err);
void regrid_destroy(struct regrid **regrid);
/* Returns the floats that regrid_run needs as scratch, aligned to 64 bytes. */
size_t regrid_scratch(const struct regrid *regrid);
/* Returns the floats of an image, rounded up so that scratch behind it is aligned. */
size_t regrid_before_scratch(int box);
/* image: from_box² floats; out: box² floats, may be `image`. */
void regrid_run(const struct regrid *regrid, const float *image, float *scratch, float *out);

#endif
