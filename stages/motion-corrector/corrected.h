/* A corrected movie: its sums, motion and spectrum. The buffers of a lane, which it keeps from movie to movie. */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_CORRECTED_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_CORRECTED_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/image.h"
#include "common/status.h"
#include "kernels/motion/motion.h"

struct exposure;

/* Motion of the whole frame, Å: the sum of its steps. */
struct motion_lengths {
    double total, early, late; /* early: within the first 4 e⁻/Å² */
};

struct corrected {
    bool weighted; /* there are doses; else `unweighted` is all there is */
    bool halves;   /* even and odd are filled */
    struct image weighted_sum, unweighted_sum, even, odd;
    struct image spectrum; /* amplitude, square, zero frequency in the middle */
    struct motion_model model;
    struct motion_report report; /* its patches and shifts are copies, in the arrays below */
    struct motion_patch *patches;
    float *shifts;
    size_t patch_room, shift_room;
    struct motion_lengths lengths;
    double gain_residual; /* deviation of the fixed pattern in the frames, as a part of 1; NaN: unknown */
};

void corrected_clear(struct corrected *corrected);
/* Makes room for the images of a movie. spectrum_side: px. */
enum status corrected_resize(struct corrected *corrected, int nx, int ny, int spectrum_side, struct err *err);
/* Copies a report, whose arrays the next movie overwrites. */
enum status corrected_take_report(struct corrected *corrected, const struct motion_report *report, struct err *err);
/* Returns the lengths of the whole frame's motion. */
struct motion_lengths motion_lengths(const struct motion_model *model, const struct exposure *exposure);

#endif
