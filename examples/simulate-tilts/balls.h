/* Makes a phantom of balls of equal density, and its exact projections: a ray at distance d from the centre of a ball
 * of radius R passes through 2 √(R² − d²) of it. No two parts of the phantom are alike and no plane mirrors it: three
 * large balls mark the axes, the others lie anywhere.
 *
 * Coordinates are in px from the centre of the volume, (N − 1)/2. The geometry is that of
 * kernels/tomography/tomography.h: at tilt θ a point is seen at column x cos θ + z sin θ and row y from the centre of
 * the image. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_TILTS_BALLS_H
#define ICESTREAM_EXAMPLES_SIMULATE_TILTS_BALLS_H

#include <stdint.h>

#include "common/formats/image.h"
#include "common/status.h"

struct ball {
    double x, y, z, radius; /* px */
    double density;         /* per px of a ray */
};

struct balls {
    struct ball *list;
    int count;
};

/* Places `count` balls and the three marks inside a slab of that size. The same seed gives the same balls. */
enum status balls_create(uint64_t seed, int count, int nx, int ny, int nz, struct balls *ret_balls, struct err *err);
void balls_destroy(struct balls *balls);

/* Adds the projection at `angle` (°), moved by (dx, dy) px. Each pixel is the mean of 4 × 4 rays. */
void balls_project(const struct balls *balls, double angle, double dx, double dy, struct image *image);
/* Fills the volume [nz][ny][nx]: each voxel is the mean of 4 × 4 × 4 points. */
void balls_volume(const struct balls *balls, struct image *volume);

#endif
