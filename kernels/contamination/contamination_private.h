/* Parts of the contamination mask, on maps [ny][nx] without gaps. */
#ifndef ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_PRIVATE_H
#define ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

/* Terms of a paraboloid: x, y, x², xy, y²; x and y run from −1 to 1 over the map. */
enum { BACKGROUND_TERMS = 5 };
/* Fits a paraboloid to the differences between neighbouring tiles of a map: an edge of carbon is a few outliers there,
 * not a slope. Zeros for maps of less than 24 px. */
void background_fit(const float *map, int nx, int ny, double ret_fit[BACKGROUND_TERMS]);
void background_subtract(const double fit[BACKGROUND_TERMS], float *map, int nx, int ny);

/* Labels the connected regions (4 neighbours) of the pixels where `set` is `value`: from 1 in labels, 0 elsewhere.
 * stack: nx ny. Returns the number of regions. */
int regions_label(const uint8_t *set, uint8_t value, int nx, int ny, int *labels, int *stack);
/* Adds the pixels of `grown` that can be reached from `set` in `steps` steps (8 neighbours). stack: nx ny. */
void regions_grow(uint8_t *set, const uint8_t *grown, int nx, int ny, int steps, int *stack);

#endif
