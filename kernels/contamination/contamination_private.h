/* Steps of the contamination mask (kernels/contamination/contamination.h). Maps, masks and labels are [ny][nx] without
 * gaps between rows. */
#ifndef ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_PRIVATE_H
#define ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

/* Coefficients of a paraboloid, in the order x, y, x², xy, y²; x and y run from −1 to 1 over the map. */
enum { BACKGROUND_TERMS = 5 };
/* Fits a paraboloid to the differences between neighbouring tiles of a map. An edge of carbon is a few outliers among
 * the differences, which the fit ignores; a fit to grey values would take the edge for a slope. Returns zeros if nx or
 * ny is less than 24 px. */
void background_fit(const float *map, int nx, int ny, double ret_fit[BACKGROUND_TERMS]);
/* Subtracts a fitted paraboloid, which has no constant term, from a map in place. */
void background_subtract(const double fit[BACKGROUND_TERMS], float *map, int nx, int ny);

/* Labels the connected regions (4 neighbours) of the pixels where `set` equals `value`. labels: 1 .. number of regions;
 * 0 at all other pixels. stack: scratch, [nx · ny]. Returns the number of regions. */
int regions_label(const uint8_t *set, uint8_t value, int nx, int ny, int *labels, int *stack);
/* Grows the mask `set` into the mask `grown`: adds the pixels of `grown` that a path inside `grown` connects with `set`
 * in at most `steps` steps (8 neighbours). stack: scratch, [nx · ny]. */
void regions_grow(uint8_t *set, const uint8_t *grown, int nx, int ny, int steps, int *stack);

#endif
