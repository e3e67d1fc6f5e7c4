/* Particles of a micrograph that was picked again: one that lies where one of the former picks lay is the same particle
 * under another name, and keeps its half, pose and class. */
#ifndef ICESTREAM_STAGES_REFINER_HEIRS_H
#define ICESTREAM_STAGES_REFINER_HEIRS_H

#include "stages/refiner/particles.h"

/* Gives particles that are new in the set, from index `first` on, what iterations have found of particles before them
 * that have left it. */
enum status heirs_join(struct particle_set *set, size_t first, struct err *err);

/* Finds for the rows of an earlier run's tables whose particles are not in the set the particles that follow them and
 * have no pose. heir_of: [rows], index into the set; -1: none. */
enum status heirs_of_rows(const struct particle_set *set, const struct star_table *rows,
                          const struct star_table *optics, int *heir_of, struct err *err);
/* Lets a particle that has taken the results of a row keep its own place: the origin of the row is that of the place at
 * which the former one lay. */
void heirs_settle(const struct particle_set *set, const struct particle_place *row, struct particle *particle);
/* Returns whether a row lies elsewhere than the particle that has its name: the name has another image since. */
bool heirs_moved(const struct particle_set *set, struct particle_places *places, size_t row,
                 const struct particle *particle);
/* Returns the place of a row. */
struct particle_place heirs_place(const struct particle_set *set, struct particle_places *places, size_t row);

#endif
