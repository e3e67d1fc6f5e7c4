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
    int diameter, radius, side; /* px */
    int *inside;                /* [count] indices of the circle's pixels in the patch, row by row */
    int count;
    uint8_t *is_inside;               /* [side²] 1 in the circle, else 0 */
    float *grey, *plane[DROP_PLANES]; /* [side²] each: g; temporary values */
    float *values, *sorted;           /* [count] each, for statistics */
    int *label, *queue;               /* [side²] each */
    int *votes;                       /* [angles][distances] */
};

/* Blurs in[side][side] by a Gaussian into out; in may be out. Borders repeat. */
void drop_blur(const struct drop_features *plan, const float *in, float *out, float *scratch, float sigma);
/* Computes Sobel's derivatives with kernels of sum 1, along x and y, within the outermost pixel (0 there). */
void drop_sobel(const struct drop_features *plan, const float *in, float *ret_x, float *ret_y);

struct drop_moments {
    double mean, deviation, skew, kurtosis;
};
/* Returns the moments of values[count]; skew and kurtosis are 0 where the variance is 0. */
struct drop_moments drop_moments_of(const float *values, int count);
/* Copies the circle's pixels of plane[side²] into plan->values. */
void drop_gather(struct drop_features *plan, const float *plane);
/* Sorts plan->values into plan->sorted, smallest first. */
void drop_sort(struct drop_features *plan);
/* Returns the value of plan->sorted at a rank of `percent`, 0 to 100. */
float drop_quantile(const struct drop_features *plan, double percent);

/* Computes image statistics of grey_levels[side²], v: 30 numbers. */
void drop_image_statistics(struct drop_features *plan, const float *grey_levels, float *out);
/* Computes grey-level changes from plan->grey: 90 numbers. */
void drop_changes(struct drop_features *plan, float *out);
/* Computes evidence of straight lines from plan->grey: 30 numbers. */
void drop_lines(struct drop_features *plan, float *out);
/* Computes the local Radon transform from plan->grey: 30 numbers. */
void drop_strips(struct drop_features *plan, float *out);
/* Computes the topology of what stands out in plan->grey: 45 numbers. */
void drop_topology(struct drop_features *plan, float *out);

#endif
