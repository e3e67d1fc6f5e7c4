/* Corrects the motion of movies: one micrograph, with and without dose weights, and one spectrum for each. */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_MOTION_CORRECTOR_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_MOTION_CORRECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/device.h"
#include "common/harness/params.h"
#include "kernels/motion/motion.h"
#include "stages/motion-corrector/corrected.h"

struct stage_descriptor;

/* The parameters that a user sets (parameters.c). */
struct motion_corrector_options {
    char *gain;
    int gain_rotate, gain_flip; /* enum turn_flip */
    bool gain_divide;
    bool estimate_gain; /* make a gain reference, and nothing else */
    char *defects;
    double hot_pixels;           /* standard deviations */
    struct param_floats patches; /* along x, y; none: the stage decides */
    double bfactor;              /* px² */
    int group_frames;
    double bin;
    double dose_per_frame, pre_exposure; /* e⁻/Å²; NaN: not set */
    int first_frame, last_frame;         /* from 1; INT_MIN: the last */
    bool half_sets;
    int eer_grouping, eer_upsampling;
    bool float16, write_png;
};

extern const struct stage_descriptor motion_corrector_stage;

/* Conditions under which a movie was taken. */
struct exposure {
    double pixel_size;     /* Å, of the movie's pixels */
    double voltage;        /* kV */
    double dose_per_frame; /* e⁻/Å²; NaN: unknown, and nothing is weighted */
    double pre_exposure;   /* e⁻/Å² */
    int first_frame;       /* number in the movie, from 1, of the first frame that is used */
};

/* Plans and buffers for movies of one shape. */
struct motion_corrector;

struct motion_corrector_task {
    const struct motion_corrector_options *options;
    int nx, ny, frames;
    enum motion_pixels pixels;
    int threads;
    struct device device;
};

/* STATUS_BAD_ARGUMENT: the options do not fit such a movie. */
enum status motion_corrector_create(const struct motion_corrector_task *task, struct motion_corrector **ret_corrector,
                                    struct err *err);
void motion_corrector_destroy(struct motion_corrector **corrector);
/* Aligns and sums the frames. pixel_size decides about the spectrum: its tiles are about 1,000 Å wide. */
enum status motion_corrector_run(struct motion_corrector *corrector, const struct motion_frames *frames,
                                 const struct exposure *exposure, struct corrected *ret_corrected, struct err *err);
/* Returns the bytes on the host that a corrector holds for movies of this shape. */
size_t motion_corrector_bytes(const struct motion_corrector_task *task, const struct exposure *exposure);

#endif
