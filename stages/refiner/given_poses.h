/* Poses that the table of the particles gives: RELION's angles and origins, also those in pixels of RELION 3.0. */
#ifndef ICESTREAM_STAGES_REFINER_GIVEN_POSES_H
#define ICESTREAM_STAGES_REFINER_GIVEN_POSES_H

#include "common/formats/star.h"
#include "kernels/sampling/sampling.h"
#include "stages/refiner/particles.h"

/* Columns of a table. */
struct given_columns {
    int angles[3];  /* rlnAngleRot, rlnAngleTilt, rlnAnglePsi */
    int origins[2]; /* rlnOriginXAngst and rlnOriginYAngst, else rlnOriginX and rlnOriginY; −1: origins are 0 */
    bool angstrom;  /* origins are in Å, else in px of the row's images */
};

/* Finds the columns. Fails if there are no angles, or one origin without the other. path: for messages. */
enum status given_poses_find(const struct star_table *rows, const char *path, struct given_columns *ret_columns,
                             struct err *err);
/* Gives particles which[count], which come from these rows, their poses, unless an iteration has found them. Call it once
 * the set has its grid (grids.h). */
enum status given_poses_take(struct particle_set *set, const int *which, size_t count, const struct star_table *rows,
                             const struct given_columns *columns, const char *path, struct err *err);

/* Returns the deviation (px) of given origins along an axis: of all particles that count. */
double given_poses_deviation(const struct particle_set *set);
/* Lists the poses of all particles, particle i as orientation i, in place of a grid. */
enum status given_poses_list(const struct particle_set *set, struct sampling *ret_list, struct err *err);

#endif
