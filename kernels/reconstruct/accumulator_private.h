/* Parts of an accumulator. For the files of this folder only.
 *
 * Half grid about the origin: [z][y][x], x = 0 .. reach, y and z = −reach .. reach (only z = 0 in 2D). reach = PAD
 * r_max + 1, so that every trilinear corner of a point within PAD r_max is inside. A voxel is four doubles, re im
 * weight 0: one vector, which one instruction adds. */
#ifndef ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_PRIVATE_H
#define ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_PRIVATE_H

#include <stddef.h>

#include "kernels/reconstruct/reconstruct.h"

enum { ACCUMULATOR_PAD = 2 };

typedef double accumulator_voxel __attribute__((vector_size(32)));

/* Memory in which the host makes a map. */
struct map_space {
    struct fft_plan *plan;
    float *spectrum, *padded;
    float *correction; /* corrects a map for interpolation, by squared distance from its centre */
};
/* Frees the memory. */
void map_space_clear(struct map_space *space);

struct accumulator {
    int dimensions, box;
    int r_max, reach;
    int nx, ny, nz;
    accumulator_voxel *voxels; /* in host memory */
    size_t capacity;
    const struct accumulator_work *work; /* chosen by where the sums lie */
    struct workspace *workspace;         /* holds the sums; NULL: host memory */
    double *device_voxels;
    struct map_space *space;  /* for 2D maps: kept, because there are many and each is little work */
    struct workspace *beside; /* sums in host memory are copied there for each step of work */
};

static inline size_t accumulator_voxels(const struct accumulator *a) {
    return (size_t)a->nx * (size_t)a->ny * (size_t)a->nz;
}

/* Ops table: members do what the functions of reconstruct.h do. accumulator.c checks the arguments first. */
struct accumulator_work {
    /* Takes zeroed memory, from the workspace or from the host, for the shape that is already set. */
    enum status (*clear)(struct accumulator *a, struct workspace *workspace_or_null, struct err *err);
    enum status (*finish)(struct accumulator *a, const struct symmetry *symmetry_or_null, int threads, struct err *err);
    enum status (*merge)(struct accumulator *a, const struct accumulator *b, struct err *err);
    enum status (*join_shells)(struct accumulator *a, struct accumulator *b, int shells, struct err *err);
    enum status (*fsc)(const struct accumulator *a, const struct accumulator *b, float *ret_fsc, struct err *err);
    enum status (*sigma2)(const struct accumulator *a, float *ret_sigma2, struct err *err);
    enum status (*map)(const struct accumulator *a, const struct reconstruct_options *options, float *map,
                       float *ret_data_vs_prior, float *ret_completeness, struct err *err);
    /* Does reconstruct_scratch; NULL on the CPU. */
    enum status (*scratch)(struct workspace *workspace, int dimensions, int box, int size,
                           const struct symmetry *symmetry_or_null, size_t *ret_bytes, struct err *err);
    /* The table for sums in host memory that this device works on; NULL on the CPU */
    const struct accumulator_work *beside;
};
extern const struct accumulator_work accumulator_cpu_work;
/* Built with CUDA only. */
extern const struct accumulator_work accumulator_cuda_work, accumulator_beside_work;

/* Members of accumulator_cpu_work; accumulator_beside_work uses some of them, too. They work on sums in host memory,
 * and do what the functions of reconstruct.h of these names do. */
enum status accumulator_cpu_finish(struct accumulator *a, const struct symmetry *symmetry_or_null, int threads,
                                   struct err *err);
enum status accumulator_cpu_merge(struct accumulator *a, const struct accumulator *b, struct err *err);
enum status accumulator_cpu_join_shells(struct accumulator *a, struct accumulator *b, int shells, struct err *err);
enum status accumulator_cpu_fsc(const struct accumulator *a, const struct accumulator *b, float *ret_fsc,
                                struct err *err);
enum status accumulator_cpu_sigma2(const struct accumulator *a, float *ret_sigma2, struct err *err);
enum status accumulator_cpu_map(const struct accumulator *a, const struct reconstruct_options *options, float *map,
                                float *ret_data_vs_prior, float *ret_completeness, struct err *err);

/* Returns the row x = 0 .. at y, z relative to the origin. */
static inline accumulator_voxel *accumulator_row(const struct accumulator *a, int z, int y) {
    size_t plane = a->dimensions == 3 ? (size_t)(z + a->reach) : 0;
    return a->voxels + (plane * (size_t)a->ny + (size_t)(y + a->reach)) * (size_t)a->nx;
}

/* Returns the padded radius below which grid points go into a map with shells FLOOR(r / PAD) up to last_shell (0: all
 * shells). */
static inline int accumulator_map_limit(int r_max, int last_shell) {
    return ACCUMULATOR_PAD * (last_shell <= 0 || last_shell >= r_max ? r_max : last_shell + 1);
}

/* Returns the first plane: planes are −reach .. reach, or 0 .. 0 in 2D. */
static inline int accumulator_first_plane(const struct accumulator *a) {
    return a->dimensions == 3 ? -a->reach : 0;
}

#endif
