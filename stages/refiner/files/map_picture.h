/* Draws a map for people: three slices, three projections, its FSC, and the numbers that belong to it. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_MAP_PICTURE_H
#define ICESTREAM_STAGES_REFINER_FILES_MAP_PICTURE_H

#include <stddef.h>

#include "common/status.h"

/* A curve from 1 at zero frequency, with the name that stands beside it. */
struct map_curve {
    const char *name;
    const float *values; /* [box/2 + 1]; NULL: there is none yet */
    double resolution;   /* Å, as tables and log give it, */
    double threshold;    /* at this value of the curve */
};

enum { MAP_CURVES = 2, MAP_PICTURE_WIDTH = 1200 };
struct map_picture {
    int box;           /* px */
    double pixel_size; /* Å */
    const float *map;  /* box³ */
    struct map_curve curves[MAP_CURVES];
    const char *title; /* such as "iteration 7" */
    const char *doubt; /* stands below the title in a colour of its own; NULL: none */
    const char *parts; /* such as "5321 particles" */
};

/* Writes the picture, MAP_PICTURE_WIDTH px wide: central slices and projections along z, y and x with a scale bar, and
 * the curves over the resolution with 0.5 and 0.143 marked. Greys of the slices reach from the half percent of darkest
 * pixels to the 0.2 percent of brightest; so do those of the projections. */
enum status map_picture_write(const struct map_picture *picture, const char *path, struct err *err);

#endif
