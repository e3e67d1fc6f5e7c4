/* MIC_motion.json and MIC_motion.png: the motion of a movie for programs and people. */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_MOTION_RECORD_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_MOTION_RECORD_H

#include <stddef.h>

#include "common/status.h"
#include "stages/motion-corrector/corrected.h"
#include "stages/motion-corrector/motion_corrector.h"

/* Writes {"v": 1, "frames", "first_frame", "pixel_size", "dose_per_frame" (null: unknown), "pre_exposure", "total", "early",
 * "late", "x": […], "y": […], "shift_x": […], "shift_y": […], "local": [[18 numbers], [18 numbers]] or null, "converged",
 * "rmsd", "patches": [{"x", "y", "used", "shift_x": […], "shift_y": […]}, …], "bad_pixels", "gain_residual"}. x and y: where
 * the specimen is in each frame, Å from the first frame; lengths in Å. Shifts: px of the movie, such that they correct the
 * motion; x and y of a patch: its centre, px. gain_residual: see kernels/gain_residual; null: unknown. */
enum status motion_record_write(const struct corrected *corrected, const struct exposure *exposure, size_t bad_pixels,
                                const char *path, struct err *err);
/* Draws the track of the specimen at each patch, and that of the whole frame in the middle, 40 times as long as it is;
 * shorter where that would not fit. Dark begins, light ends. */
enum status motion_picture_write(const struct corrected *corrected, const char *path, struct err *err);

#endif
