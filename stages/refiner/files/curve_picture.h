/* The lower part of the picture of a map: its curves over the resolution. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_CURVE_PICTURE_H
#define ICESTREAM_STAGES_REFINER_FILES_CURVE_PICTURE_H

#include "common/formats/canvas.h"
#include "stages/refiner/files/map_picture.h"

struct curve_place {
    int x, y, nx, ny; /* px on the canvas */
};
/* Draws axes, curves, the thresholds 0.5 and 0.143, and the resolution at both in words. */
void curve_picture_draw(struct canvas *canvas, const struct curve_place *place, const struct map_picture *picture);

#endif
