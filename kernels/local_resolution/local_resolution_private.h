/* Defines the bands, windows and levels that CPU and CUDA share, and the ops table of local_resolution.h. */
#ifndef ICESTREAM_KERNELS_LOCAL_RESOLUTION_LOCAL_RESOLUTION_PRIVATE_H
#define ICESTREAM_KERNELS_LOCAL_RESOLUTION_LOCAL_RESOLUTION_PRIVATE_H

#include "kernels/local_resolution/local_resolution.h"

/* LOCAL_BANDS bounds the number of bands: 1.125^64 = 1,900 shells. A radius has LOCAL_FINE steps a shell in tables. */
enum { LOCAL_BANDS = 72, LOCAL_FINE = 16, LOCAL_SMOOTH = 2 };
static const float LOCAL_THRESHOLD = 0.143f;

struct local_band {
    double centre;      /* shell: the mean of the band */
    double first, last; /* shells: nothing outside */
    int grid;           /* px: side of the smaller box that the band needs */
    int points;         /* of the window's positions along an axis, from 0 to `grid` */
    double sigma;       /* px of `grid`: of the window */
};

struct local_plan {
    int box, count;
    int last_shell; /* no voxel gets a finer one */
    struct local_band bands[LOCAL_BANDS];
    int level_count; /* of the low-passes that are blended: */
    double levels[LOCAL_BANDS];
};

/* Weighs the values of a line about some positions of it. The line repeats: a window at one end of the box sees the other
 * end, so that all windows hold as many independent numbers. */
struct local_taps {
    int points, length; /* positions; weights for each of them, at most as many as the line has values */
    int *starts;        /* [points]: first value of the line; the values go on from the line's end to its beginning */
    float *weights;     /* [points][length]; their sum is about 1 */
};

/* last_shell: as in the options. */
void local_plan_make(int box, int last_shell, struct local_plan *ret_plan);
/* Returns the number of entries of a table over the radius: gains[ROUND(LOCAL_FINE · |k|)]. */
int local_table_size(int box);
/* Fills a band's gains. power: [box/2 + 1], mean power of the halves by shell. */
void local_band_gains(const struct local_plan *plan, int band, const double *power, float *ret_gains);
/* Fills the gains of a low-pass of the sharpened map, with the factor 1/box³ of an inverse transform. */
void local_level_gains(const struct local_plan *plan, int level, const struct local_resolution_options *options,
                       float *ret_gains);
/* Makes weights of a Gaussian about the positions 0, pitch, 2 pitch … of a line of `line` values. */
enum status local_taps_make(int line, int points, double pitch, double sigma, struct local_taps *ret_taps,
                            struct err *err);
void local_taps_destroy(struct local_taps *taps);

/* Returns the share of a low-pass at a voxel whose resolution is at shell `at`: it falls to 0 at the levels before and
 * after. */
static inline float local_share(float at, float before, float level, float after) {
    if (at < level) {
        float share = before < level ? (at - before) / (level - before) : 1;
        return share > 0 ? share : 0;
    }
    float share = after > level ? (after - at) / (after - level) : 1;
    return share > 0 ? share : 0;
}
/* Returns the neighbours of a level, or the level itself at either end. */
static inline double local_before(const struct local_plan *plan, int level) {
    return plan->levels[level > 0 ? level - 1 : 0];
}
static inline double local_after(const struct local_plan *plan, int level) {
    return plan->levels[level + 1 < plan->level_count ? level + 1 : level];
}

struct local_work {
    enum status (*run)(struct workspace *workspace_or_null, const struct local_resolution_options *options,
                       const float *half1, const float *half2, float *ret_resolution, float *ret_filtered,
                       struct err *err);
    enum status (*fits)(struct workspace *workspace, int box, bool *ret_fits, struct err *err);
};
extern const struct local_work local_cpu_work;
/* Defined only in builds with CUDA. */
extern const struct local_work local_cuda_work;

#endif
