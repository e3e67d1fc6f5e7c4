/* Steps of the contamination mask (kernels/contamination/contamination.h). Maps, masks and labels are [ny][nx] without
 * gaps between rows. */
#ifndef ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_PRIVATE_H
#define ICESTREAM_KERNELS_CONTAMINATION_CONTAMINATION_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/contamination/contamination.h"

enum { CONTAMINATION_LINES = 3 };
struct contamination {
    struct contamination_options options;
    int bin, nx, ny;                 /* of the maps below, for the area of this run */
    float *map;                      /* [ny][nx] binned, without background */
    double *sums, *squares, *counts; /* [ny+1][nx+1] summed-area tables */
    float *mean, *widest, *rows;     /* box means as |z|, their maxima nearby, scratch */
    float *strength, *values;
    uint8_t *seed, *grown, *rough, *rough_core;
    double *lines[CONTAMINATION_LINES + 1]; /* [nx + 1] sums over boxes, scratch */
    int *labels, *stack, *area;
    float *peak; /* [regions + 1] */
    float *line; /* [work] */
    uint32_t *bins;
};

static inline size_t pixels_of(const struct contamination *c) {
    return (size_t)c->nx * (size_t)c->ny;
}

/* Sets the area and the greatest strength of each of the labelled regions. */
void contamination_measure(struct contamination *c, int count);
/* Removes the objects from the seeds that are particles: as small and as strong as many others. diameter: bins. */
void contamination_spare(struct contamination *c, double diameter);

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
