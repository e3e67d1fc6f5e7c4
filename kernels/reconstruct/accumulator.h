/* What an accumulator is made of: for the files of this folder only.
 *
 * The half grid about the origin: [z][y][x], x = 0 .. reach, y and z = −reach .. reach (z = 0 alone in 2-D), where
 * reach = PAD r_max + 1, so that every trilinear corner of a point within PAD r_max is inside. A voxel is four doubles,
 * re im weight 0: one vector, added with one instruction. */
#ifndef ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_H
#define ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_H

#include <stddef.h>

#include "kernels/reconstruct/reconstruct.h"

enum { ACCUMULATOR_PAD = 2 };

typedef double accumulator_voxel __attribute__((vector_size(32)));

struct accumulator {
    int dimensions, box;
    int r_max, reach;
    int nx, ny, nz;
    accumulator_voxel *voxels;
    size_t capacity;
};

/* Row x = 0 .. at y, z relative to the origin. */
static inline accumulator_voxel *accumulator_row(const struct accumulator *a, int z, int y) {
    size_t plane = a->dimensions == 3 ? (size_t)(z + a->reach) : 0;
    return a->voxels + (plane * (size_t)a->ny + (size_t)(y + a->reach)) * (size_t)a->nx;
}

/* The planes there are: −reach .. reach, or 0 .. 0 in 2-D. */
static inline int accumulator_first_plane(const struct accumulator *a) {
    return a->dimensions == 3 ? -a->reach : 0;
}

#endif
