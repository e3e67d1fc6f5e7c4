/* Decides where the optics of a microscope come from. There are three orders; for each value, the first source that
 * knows it decides:
 *  - Micrograph: the session, the table (STAR), the header of the file (pixel size only), the defaults. A user sets the
 *    session to correct what a camera or a program wrote.
 *  - Item: the item, the session, the defaults. The stage that made the item has already applied the session to its
 *    micrograph, and the item's pixel size is that of its image, which may be binned.
 *  - Particle: the table, the detector and its magnification (pixel size only), the session (pixel size only), the
 *    header of the stack (pixel size only), the defaults. Particles may be rescaled, so their own pixel size comes
 *    before that of the session; their voltage and aberration come with their CTF, from the table. */
#ifndef ICESTREAM_COMMON_FORMATS_OPTICS_H
#define ICESTREAM_COMMON_FORMATS_OPTICS_H

#include <stdbool.h>

/* NaN: unknown. */
struct optics {
    double pixel_size;           /* Å */
    double voltage;              /* kV */
    double spherical_aberration; /* mm */
    double amplitude_contrast;   /* fraction */
};

/* Returns four unknown values. */
struct optics optics_unknown(void);

/* Return optics in the orders above. The defaults are 300 kV, 2.7 mm and 0.1; the pixel size has no default and may be
 * NaN. Single pixel sizes are in Å; NaN, 0 or less: unknown. */
struct optics optics_of_micrograph(const struct optics *session, const struct optics *table, double header_pixel_size);
struct optics optics_of_item(const struct optics *item, const struct optics *session);
struct optics optics_of_particle(const struct optics *table, double detector_pixel_size, double session_pixel_size,
                                 double header_pixel_size);

/* Returns the pixel size in Å, as tables before RELION 3.1 state it: the pixel of the detector in µm
 * (rlnDetectorPixelSize) over the magnification (rlnMagnification). NaN: one of them is NaN, infinite, 0 or less. */
double optics_pixel_size_of_detector(double detector, double magnification);

/* Returns whether two images have the same pixel size. They may differ by 0.1 % of b: over a box of 512 px, an image is
 * then off by a quarter of a pixel at its edge. False if one is NaN. */
bool optics_same_pixel_size(double a, double b);
/* Returns whether a pixel size in a header confirms the `expected` one. They may differ by 1 %: headers hold nominal and
 * rounded values, and a user is warned only of a wrong one. False if one is NaN. */
bool optics_pixel_size_confirms(double header, double expected);

#endif
