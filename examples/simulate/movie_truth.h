/* Writes the truth about simulated movies:
 *   truth/MOVIE_motion.star  data_general: size, pixel size (Å), dose a frame (e⁻/Å²), defocus (Å, °), gain reference and
 *                            how to turn it, in RELION's columns where it has them
 *                            data_global_shift: the shift (px) that corrects each frame, in RELION's sign: frame 1 has 0
 *                            data_local_shift: what is added to it at the corrected pixel (X, Y): for each frame
 *                            icestreamLocalX0 … X5 and Y0 … Y5, factors of 1, u, u², v, v², u v with u = X/nx − 0.5,
 *                            v = Y/ny − 0.5. Its mean over the frame is 0
 *   truth/MOVIE_sum.mrc      the electrons expected in all frames together, without noise, at the corrected pixels
 *   truth/defects.star       broken pixels of the camera (icestreamDefect: 0 dead and 0 in the gain reference, 1 dead, 2
 *                            hot)
 *   movies.star              all movies, as RELION's import writes them; in DIR */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_MOVIE_TRUTH_H
#define ICESTREAM_EXAMPLES_SIMULATE_MOVIE_TRUTH_H

#include "examples/simulate/camera.h"
#include "examples/simulate/micrograph.h"
#include "kernels/exposure/exposure.h"

struct movie_truth {
    const char *folder; /* DIR */
    const char *ending; /* of movies, with its dot */
    const struct scene *scene;
    int frames;
    const char *gain; /* name of the gain reference in DIR; NULL: none */
    struct camera_gain_file gain_file;
    int eer_group; /* 0: not EER */
};

/* Writes truth/MOVIE_motion.star. shifts: [frames]. */
enum status movie_truth_motion(const struct movie_truth *truth, const struct layout *layout,
                               const struct exposure_shift *shifts, struct err *err);
/* Writes truth/MOVIE_sum.mrc from a canvas with margins. */
enum status movie_truth_sum(const struct movie_truth *truth, const struct layout *layout, const struct image *canvas,
                            struct err *err);
/* Writes truth/defects.star. */
enum status movie_truth_camera(const struct movie_truth *truth, const struct camera *camera, struct err *err);
/* Writes movies.star. layouts: [scene->micrographs]. */
enum status movie_truth_list(const struct movie_truth *truth, const struct layout *layouts, struct err *err);

#endif
