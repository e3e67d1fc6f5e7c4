/* Tells how the resolution of a map depends on the direction: views that are missing leave it coarse along some axes,
 * which the FSC over whole shells does not show. */
#ifndef ICESTREAM_STAGES_REFINER_POSTPROCESS_DIRECTIONS_H
#define ICESTREAM_STAGES_REFINER_POSTPROCESS_DIRECTIONS_H

#include <stdbool.h>

#include "common/formats/star.h"
#include "kernels/postprocess/postprocess.h"

/* Three cones in a hundred. */
enum map_cone { CONE_FINEST, CONE_MEDIAN, CONE_COARSEST, MAP_CONES };

struct map_directions {
    int box;
    double pixel_size;
    double told;         /* Å: the resolution of the map */
    double (*axes)[3];   /* [count] */
    double *resolutions; /* [count]: Å, kernels/fsc/directional.h; 999: none */
    float *curves;       /* [count][box/2 + 1] */
    int count;
    int cones[MAP_CONES]; /* indices: at 5, 50 and 95 % of the resolutions, from fine to coarse */
};

/* Correlates the halves in cones of 20° about 100 axes, inside the mask of the result unless it is doubted. */
enum status directions_find(const struct postprocess_options *options, const struct postprocess_result *result,
                            const float *half1, const float *half2, struct map_directions *ret_directions,
                            struct err *err);
void directions_destroy(struct map_directions *directions);
/* Returns the resolution (Å) of a cone. */
double directions_resolution(const struct map_directions *directions, enum map_cone cone);
/* Fills text with the three resolutions. Returns whether the map is much coarser along some axes than it is told to be; then
 * text says which, and what to do. */
bool directions_tell(const struct map_directions *directions, char *text, size_t size);
/* Adds data_directional_fsc, the curves of the three cones, and data_directions, the resolution along each axis. */
enum status directions_write(const struct map_directions *directions, struct star_file *file, struct err *err);

#endif
