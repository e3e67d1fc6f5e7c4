/* Shared by the devices of the motion correction. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_PRIVATE_H
#define ICESTREAM_KERNELS_MOTION_MOTION_PRIVATE_H

#include "kernels/motion/motion.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The operations of a device. The frames of `take` are those of align and sum. Arguments are checked before. */
struct motion_work {
    enum status (*create)(const struct motion_task *task, void **ret_state, struct err *err);
    void (*destroy)(void *state); /* also of a state that is half made; never NULL */
    enum status (*take)(void *state, const struct motion_frames *frames, struct err *err);
    /* Fills the shifts and coefficients of a model of the right size that is all zero, and the report. */
    enum status (*align)(void *state, struct motion_model *model, struct motion_report *report, struct err *err);
    enum status (*sum)(void *state, const struct motion_model *model, const struct motion_sum_options *options,
                       const struct motion_sums *sums, struct err *err);
    size_t (*bytes)(const struct motion_task *task, const struct motion_sum_options *options);
};

extern const struct motion_work motion_cpu_work, motion_cuda_work; /* cuda: in builds with CUDA */

/* The spatial terms of the polynomial: 1, x, x², y, y², xy. */
enum { MOTION_SURFACE = 6 };
/* Collapses the polynomial of one frame: f(x, y) = Σ surface[axis][i] · (1, x, x², y, y², xy)[i], with x and y from
 * −0.5 to 0.5. All 0 without local motion. */
void motion_model_surface(const struct motion_model *model, int frame, double ret_surface[2][MOTION_SURFACE]);
/* The shift of one frame: Σ c[axis][i] · (1, x, x², y, y², xy)[i], with x and y from −0.5 to 0.5. */
struct motion_surface {
    double c[2][MOTION_SURFACE];
};
/* Fills the shifts of all frames, the polynomial's and the whole frames' together. STATUS_BAD_ARGUMENT: a shift is not
 * a number, or reaches as far as a frame. */
enum status motion_model_surfaces(const struct motion_model *model, struct motion_surface *ret_surfaces,
                                  struct err *err);
/* Fills the spatial terms at (x, y), both from −0.5 to 0.5. */
void motion_surface_terms(double x, double y, double ret_terms[MOTION_SURFACE]);

/* The two halves of the CPU: alignment, and sums. A half that has no buffers yet makes them at its first run. */
struct motion_align_cpu;
enum status motion_align_cpu_create(const struct motion_task *task, struct motion_align_cpu **ret_align,
                                    struct err *err);
void motion_align_cpu_destroy(struct motion_align_cpu **align);
enum status motion_align_cpu_run(struct motion_align_cpu *align, const struct motion_frames *frames,
                                 struct motion_model *model, struct motion_report *report, struct err *err);
size_t motion_align_cpu_bytes(const struct motion_task *task);

struct motion_sum_cpu;
enum status motion_sum_cpu_create(const struct motion_task *task, struct motion_sum_cpu **ret_sum, struct err *err);
void motion_sum_cpu_destroy(struct motion_sum_cpu **sum);
enum status motion_sum_cpu_run(struct motion_sum_cpu *sum, const struct motion_frames *frames,
                               const struct motion_model *model, const struct motion_sum_options *options,
                               const struct motion_sums *sums, struct err *err);
size_t motion_sum_cpu_bytes(const struct motion_task *task, const struct motion_sum_options *options);

#ifdef __cplusplus
}
#endif
#endif
