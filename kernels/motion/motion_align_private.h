/* Shared by the devices of the alignment: one course of the alignment, and the operations that a device brings to it.
 *
 * Pixels are summed bin × bin and transformed; the frequencies that the B-factor leaves are kept (the window). A coarse
 * search by cross-correlation brings all frames within a pixel. Newton steps follow: for each frame the slope and the
 * curvature of its correlation with the sum of the others, in one pass over the window and without a transform. The
 * power that frames share, ring by ring, weights the later steps: signal / (signal + noise of the sum). Patches are cut
 * from the shifted window under a taper; the steps of all patches and frames go into one least-squares fit of the
 * polynomial, each weighted by its curvature, so that a patch without signal has no say. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_ALIGN_PRIVATE_H
#define ICESTREAM_KERNELS_MOTION_MOTION_ALIGN_PRIVATE_H

#include "kernels/motion/motion_private.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MOTION_RINGS = 64 };

/* The geometry of an alignment. A pixel of the window is pitch_x × pitch_y px of the movie. */
struct motion_align_plan {
    struct motion_task task;
    int bin;                          /* px of the movie along a side that are summed */
    int binned_x, binned_y;           /* binned px that are transformed: even, with small prime factors */
    int first_x, first_y;             /* first px of the movie in them */
    int window_x, window_y;           /* the window as an image, even; its transform: [window_y][window_x/2 + 1] */
    int search_x, search_y;           /* the smaller window of the coarse search, even */
    double pitch_x, pitch_y;          /* px of the movie */
    double radius;                    /* cycles per px of the movie: the window's greatest frequency */
    int patches_x, patches_y, groups; /* 0: no local motion */
    int patch_x, patch_y;             /* window px: sides of a patch, even */
};

void motion_align_plan_make(const struct motion_task *task, struct motion_align_plan *ret_plan);
/* Returns the first window px of patch `index` along an axis. */
int motion_align_patch_start(int window, int patches, int patch, int index);
/* Returns the factor of pixel `index` under the taper of an image of `side` px. */
double motion_align_taper(int side, int index);
/* Returns how far the coarse search looks to each side along an axis of `side` px, which are `step` px of the movie. */
int motion_align_range(const struct motion_align_plan *plan, double step, int side);
/* Returns how far from the middle of three values a parabola through them has its top. */
double motion_align_parabola(double before, double middle, double after);
/* Returns the ring of a frequency (cycles per px of the movie); MOTION_RINGS and more lie outside. */
int motion_align_ring(const struct motion_align_plan *plan, double fx, double fy);

/* Two sets of spectra: the frames, or all patches of all groups. */
enum motion_set { MOTION_WHOLE, MOTION_PATCHES };

/* The operations of a device. Shifts are in px of the movie, corrections: spectrum · exp(−2πi f·d). */
struct motion_align_work {
    /* Fills the window's spectra of all frames: gain, mean 0, taper of the binned image, transform, crop. */
    enum status (*spectra)(void *state, struct err *err);
    /* Adds over the pixels of each ring, without column 0: shared += |R|² − Σ |t|², total += Σ |t|², count += 1, with
     * the shifted spectra t and their sum R. All [MOTION_RINGS], zero before. */
    enum status (*powers)(void *state, const float *x, const float *y, double *shared, double *total, double *count,
                          struct err *err);
    /* Fills, for each frame, the place of the peak of its correlation with the sum of the others, within ± search px:
     * what must be added to its shift. weight: [MOTION_RINGS], on the search window. */
    enum status (*search)(void *state, const float *x, const float *y, const float *weight, float *ret_x, float *ret_y,
                          struct err *err);
    /* Cuts the patches out of the shifted window (sums of groups of frames), under the taper, and transforms them. */
    enum status (*cut)(void *state, const float *x, const float *y, struct err *err);
    /* With t and R as above, for each set member s (the whole: 1; patches: all) and its frames or groups j, fills
     * slope[s][j][2] = −Σ w k Im(conj(t) R) and curvature[s][3] (xx, xy, yy) = Σ w k kᵀ (|R|² − Σ |t|²) / count, with
     * k = 2πf and w = weight[ring], half of it in column 0. x, y: [s][j]. */
    enum status (*slopes)(void *state, enum motion_set set, const float *x, const float *y, const float *weight,
                          double *slope, double *curvature, struct err *err);
};

/* Buffers of the course, on the host. */
struct motion_course;
enum status motion_course_create(const struct motion_align_plan *plan, struct motion_course **ret_course,
                                 struct err *err);
void motion_course_destroy(struct motion_course **course);
/* Aligns the frames with the operations of a device. The report's arrays are the course's. */
enum status motion_course_run(struct motion_course *course, const struct motion_align_work *work, void *state,
                              struct motion_model *model, struct motion_report *report, struct err *err);

/* One step of the joint fit of all patches. */
struct motion_fit {
    const struct motion_align_plan *plan;
    const double *slope, *curvature; /* of the patches, as motion_align_work.slopes fills them */
    bool frames_too;                 /* each frame's shift is fitted as well, in place of the polynomial's constant */
};
/* Returns the centre of a patch, from −0.5 to 0.5 of the movie's sides. */
void motion_fit_centre(const struct motion_align_plan *plan, int patch, double *ret_x, double *ret_y);
/* Adds the step to the coefficients, and to the shifts of frames. Scratch: motion_fit_scratch doubles. */
void motion_fit_step(const struct motion_fit *fit, double *scratch, double coefficients[2][MOTION_COEFFICIENTS],
                     double *frame_x, double *frame_y);
size_t motion_fit_scratch(const struct motion_align_plan *plan);

/* Takes out of the shifts of frames the part of their errors that a smooth path does not explain. error: variance of
 * the errors along an axis, px². Scratch: motion_smooth_scratch doubles. */
void motion_smooth(float *x, float *y, int frames, double error, double *scratch);
size_t motion_smooth_scratch(int frames);

#ifdef __cplusplus
}
#endif
#endif
