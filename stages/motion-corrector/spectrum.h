/* The spectrum of a movie as a picture for the CTF: MIC_PS.mrc. */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_SPECTRUM_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_SPECTRUM_H

#include "common/formats/image.h"

struct spectrum_shape {
    int box;           /* px of the movie: side of the tiles */
    int side;          /* px of the picture, even: the middle of the spectrum */
    double pixel_size; /* Å: Nyquist of the picture lies at twice this, never finer than 2.8 Å */
};

/* Returns the shape for movies of nx × ny px of pixel_size Å. The tiles are about 1,000 Å wide. */
struct spectrum_shape spectrum_shape(int nx, int ny, double pixel_size);
/* Fills picture[side][side], zero frequency at (side/2, side/2), with the square root of power[box][box/2 + 1]. */
void spectrum_fill(const struct spectrum_shape *shape, const float *power, float *picture);

#endif
