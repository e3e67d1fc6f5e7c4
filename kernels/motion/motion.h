/* Corrects the motion of a movie: finds the shift of each frame and of its parts, and sums the frames along it.
 *
 * A corrected pixel X is the frame's pixel at X − d. The shift d that corrects frame j at X is
 * d = (model.x[j], model.y[j]) + f(X, j), with the polynomial f of RELION's third-order model. So a specimen that moves
 * by +m between the first frame and frame j has d = −m there.
 *
 * Frames stay in the type in which the camera counts, on the host and on the device: one byte a pixel for most, so
 * that forty frames of 4096² px take 0.7 GB instead of 2.7. The gain is applied where a pixel is read.
 *
 * Results do not depend on the number of threads. Sources: Li et al., Nat. Methods 10:584 (2013); Zheng et al., Nat.
 * Methods 14:331 (2017); Zivanov et al., IUCrJ 6:5 (2019); Grant & Grigorieff, eLife 4:e06980 (2015). */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_H
#define ICESTREAM_KERNELS_MOTION_MOTION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/device.h"
#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum motion_pixels { MOTION_U8, MOTION_U16, MOTION_F32 };

/* Returns the bytes of a pixel. */
size_t motion_pixel_size(enum motion_pixels pixels);

/* The frames of one movie. Repair bad pixels before (kernels/defects). */
struct motion_frames {
    int nx, ny, count;
    enum motion_pixels pixels;
    void *const *frame; /* [count], each [ny][nx] on the host; from device_host_new if a device takes them */
    const float *gain;  /* [ny][nx], multiplies; NULL: none */
};

/* Adds `count` pixels of a frame, from (x, y) on, times the gain, to sum[count]. */
void motion_frames_add_row(const struct motion_frames *frames, int frame, int x, int y, int count, float *sum);

enum { MOTION_COEFFICIENTS = 18 };

/* The shifts that correct a movie. All zero, or motion_model_resize, begins one. */
struct motion_model {
    int nx, ny, frames;
    float *x, *y; /* [frames] px of the movie; 0 for the first frame */
    bool local;   /* false: f is 0 */
    /* f along x and along y, in RELION's order: z, z², z³ times 1, then x, x², y, y², xy. x = X/nx − 0.5 and
     * y = Y/ny − 0.5; z is the number of the frame, from 0. */
    double coefficients[2][MOTION_COEFFICIENTS];
};

/* Makes room for the frames and sets all shifts to 0. */
enum status motion_model_resize(struct motion_model *model, int nx, int ny, int frames, struct err *err);
/* Frees the arrays and sets everything to 0. */
void motion_model_clear(struct motion_model *model);
/* Fills ret_shift with the shift (x, y), in px, that corrects frame `frame` at pixel (x, y) of the movie. */
void motion_model_at(const struct motion_model *model, double x, double y, int frame, double ret_shift[2]);

struct motion_align_options {
    double bfactor; /* px² of the movie: the correlation is weighted by exp(−2 B f²), f in cycles per px */
    int patches_x, patches_y; /* local motion is fitted when both are above 2 */
    int group;                /* frames that the patches sum before they are aligned */
    double search;            /* px of the movie: the largest shift of a frame against the sum, ±, in one iteration */
    int iterations;           /* at most */
    double tolerance;         /* px, RMS of the increments that ends the iterations */
};

/* The shifts that one patch shows, for the table of local shifts. */
struct motion_patch {
    double x, y;                    /* px: its centre */
    bool used;                      /* false: it has no signal and took no part in the fit */
    const float *shift_x, *shift_y; /* [groups], px, relative to the whole frame's shift and to the first frame */
};

/* Returns the first frame, from 0, of one of the groups that the patches sum, and the middle of its frames. The groups at
 * the end are one frame larger where the frames do not divide; group `groups` begins after the last frame. */
int motion_group_start(int frames, int groups, int group);
double motion_group_middle(int frames, int groups, int group);

/* Outcome of an alignment. Its arrays live until the next motion_align or motion_destroy. */
struct motion_report {
    bool converged;
    int iterations;
    int patches, groups; /* 0: the movie was aligned as a whole only */
    const struct motion_patch *patch;
    double rmsd; /* px, between the patches that were used and the model */
};

struct motion_sum_options {
    double bin;        /* ≥ 1: a side of the sums is 2·round(side / bin / 2) px, by Fourier cropping */
    double pixel_size; /* Å, of the movie's pixels */
    double voltage;    /* kV; matters only with doses */
    const double *dose; /* [frames] e⁻/Å²: exposure at the end of each frame, pre-exposure included; NULL: no weights */
    int spectrum_box;   /* px of the movie: side of the tiles of the spectrum; even */
    int spectrum_group; /* frames whose sum goes into one spectrum, about 20 e⁻/Å² */
    bool halves;        /* for motion_bytes: even and odd will be wanted, which takes about twice the memory */
};

/* Outputs on the host, [ny][nx] of motion_sum_size; NULL: not wanted. Pixels between the frame's pixels are interpolated
 * with eight taps along each axis (motion_weights.h). Beyond its border a frame is mirrored. */
struct motion_sums {
    float *weighted;   /* Σ w F / sqrt(Σ w²) at each frequency */
    float *unweighted; /* Σ F */
    float *even, *odd; /* as weighted, or as unweighted without doses: frames 2, 4, … and frames 1, 3, … */
    float *power;      /* [box][box/2 + 1] mean power of tiles of the sums of groups, as in kernels/periodogram */
};

/* Returns the size of the sums: even sides, never longer than the movie's. */
void motion_sum_size(int nx, int ny, double bin, int *ret_nx, int *ret_ny);

/* Plans and buffers for movies of one shape. One thread at a time may use them. */
struct motion;

struct motion_task {
    int nx, ny, frames;
    enum motion_pixels pixels;
    struct motion_align_options align;
    int threads;
    struct device device;
};

/* Makes plans and buffers. STATUS_BAD_ARGUMENT: a size or an option is out of range; STATUS_UNSUPPORTED: the device. */
enum status motion_create(const struct motion_task *task, struct motion **ret_motion, struct err *err);
void motion_destroy(struct motion **motion);
/* Takes the frames for the calls that follow, and uploads them to a device. They must stay until the next call of
 * motion_take. STATUS_BAD_ARGUMENT: another size, count or type than the task's. */
enum status motion_take(struct motion *motion, const struct motion_frames *frames, struct err *err);
/* Finds the motion and resizes the model to the movie. report may be NULL. */
enum status motion_align(struct motion *motion, struct motion_model *model, struct motion_report *report,
                         struct err *err);
/* Sums the frames along the model. */
enum status motion_sum(struct motion *motion, const struct motion_model *model,
                       const struct motion_sum_options *options, const struct motion_sums *sums, struct err *err);
/* Returns the bytes that a motion holds beside the frames: on the host for the CPU, else on the device. An estimate for
 * doses of up to about 100 e⁻/Å²: of options->dose it only matters whether there are doses. */
size_t motion_bytes(const struct motion_task *task, const struct motion_sum_options *options);

#ifdef __cplusplus
}
#endif
#endif
