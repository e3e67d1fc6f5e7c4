/* Inside the CPU's version.
 *
 * Rows y stand innermost, in blocks of TOMOGRAPHY_LANES: coefficients [block][z][x][lane], projections
 * [block][tilt][ray][lane]. All rows share u(x, z), so that a weight is worked out once and multiplies whole vectors,
 * and nothing is gathered. A *tile* is a piece of a slice small enough that its rows stay in the caches while all tilts
 * pass over it. Rays are padded: ray r of the image stands at r + TOMOGRAPHY_PAD. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_CPU_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_CPU_H

#include <stdint.h>

#include "kernels/tomography/tomography_private.h"

enum {
    TOMOGRAPHY_LANES = 64,
    TOMOGRAPHY_PAD = 4,
    TOMOGRAPHY_TILE_X = 32,
    TOMOGRAPHY_TILE_Z = 16,
    TOMOGRAPHY_TILE = TOMOGRAPHY_TILE_X * TOMOGRAPHY_TILE_Z,
    /* Blocks that share the weights of a tile while these are at hand: in projecting, and in projecting back. */
    TOMOGRAPHY_FORTH = 4,
    TOMOGRAPHY_BACK = 2,
    /* Tilts that are projected back together. */
    TOMOGRAPHY_TILTS = 2
};

/* Returns how many of a voxel's four rays to skip at either end: only rays `skip` to 3 − `skip` can have weights
 * (linear interpolation has two). */
static inline int tomography_skip(const struct tomography_setup *setup) {
    return setup->options.basis == TOMOGRAPHY_VOXEL;
}

/* Weights of every voxel and tilt of a slice, as they are stored (tomography.h). */
struct tomography_matrix_cpu {
    enum tomography_matrix kind;
    const struct tomography_setup *setup;
    size_t voxels;
    float *a, *a1;  /* ELLR: q0 and q1 [4 tilt + k][voxel]; blob-ELLR: f [pair][voxel < half] */
    int32_t *index; /* ELLR: padded rays [4 tilt + k][voxel]; blob-ELLR: floor(u) from the centre */
    size_t bytes;
};
enum status tomography_matrix_create(const struct tomography_setup *setup, enum tomography_matrix kind,
                                     struct tomography_matrix_cpu **ret_matrix, struct err *err);
void tomography_matrix_destroy(struct tomography_matrix_cpu **matrix);

/* The piece z0 .. z0 + depth, x0 .. x0 + width of a slice. */
struct tomography_tile {
    int z0, depth, x0, width;
};
/* The weights of a tile for the rays of one tilt. Voxel (z, x) of the tile is number z × TOMOGRAPHY_TILE_X + x. */
struct tomography_tile_weights {
    int ray[TOMOGRAPHY_TILE]; /* the first of its four rays, padded */
    _Alignas(32) float weight[TOMOGRAPHY_TILE][8];
};
void tomography_matrix_tile(const struct tomography_matrix_cpu *matrix, int tilt, const struct tomography_tile *tile,
                            struct tomography_tile_weights *ret_weights);

/* The same by ray: the voxels of the tile that each ray meets. One loop runs over all of them. Row by row there would
 * be four to eight, and the processor would mispredict the end of each loop. */
struct tomography_meeting {
    int voxel; /* lanes from the tile's first voxel */
    float q0, q1;
};
struct tomography_tile_rays {
    int least, count;                                    /* rays least .. least + count − 1, padded */
    int from[TOMOGRAPHY_TILE_X + TOMOGRAPHY_TILE_Z + 8]; /* of ray least + i: meetings from[i] .. from[i + 1] − 1 */
    struct tomography_meeting meetings[4 * TOMOGRAPHY_TILE];
};
void tomography_tile_by_ray(const struct tomography_setup *setup, const struct tomography_tile *tile,
                            const struct tomography_tile_weights *weights, struct tomography_tile_rays *ret_rays);
/* Adds to rays0 and rays1 [ray][lane] what q0 and q1 make of the coefficients, which begin with the tile's first voxel
 * and have the slice's stride. The pads are not touched, nor is rays1 without a halo. */
void tomography_tile_project(const struct tomography_setup *setup, const struct tomography_tile_rays *rays,
                             const float *coefficients, float *rays0, float *rays1);
/* Adds to sums [voxel of the tile][2][lane] what q0 and q1 make of rays[tilt] [ray][lane], of at most TOMOGRAPHY_TILTS.
 */
void tomography_tile_back_project(const struct tomography_setup *setup, const struct tomography_tile *tile, int tilts,
                                  const struct tomography_tile_weights *weights, const float *const *rays, float *sums);

struct tomography_cpu {
    const struct tomography_setup *setup;
    struct tomography_matrix_cpu *matrix;
    int blocks, threads;
    size_t rays;          /* padded: nx + 2 PAD */
    float *coefficients;  /* [block][z][x][lane] */
    float *measured;      /* [block][tilt][ray][lane] */
    float *rays0, *rays1; /* the same: W c by q0 and q1; then rays0 is what is projected back. rays1 only with a halo */
    float *edges;         /* [block][z][x][2]: what a block's first and last row give to the rows beside it */
    double *sums0, *sums1; /* [tilt][nx] as tomography_sums */
    double *columns0, *columns1;
    double *norms;                          /* [block][tilt] */
    float *scratch;                         /* by thread: sums of a tile of TOMOGRAPHY_BACK blocks */
    struct tomography_tile_weights *tiles;  /* by thread, of TOMOGRAPHY_TILTS */
    struct tomography_tile_rays *tile_rays; /* by thread */
    struct fft_plan *forward, *inverse;     /* WBP */
    float *line;                            /* by thread: padded reals and their transform */
};

/* rays0 (and rays1) = W c. */
void tomography_cpu_project(struct tomography_cpu *cpu);
/* c ← c + λ C Wᵀ rays0, then non-negativity and mask; plain: c ← c + Wᵀ rays0 alone. */
void tomography_cpu_back_project(struct tomography_cpu *cpu, double relaxation, bool plain);
/* rays0 = R (p − W c) of what tomography_cpu_project left; returns Σ R (p − W c)². start: rays0 = R p, or p where
 * plain; returns Σ R p². */
double tomography_cpu_correct(struct tomography_cpu *cpu);
double tomography_cpu_start(struct tomography_cpu *cpu, bool plain);

/* [tilt][y][x] → measured; rays of the pads and lanes beyond ny are 0. */
void tomography_cpu_pack(struct tomography_cpu *cpu, const float *projections);
/* volume [z][y][x] = Σ c b. */
void tomography_cpu_write(struct tomography_cpu *cpu, float *ret_volume);
/* A thread's `line`: reals, then from the second place on their transform. */
static inline size_t tomography_line_complex(const struct tomography_setup *setup) {
    return ((size_t)setup->padded + 15) / 16 * 16;
}
static inline size_t tomography_line_floats(const struct tomography_setup *setup) {
    return 2 * tomography_line_complex(setup) + 16;
}
/* rays0 = shares × ramp × measured. */
void tomography_cpu_filter(struct tomography_cpu *cpu);

#endif
