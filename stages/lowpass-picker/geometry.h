/* The sizes of a search's maps, and where these lie on their micrograph. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_GEOMETRY_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_GEOMETRY_H

#include "stages/lowpass-picker/picker.h"

/* Sets size, work and band from nx, ny, pixel_size, lowpass and size_rule. */
void geometry_choose_sizes(struct pick_geometry *geometry);

/* In px of the maps: the micrograph's pixel (0, 0), and x0 ≤ x < x1, y0 ≤ y < y1 where centres may lie. */
struct pick_area {
    double x, y;
    int x0, y0, x1, y1;
};
struct pick_area geometry_area(const struct pick_geometry *geometry);

#endif
