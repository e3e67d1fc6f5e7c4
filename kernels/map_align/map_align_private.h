/* Declares the types and functions that the files of map_align share. */
#ifndef ICESTREAM_KERNELS_MAP_ALIGN_MAP_ALIGN_PRIVATE_H
#define ICESTREAM_KERNELS_MAP_ALIGN_MAP_ALIGN_PRIVATE_H

#include "common/fft.h"
#include "kernels/fourier/pixels.h"
#include "kernels/map_align/map_align.h"
#include "kernels/projector/projector.h"
#include "kernels/sampling/sampling.h"

enum { MAP_ALIGN_KEPT = 20, MAP_ALIGN_HANDS = 2, MAP_ALIGN_SHIFTS = 33, MAP_ALIGN_PLANES = 32 };

/* A way of lying on the fixed map, both maps about their centres of mass. */
struct map_pose {
    double rotation[9], shift[3];
    bool inverted;
    double score; /* correlation of the samples */
};

/* A curve over the length of frequencies, as a sum of cubic B-splines: [map_align_splines] of each. */
struct map_profile {
    double (*bands)[4]; /* the normal equations: [i][d] is row i + d, column i; then their Cholesky factor */
    double *values;     /* their right side, then the weights of the splines */
};
int map_align_splines(int box);

/* Holds the plans and memory for subtracting a rotational average. */
struct map_radial {
    int box;
    struct fft_plan *forward, *inverse;
    float *spectrum; /* [box][box][box/2+1] complex */
    struct map_profile profile;
};

struct map_aligner {
    struct map_align_options options;
    int threads;
    int first, last, grid_last; /* shells: compared, and the last of the grid search */
    int planes;                 /* central planes on which transforms are sampled */
    double frames[MAP_ALIGN_PLANES][9];
    struct fourier_pixels pixels; /* of one plane, up to shell `last` */
    struct sampling sampling;
    double grid_step; /* px, of shifts */
    struct projector *fixed, *moved, *whole;
    struct fft_plan *forward, *inverse;
    float *spectrum; /* [box][box][box/2+1] complex */
    struct map_profile profile;
    float *fixed_map, *moved_map; /* [box³] centred and cut */
    float *work;                  /* [box³] */
    float *power;                 /* [box/2+1] */
    float *weight_fixed;          /* [pixels] factor of the fixed map's samples */
    float *weight_moved;          /* [pixels] and of the other's; 0 where nothing is compared */
    float *samples;               /* [planes][2·pixels] of the fixed map, times both weights */
    float *columns;               /* [hands][shifts][grid terms] */
    float *scratch;               /* [threads][scratch_floats] */
    size_t scratch_floats;
    float *best;     /* [hands][orientations] */
    int *best_shift; /* [hands][orientations] */
    struct map_pose candidates[MAP_ALIGN_KEPT];
    int candidate_count;
};

/* map_align_maps_cpu.c */

/* Finds the voxel nearest to the centre of mass of what is strong in a map, seen up to shell grid_last; relative to
 * box/2. */
void map_align_centre(struct map_aligner *a, const float *map, int ret_centre[3]);
/* Does what map_align_without_radial does. */
void map_align_subtract_radial(const struct map_radial *radial, float *map);
/* Copies a map so that a voxel lies at box/2; what comes from outside the box is 0. */
void map_align_roll(int box, const float *map, const int centre[3], float *out);
/* Fills out[box³] with the map of a projector as it is aligned, with frequencies up to a shell. */
void map_align_turn(struct map_aligner *a, const struct projector *projector, const struct map_pose *pose, int last,
                    float *out);

/* map_align_search_cpu.c */

/* Returns the pixels of one plane up to a shell. */
static inline int map_align_count(const struct map_aligner *a, int shell) {
    return fourier_pixels_within(&a->pixels, 2 * shell);
}
/* Returns the floats that a thread needs as scratch. */
size_t map_align_search_scratch(const struct map_aligner *a);
/* Fills `samples` from the fixed map's projector. */
void map_align_sample_fixed(struct map_aligner *a);
/* Shifts the first `count` samples of each plane by −shift: into out[planes][2·count]. */
void map_align_shift_samples(const struct map_aligner *a, int count, const double shift[3], float *out);
/* Fills out[planes][9] with the matrices of the moved map's planes at a rotation. */
void map_align_planes(const struct map_aligner *a, const double rotation[9], float *out);
/* Finds the candidates. */
void map_align_search(struct map_aligner *a);

/* map_align_refine_cpu.c */

size_t map_align_refine_scratch(const struct map_aligner *a);
/* Refines the candidates and sorts them; the first is the best. */
void map_align_refine(struct map_aligner *a);

#endif
