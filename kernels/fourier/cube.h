/* Transforms between a map of box³ values and the low frequencies of the transform of a cube of padded³, in whose middle
 * the map lies. The rest of the cube holds zeros, or is not wanted, and so do frequencies beyond `reach`: lines of nothing
 * else are not transformed, which takes a quarter of the time of the whole cube or less. On the CPU.
 *
 * Neither direction applies a factor, and phases are those of the cube's first voxel, as in common/fft.h. The same
 * result with any number of threads. */
#ifndef ICESTREAM_KERNELS_FOURIER_CUBE_H
#define ICESTREAM_KERNELS_FOURIER_CUBE_H

#include <stddef.h>

#include "common/fft.h"
#include "common/status.h"

/* Half of the transform: frequencies 0 ≤ x ≤ reach, |y| and |z| ≤ reach; those beyond Nyquist stand for what the period
 * of the transform puts there. */
struct fourier_cube {
    int box, padded, reach, threads;
    int columns, rows; /* values of a line along x, filled up; lines of a plane */
    float *values;     /* [padded][rows][columns] complex: re, im */
    float *planes;     /* [threads]: a plane of a thread */
    size_t plane_floats;
    struct fft_plan *along_z, *along_y, *along_x;
};

/* Makes plans and takes memory for one direction, with values of zero. box and padded: even; 0 < reach ≤ padded/2 + 1.
 * threads: 0 counts as 1. */
enum status fourier_cube_create(int box, int padded, int reach, enum fft_direction direction, int threads,
                                struct fourier_cube *ret_cube, struct err *err);
void fourier_cube_destroy(struct fourier_cube *cube);

/* Returns the line of x = 0 .. min(reach, padded/2) at these frequencies. */
static inline float *fourier_cube_line(const struct fourier_cube *cube, int z, int y) {
    int n = cube->padded, row = cube->rows == n ? (y + n) % n : y + cube->reach;
    return cube->values + 2 * ((size_t)((z + n) % n) * (size_t)cube->rows + (size_t)row) * (size_t)cube->columns;
}

/* Fills the values from map[box³] · factors[squared distance from the voxel box/2 of each side, in voxels]. */
void fourier_cube_forward(struct fourier_cube *cube, const float *map, const float *factors);
/* Fills ret_map[box³], times scale, from the values, which are lost. */
void fourier_cube_inverse(struct fourier_cube *cube, float scale, float *ret_map);

#endif
