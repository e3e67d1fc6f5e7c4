/* Declares the parts of tomography on the CPU.
 *
 * Rows y are the fastest axis, in blocks of TOMOGRAPHY_LANES: coefficients [block][z][x][lane], projections
 * [block][tilt][ray][lane]. All rows share u(x, z), so a weight is computed once and multiplies whole vectors without
 * gathers. A tile is a piece of a slice that stays in the caches while all tilts are processed. Rays are padded: ray r
 * of the image stands at r + TOMOGRAPHY_PAD. */
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
    /* Blocks that use the weights of a tile in turn: in the projection, and in the back-projection. */
    TOMOGRAPHY_FORTH = 4,
    TOMOGRAPHY_BACK = 2,
    /* Tilts that are back-projected together. */
    TOMOGRAPHY_TILTS = 2
};

/* Returns how many of a voxel's four rays to skip at either end: only rays `skip` to 3 − `skip` can have weights
 * (linear interpolation has two). */
static inline int tomography_skip(const struct tomography_setup *setup) {
    return setup->options.basis == TOMOGRAPHY_VOXEL;
}

/* The stored weights of each voxel and tilt of a slice (enum tomography_matrix). */
struct tomography_matrix_cpu {
    enum tomography_matrix kind;
    const struct tomography_setup *setup;
    size_t voxels;
    float *a, *a1;  /* ELLR: q0 and q1 [4 tilt + k][voxel]; blob-ELLR: f [pair][voxel < half] */
    int32_t *index; /* ELLR: padded rays [4 tilt + k][voxel]; blob-ELLR: floor(u) from the centre */
    size_t bytes;
};
/* Computes the stored weights. kind: ELLR or blob-ELLR. */
enum status tomography_matrix_create(const struct tomography_setup *setup, enum tomography_matrix kind,
                                     struct tomography_matrix_cpu **ret_matrix, struct err *err);
void tomography_matrix_destroy(struct tomography_matrix_cpu **matrix);

/* The piece z0 ≤ z < z0 + depth, x0 ≤ x < x0 + width of a slice. */
struct tomography_tile {
    int z0, depth, x0, width;
};
/* The weights of a tile for the rays of one tilt. Voxel (z, x) of the tile is number z × TOMOGRAPHY_TILE_X + x. */
struct tomography_tile_weights {
    int ray[TOMOGRAPHY_TILE];                      /* the first of each voxel's four rays, padded */
    _Alignas(32) float weight[TOMOGRAPHY_TILE][8]; /* q0 of the four rays, then q1 */
};
/* Computes or reads the weights of a tile at one tilt. */
void tomography_matrix_tile(const struct tomography_matrix_cpu *matrix, int tilt, const struct tomography_tile *tile,
                            struct tomography_tile_weights *ret_weights);

/* The weights of a tile ordered by ray: a ray has a list of the voxels that it meets. One loop runs over the whole
 * list. A loop per row would make four to eight steps, and the processor would mispredict its end each time. */
struct tomography_meeting {
    int voxel; /* floats from the tile's first voxel to this voxel in the coefficients */
    float q0, q1;
};
struct tomography_tile_rays {
    int least, count;                                    /* rays least .. least + count − 1, padded */
    int from[TOMOGRAPHY_TILE_X + TOMOGRAPHY_TILE_Z + 8]; /* of ray least + i: meetings from[i] .. from[i + 1] − 1 */
    struct tomography_meeting meetings[4 * TOMOGRAPHY_TILE];
};
/* Orders the weights of a tile by ray. */
void tomography_tile_by_ray(const struct tomography_setup *setup, const struct tomography_tile *tile,
                            const struct tomography_tile_weights *weights, struct tomography_tile_rays *ret_rays);
/* Projects a tile: adds Σ q0 c to rays0 and Σ q1 c to rays1, each [ray][lane]. coefficients: c from the tile's first
 * voxel on, with the slice's stride. Does not write pads, nor rays1 without a halo. */
void tomography_tile_project(const struct tomography_setup *setup, const struct tomography_tile_rays *rays,
                             const float *coefficients, float *rays0, float *rays1);
/* Back-projects `tilts` ≤ TOMOGRAPHY_TILTS tilts into a tile: adds Σ q0 r and Σ q1 r to sums [voxel of the
 * tile][2][lane]. rays[tilt]: r, [ray][lane]. */
void tomography_tile_back_project(const struct tomography_setup *setup, const struct tomography_tile *tile, int tilts,
                                  const struct tomography_tile_weights *weights, const float *const *rays, float *sums);

struct tomography_cpu {
    const struct tomography_setup *setup;
    struct tomography_matrix_cpu *matrix;
    int blocks, threads;
    size_t rays;          /* padded: nx + 2 PAD */
    float *coefficients;  /* [block][z][x][lane] */
    float *measured;      /* [block][tilt][ray][lane] */
    float *rays0, *rays1; /* [block][tilt][ray][lane] Σ q0 c and Σ q1 c; later rays0 is r. rays1: only with a halo */
    float *edges;         /* [block][z][x][2]: Σ q1 r of a block's first and last row, for the rows beside the block */
    double *sums0, *sums1;                  /* [tilt][nx], see tomography_sums */
    double *columns0, *columns1;            /* [nz][nx], see tomography_sums */
    double *norms;                          /* [block][tilt] Σ R d² */
    float *scratch;                         /* by thread: sums of a tile of TOMOGRAPHY_BACK blocks */
    struct tomography_tile_weights *tiles;  /* by thread, of TOMOGRAPHY_TILTS */
    struct tomography_tile_rays *tile_rays; /* by thread */
    struct fft_plan *forward, *inverse;     /* WBP */
    float *line;                            /* by thread: padded reals and their transform */
};

/* Projects c to rays0 and, with a halo, rays1. */
void tomography_cpu_project(struct tomography_cpu *cpu);
/* Computes c ← c + λ C Wᵀ rays0, then applies non-negativity and mask. plain: only c ← c + Wᵀ rays0. */
void tomography_cpu_back_project(struct tomography_cpu *cpu, double relaxation, bool plain);
/* tomography_cpu_correct computes rays0 = R (p − W c) from the rays that tomography_cpu_project left, and returns
 * Σ R (p − W c)². tomography_cpu_start computes rays0 = R p, or rays0 = p if plain, and returns Σ R p². */
double tomography_cpu_correct(struct tomography_cpu *cpu);
double tomography_cpu_start(struct tomography_cpu *cpu, bool plain);

/* Copies projections[tilt][y][x] into cpu->measured. Pads and lanes beyond ny become 0. */
void tomography_cpu_pack(struct tomography_cpu *cpu, const float *projections);
/* Computes ret_volume[z][y][x] = Σ c b. */
void tomography_cpu_write(struct tomography_cpu *cpu, float *ret_volume);
/* Return the place of the transform in a thread's `line`, which begins with the reals, and the floats of a `line`. */
static inline size_t tomography_line_complex(const struct tomography_setup *setup) {
    return ((size_t)setup->padded + 15) / 16 * 16;
}
static inline size_t tomography_line_floats(const struct tomography_setup *setup) {
    return 2 * tomography_line_complex(setup) + 16;
}
/* Filters for WBP: rays0 = shares × ramp × measured. */
void tomography_cpu_filter(struct tomography_cpu *cpu);

#endif
