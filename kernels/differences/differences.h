/* Differences of maps from their weighted mean. What counts of a difference D may depend on the place: w · D.
 *
 * On a workspace's device all maps lie from create to destroy, and in between nothing else may use the workspace. On the
 * CPU maps hold their differences between filter and move. Both agree except for rounding, and results repeat bit for bit,
 * for any number of threads. Maps are in host memory, box³ each, box even; their shells are those of shells.h. */
#ifndef ICESTREAM_KERNELS_DIFFERENCES_DIFFERENCES_H
#define ICESTREAM_KERNELS_DIFFERENCES_DIFFERENCES_H

#include "common/status.h"
#include "kernels/fourier/workspace.h"

enum { DIFFERENCES_MOST = 256 }; /* maps */

struct differences_maps {
    int box, count, threads;
    float *maps[DIFFERENCES_MOST];
    float shares[DIFFERENCES_MOST]; /* weights of the mean */
};

struct differences;
/* Returns whether the workspace has room for so many maps; NULL: false. */
enum status differences_fit(struct workspace *workspace_or_null, int box, int count, bool *ret_fit, struct err *err);
/* Finds the mean of the maps. workspace NULL: on the CPU. */
enum status differences_create(struct workspace *workspace_or_null, const struct differences_maps *of,
                               struct differences **ret_differences, struct err *err);
void differences_destroy(struct differences **differences);

/* Multiplies the shells of all differences by gains[box/2 + 1]. Computes their mean square Σ share D², and multiplies its
 * shells by about[box/2 + 1]: ret_square[box³]. differences_weigh follows. */
enum status differences_filter(struct differences *differences, const float *gains, const float *about,
                               float *ret_square, struct err *err);
/* Sets w = 1 − noise/square where the square of differences_filter exceeds the noise, and 0 elsewhere. Before, w is 1. */
enum status differences_weigh(struct differences *differences, double noise, struct err *err);
/* Sums the power of w · D of map k over each shell: ret_power[box/2 + 1], as shells_power. */
enum status differences_power(struct differences *differences, int k, double *ret_power, struct err *err);
/* Sets all maps to mean + part · w · D. Nothing but destroy may follow. */
enum status differences_move(struct differences *differences, double part, struct err *err);

#endif
