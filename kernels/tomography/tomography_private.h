/* Connects tomography.c, which is the same for all devices, with the work of each kind of device, and prepares what
 * both need. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_PRIVATE_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_PRIVATE_H

#include "kernels/tomography/tomography.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights are tabulated at f = k / TOMOGRAPHY_STEPS. Linear interpolation in the table errs by less than 3e-7. */
#define TOMOGRAPHY_STEPS 512
/* Rays and voxels with a smaller sum of weights have R or C = 0; sums below 1 count as 1. Otherwise 1 / sum would blow
 * up noise where a ray cuts a corner of the slice, or only the last column of an image meets a voxel. */
#define TOMOGRAPHY_LEAST_WEIGHT 1e-6
#define TOMOGRAPHY_SMALL_WEIGHT 1.0

/* The setup of a plan, which owns everything in it. */
struct tomography_setup {
    struct tomography_options options; /* arrays copied, but for mask; matrix as asked for */
    int tilts, nx, ny, nz;
    double *angles, *shifts; /* [tilts] what options.geometry points to; shifts are 0 where there were none */
    struct device *devices;  /* what options.devices points to */
    double *cosines, *sines; /* [tilts] */
    double *offsets;         /* [tilts] shift + (nx − 1)/2 */
    /* [STEPS + 1][8]: q0 of rays floor(u) − 1 .. floor(u) + 2, then q1 of the same rays. */
    float *weights;
    int halo; /* rows beside a row that its rays also meet: 1 for blobs, else 0 (q1 is 0) */
    /* b of volume = Σ c b, by the number of coordinates in which a neighbour differs; {1} for other bases than
     * blobs. */
    double stencil[4];
    /* Pairs ±θ: tilt t reads row pair[t] of `pairs`, mirrored where mirror[t]. */
    int *pair;             /* [tilts] */
    unsigned char *mirror; /* [tilts] */
    int *pair_tilt;        /* [pairs] the tilt whose u is stored */
    int pairs;
    /* WBP. */
    float *filter;     /* [padded/2 + 1] ramp × roll-off / padded: forward, multiply, inverse needs no other factor */
    int padded;        /* transform length, ≥ 2 nx */
    double *shares;    /* [tilts] radians that a tilt stands for */
    double *residuals; /* [iterations] */
};

/* Fills a setup that starts as {0}. tomography_setup_clear also clears a setup that is half made. */
enum status tomography_setup_make(const struct tomography_options *options, struct tomography_setup *setup,
                                  struct err *err);
void tomography_setup_clear(struct tomography_setup *setup);

/* Returns whether tilts a and b share a row of blob-ELLR: |θ| is the same, rounded to 2^-20 degrees, which moves no
 * voxel of a slice of 2048 px by more than 2e-5 px. */
bool tomography_is_pair(const struct tomography_geometry *geometry, int a, int b);

/* Returns u of voxel column (x, z) at tilt t. */
static inline double tomography_position(const struct tomography_setup *s, int t, int x, int z) {
    return (x - 0.5 * (s->nx - 1)) * s->cosines[t] + (z - 0.5 * (s->nz - 1)) * s->sines[t] + s->offsets[t];
}

/* Sums weights. ret_sums0, ret_sums1 [tilts][nx]: Σ over (x, z) of q0 and of q1 at each ray. The sum Σ_h w_ih of a ray
 * is sums0 + n sums1, where n is the number of rows y ± 1 that exist. ret_columns0, ret_columns1 [nz][nx]: Σ over tilts
 * and rays inside the image, for each voxel. NULL: not wanted. */
void tomography_sums(const struct tomography_setup *setup, double *ret_sums0, double *ret_sums1, double *ret_columns0,
                     double *ret_columns1);

/* The work of one kind of device on its own state. */
struct tomography_work {
    /* setup: kept by the caller. */
    enum status (*create)(const struct tomography_setup *setup, void **ret_state, struct err *err);
    /* Takes a state, never NULL. */
    void (*destroy)(void *state);
    /* As tomography_run; writes setup->residuals. */
    enum status (*run)(void *state, const float *projections, float *ret_volume, struct tomography_report *ret_report,
                       struct err *err);
};
extern const struct tomography_work tomography_cpu_work;
extern const struct tomography_work tomography_cuda_work; /* only in builds with CUDA */

#ifdef __cplusplus
}
#endif
#endif
