/* Finds the drop in a picture of a crystallisation trial: the circle of the drop, or of the well that holds it.
 *
 * The picture is averaged down to at most 320 px a side and smoothed; the twelfth of its pixels with the steepest
 * gradient are edges. Each edge votes for the centres that lie on its gradient's line (Hough, as Kimme, Ballard &
 * Sklansky 1975 do for circles of any radius). At the best centres, for each radius and each sign of the gradient, that
 * part of 64 sectors is counted which has an edge whose gradient lies within 14° of the radius: the circle's support.
 * Sectors outside the picture are left out; at least 40 must lie inside. The circle of the largest support is fitted to
 * its edges by least squares. A smaller circle inside it with four fifths of the support is preferred: the drop in its
 * well.
 *
 * If a picture shows no circle, but coarse structure in several directions, it lies inside the drop, and the result is
 * the middle of the picture. */
#ifndef ICESTREAM_KERNELS_DROP_FIND_DROP_FIND_H
#define ICESTREAM_KERNELS_DROP_FIND_DROP_FIND_H

#include <stdbool.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct drop_circle {
    double x, y, radius; /* px; the first pixel's centre is 0, 0 */
    double support;      /* 0 to 1 */
    bool fills;          /* no circle is visible: centre of the picture, and half its shorter side */
};

/* Circles with less support are chance. */
#define DROP_FIND_SUPPORT 0.5

struct drop_find;
/* A plan keeps its memory from picture to picture. Only one thread at a time may use it. */
enum status drop_find_create(struct drop_find **ret_plan, struct err *err);
void drop_find_destroy(struct drop_find **plan);
/* picture [ny][nx], finite. STATUS_NOT_FOUND: no circle has DROP_FIND_SUPPORT, and the picture shows only noise,
 * stripes or uneven light; or the picture is smaller than 64 px. */
enum status drop_find_run(struct drop_find *plan, const float *picture, int nx, int ny, struct drop_circle *ret_circle,
                          struct err *err);

#ifdef __cplusplus
}
#endif

#endif
