/* Works on the shells ROUND(|k|) = 0 .. box/2 of a map's transform: multiplies them by gains, or sums their power. On the
 * CPU; for maps on a device see differences.h. Results do not depend on the number of threads. */
#ifndef ICESTREAM_KERNELS_DIFFERENCES_SHELLS_H
#define ICESTREAM_KERNELS_DIFFERENCES_SHELLS_H

#include "common/status.h"

struct shells;

/* Creates what transforms of maps of box³ (even) need. */
enum status shells_create(int box, int threads, struct shells **ret_shells, struct err *err);
void shells_destroy(struct shells **shells);

/* Multiplies shell s of a map by gains[s], s = 0 .. box/2; nothing is left of what lies beyond. */
void shells_filter(struct shells *shells, const float *gains, float *map);

/* Sums |F|² over each whole shell: ret_power[box/2 + 1]. F = Σ map · exp(−2πi k·x/box), without a factor. */
void shells_power(struct shells *shells, const float *map, double *ret_power);

#endif
