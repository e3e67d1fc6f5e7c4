/* What an accumulator is made of: for the files of this folder only.
 *
 * The half grid about the origin: [z][y][x], x = 0 .. reach, y and z = −reach .. reach (z = 0 alone in 2-D), where
 * reach = PAD r_max + 1, so that every trilinear corner of a point within PAD r_max is inside. A voxel is four doubles,
 * re im weight 0: one vector, added with one instruction. */
#ifndef ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_PRIVATE_H
#define ICESTREAM_KERNELS_RECONSTRUCT_ACCUMULATOR_PRIVATE_H

#include <stddef.h>

#include "kernels/reconstruct/reconstruct.h"

enum { ACCUMULATOR_PAD = 2 };

typedef double accumulator_voxel __attribute__((vector_size(32)));

/* What a map is made in on the host. */
struct map_space {
    struct fft_plan *plan;
    float *spectrum, *padded;
    float *correction; /* what interpolation makes of a map, by squared distance from its centre */
};
void map_space_clear(struct map_space *space);

struct accumulator {
    int dimensions, box;
    int r_max, reach;
    int nx, ny, nz;
    accumulator_voxel *voxels; /* the host's */
    size_t capacity;
    const struct accumulator_work *work; /* what is done with it where it lies */
    struct workspace *workspace;         /* where that is; NULL: on the host */
    double *device_voxels;
    struct map_space *space;  /* of 2-D maps: kept, as there are many and each is little work */
    struct workspace *beside; /* to which they are brought from the host for a moment */
};

static inline size_t accumulator_voxels(const struct accumulator *a) {
    return (size_t)a->nx * (size_t)a->ny * (size_t)a->nz;
}

/* As the functions of reconstruct.h, which look after what they are given. */
struct accumulator_work {
    enum status (*finish)(struct accumulator *a, const struct symmetry *symmetry_or_null, int threads, struct err *err);
    enum status (*merge)(struct accumulator *a, const struct accumulator *b, struct err *err);
    enum status (*join_shells)(struct accumulator *a, struct accumulator *b, int shells, struct err *err);
    enum status (*fsc)(const struct accumulator *a, const struct accumulator *b, float *ret_fsc, struct err *err);
    enum status (*sigma2)(const struct accumulator *a, float *ret_sigma2, struct err *err);
    enum status (*map)(const struct accumulator *a, const struct reconstruct_options *options, float *map,
                       float *ret_data_vs_prior, float *ret_completeness, struct err *err);
};
extern const struct accumulator_work accumulator_host_work;
/* Built where CUDA is. */
extern const struct accumulator_work accumulator_device_work, accumulator_beside_work;

enum status accumulator_host_finish(struct accumulator *a, const struct symmetry *symmetry_or_null, int threads,
                                    struct err *err);
enum status accumulator_host_merge(struct accumulator *a, const struct accumulator *b, struct err *err);
enum status accumulator_host_join_shells(struct accumulator *a, struct accumulator *b, int shells, struct err *err);
enum status accumulator_host_fsc(const struct accumulator *a, const struct accumulator *b, float *ret_fsc,
                                 struct err *err);
enum status accumulator_host_sigma2(const struct accumulator *a, float *ret_sigma2, struct err *err);
enum status accumulator_host_map(const struct accumulator *a, const struct reconstruct_options *options, float *map,
                                 float *ret_data_vs_prior, float *ret_completeness, struct err *err);

/* Row x = 0 .. at y, z relative to the origin. */
static inline accumulator_voxel *accumulator_row(const struct accumulator *a, int z, int y) {
    size_t plane = a->dimensions == 3 ? (size_t)(z + a->reach) : 0;
    return a->voxels + (plane * (size_t)a->ny + (size_t)(y + a->reach)) * (size_t)a->nx;
}

/* Points of the padded grid nearer to the origin than this go into a map of shells FLOOR(r / PAD) up to last_shell (0: of
 * all). */
static inline int accumulator_map_limit(int r_max, int last_shell) {
    return ACCUMULATOR_PAD * (last_shell <= 0 || last_shell >= r_max ? r_max : last_shell + 1);
}

/* The planes there are: −reach .. reach, or 0 .. 0 in 2-D. */
static inline int accumulator_first_plane(const struct accumulator *a) {
    return a->dimensions == 3 ? -a->reach : 0;
}

#endif
