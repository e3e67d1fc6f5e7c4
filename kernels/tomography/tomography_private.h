/* What tomography.c, which both devices share, asks of each, and what it makes for both. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_PRIVATE_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_PRIVATE_H

#include "kernels/tomography/tomography.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights stand at f = k / TOMOGRAPHY_STEPS and are interpolated linearly between, which errs by less than 3e-7. */
#define TOMOGRAPHY_STEPS 512
/* Rays and voxels with a smaller sum of weights have R or C = 0, those with a sum below 1 that of 1: where a ray cuts a
 * corner of the slice, or a voxel by the image's last column alone, 1 / sum would blow up what is noise. */
#define TOMOGRAPHY_LEAST_WEIGHT 1e-6
#define TOMOGRAPHY_SMALL_WEIGHT 1.0

/* Everything is the plan's. */
struct tomography_setup {
    struct tomography_options options; /* arrays copied, but for mask; matrix as asked for */
    int tilts, nx, ny, nz;
    double *angles, *shifts; /* [tilts] what options.geometry points to; shifts are 0 where there were none */
    struct device *devices;  /* what options.devices points to */
    double *cosines, *sines; /* [tilts] */
    double *offsets;         /* [tilts] shift + (nx − 1)/2 */
    /* [STEPS + 1][8]: q0 of rays floor(u) − 1 .. floor(u) + 2, then q1 of the same rays. */
    float *weights;
    int halo;          /* rows that a row's neighbours reach: 1 for blobs, else 0 (q1 is 0) */
    double stencil[4]; /* of volume = Σ c b: by the number of coordinates in which the neighbour differs; {1} if none */
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

/* setup starts as {0}; what is half made is cleared by tomography_setup_clear too. */
enum status tomography_setup_make(const struct tomography_options *options, struct tomography_setup *setup,
                                  struct err *err);
void tomography_setup_clear(struct tomography_setup *setup);

/* Whether tilts a and b share a row of blob-ELLR: |θ| is the same, rounded to 2^-20 degrees, which moves no voxel of a
 * slice of 2048 px by more than 2e-5 px. */
bool tomography_is_pair(const struct tomography_geometry *geometry, int a, int b);

/* u of voxel column (x, z) at tilt t. */
static inline double tomography_position(const struct tomography_setup *s, int t, int x, int z) {
    return (x - 0.5 * (s->nx - 1)) * s->cosines[t] + (z - 0.5 * (s->nz - 1)) * s->sines[t] + s->offsets[t];
}

/* ret_sums0, 1 [tilts][nx]: Σ over (x, z) of q0 and q1 at each ray; Σ_h w_ih is sums0 + sums1 × rows y ± 1 that exist.
 * ret_columns0, 1 [nz][nx]: Σ over tilts and rays inside the image. Any of them NULL: not wanted. */
void tomography_sums(const struct tomography_setup *setup, double *ret_sums0, double *ret_sums1, double *ret_columns0,
                     double *ret_columns1);

struct tomography_cpu;
enum status tomography_cpu_create(const struct tomography_setup *setup, struct tomography_cpu **ret_cpu,
                                  struct err *err);
void tomography_cpu_destroy(struct tomography_cpu **cpu);
/* Writes setup->residuals. */
enum status tomography_cpu_run(struct tomography_cpu *cpu, const float *projections, float *ret_volume,
                               struct tomography_report *ret_report, struct err *err);

/* Built where CUDA is (TOMOGRAPHY_HAVE_CUDA). */
struct tomography_cuda;
enum status tomography_cuda_create(const struct tomography_setup *setup, struct tomography_cuda **ret_cuda,
                                   struct err *err);
void tomography_cuda_destroy(struct tomography_cuda **cuda);
enum status tomography_cuda_run(struct tomography_cuda *cuda, const float *projections, float *ret_volume,
                                struct tomography_report *ret_report, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
