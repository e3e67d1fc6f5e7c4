/* Makes a gain reference of movies instead of micrographs (estimate_gain). */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_ESTIMATE_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_ESTIMATE_H

#include <stdbool.h>

#include "common/harness/stage.h"
#include "kernels/gain_estimate/gain_estimate.h"
#include "stages/motion-corrector/frames.h"

/* Starts as {0}. */
struct estimate {
    struct gain_estimate *sums; /* NULL before the first movie */
    int nx, ny;
    bool eer;
};

void estimate_clear(struct estimate *estimate);
/* Refuses parameters that contradict an estimate. */
enum status estimate_check(const struct stage *stage, struct err *err);
/* Adds the frames of a movie. path names it in messages. */
enum status estimate_add(struct estimate *estimate, const char *path, const struct frames *frames, int threads,
                         struct err *err);
/* Writes the gain reference into the stage's folder, and logs how good it is. */
enum status estimate_write(struct stage *stage, struct estimate *estimate, struct err *err);

#endif
