/* Declarations shared by the groups of a drop's features: the circle in a square patch [side][side] with a margin
 * around it. */
#ifndef ICESTREAM_KERNELS_DROP_FEATURES_DROP_FEATURES_PRIVATE_H
#define ICESTREAM_KERNELS_DROP_FEATURES_DROP_FEATURES_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/drop_features/drop_features.h"

enum { DROP_MARGIN = 16, DROP_PLANES = 8, DROP_REACH_MAX = 64 };

struct drop_features {
    int diameter, radius, side;
    int *inside; /* indices of the circle's pixels in the patch, row by row */
    int count;
    uint8_t *is_inside;
    float *grey, *plane[DROP_PLANES]; /* grey: g; planes: to work with */
    float *values, *sorted;           /* [count], for statistics */
    int *label, *queue;               /* [side²] */
    int *votes;                       /* angles × distances */
};

/* Blurs in[side][side] by a Gaussian into out; in may be out. Borders repeat. */
void drop_blur(const struct drop_features *plan, const float *in, float *out, float *scratch, float sigma);
/* Computes Sobel's derivatives with kernels of sum 1, along x and y, within the outermost pixel (0 there). */
void drop_sobel(const struct drop_features *plan, const float *in, float *ret_x, float *ret_y);

struct drop_moments {
    double mean, deviation, skew, kurtosis;
};
struct drop_moments drop_moments_of(const float *values, int count);
/* drop_gather copies the circle's pixels of a plane into values; drop_sort sorts values into sorted. */
void drop_gather(struct drop_features *plan, const float *plane);
void drop_sort(struct drop_features *plan);
float drop_quantile(const struct drop_features *plan, double percent); /* of sorted */

void drop_image_statistics(struct drop_features *plan, const float *grey_levels, float *out);
void drop_changes(struct drop_features *plan, float *out);
void drop_lines(struct drop_features *plan, float *out);
void drop_strips(struct drop_features *plan, float *out);
void drop_topology(struct drop_features *plan, float *out);

#endif
