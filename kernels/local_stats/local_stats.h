/* Computes mean and standard deviation of a micrograph's background around every pixel (Roseman 2003; the background is
 * the particle box outside the particle's circle):
 *   mu(x) = mean over B of I(x + b),  sigma(x) = √(mean over B of I²(x + b) − mu²),
 *   B = { −box/2 ≤ i, j < box/2 } without { i² + j² < radius² },
 * by correlation, with transforms cut to the work size. Maps have the work size; map pixel p is micrograph pixel
 * p · size / work. sigma is 1 where the variance is not above 1e-10. */
#ifndef ICESTREAM_KERNELS_LOCAL_STATS_LOCAL_STATS_H
#define ICESTREAM_KERNELS_LOCAL_STATS_LOCAL_STATS_H

#include "common/status.h"

struct local_stats;

/* size, work, box: even px; radius in px of the micrograph. STATUS_BAD_ARGUMENT: no pixel of the box lies outside
 * the circle. */
enum status local_stats_create(int size, int work, int box, double radius, int threads, struct local_stats **ret_stats,
                               struct err *err);
void local_stats_destroy(struct local_stats **stats);

/* image, square: half-plane transforms of I and I², work × (work/2+1), with the factor 1/size². mu, sigma: work². */
void local_stats_run(struct local_stats *stats, const float *image, const float *square, float *mu, float *sigma);

/* Computes mu only. */
void local_stats_mean(struct local_stats *stats, const float *image, float *mu);

/* Returns the number of pixels of the box inside the circle. */
int circle_count(int box, double radius);

#endif
