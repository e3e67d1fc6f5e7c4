/* MIC.star: the motion of a movie as RELION keeps it, so that its Bayesian polishing goes on from there. */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_MOTION_TABLES_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_MOTION_TABLES_H

#include "common/formats/movie.h"
#include "common/status.h"
#include "stages/motion-corrector/corrected.h"
#include "stages/motion-corrector/motion_corrector.h"
#include "stages/motion-corrector/reference.h"

/* The contents of the tables. */
struct motion_tables {
    const struct movie_info *info; /* of the whole movie */
    const char *movie;             /* paths as RELION finds them from the session's folder */
    const char *gain, *defects;    /* NULL: none */
    const struct motion_corrector_options *options;
    const struct exposure *exposure;
    const struct corrected *corrected;
    const struct hot_pixels *hot;
};

/* Writes the tables general, global_shift, local_motion_model (where there is local motion), local_shift (what the
 * patches show, relative to the whole frame) and hot_pixels. Shifts are in pixels of the movie and correct the
 * motion. */
enum status motion_tables_write(const struct motion_tables *tables, const char *path, struct err *err);

#endif
