/* Changes the grid and the band of maps, and copies them. */
#ifndef ICESTREAM_STAGES_REFINER_RESAMPLE_H
#define ICESTREAM_STAGES_REFINER_RESAMPLE_H

#include <stddef.h>

#include "common/status.h"

/* Puts a map of from_box³ onto a grid of box³ by Fourier cropping or padding, then cutting or padding. */
enum status resample_map(const float *map, int from_box, double from_pixel, int box, double pixel_size, float *out,
                         struct err *err);
/* Low-pass filters a map of box³ in place, with a raised cosine from shell − edge to shell; edge 0: sharp. */
enum status lowpass_map(float *map, int box, double shell, double edge, struct err *err);
/* Parts a map into the sum of what lies up to a shell and of what lies beyond. ret_high may be map. */
enum status part_map(const float *map, int box, int shell, float *ret_low, float *ret_high, struct err *err);
/* Copies a map with all threads. */
void copy_map(const float *from, size_t voxels, float *to);

#endif
