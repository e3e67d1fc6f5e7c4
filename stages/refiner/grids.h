/* Brings particles of different boxes and pixel sizes to the grid of the refinement, and corrects their optics:
 * kernels/regrid does it to an image when it is read, and the CTF of a particle gets its even aberrations and ends at
 * the last frequency that its image has.
 *
 * The grid is that of the reference if particles have it; else that of most particles of the first file. */
#ifndef ICESTREAM_STAGES_REFINER_GRIDS_H
#define ICESTREAM_STAGES_REFINER_GRIDS_H

#include "kernels/regrid/regrid.h"
#include "stages/refiner/particles.h"

/* Notes the grid of a map as the one that particles should have. A map that cannot be read changes nothing. */
void grids_prefer_map(struct particle_set *set, const char *path);
/* Decides on the grid of a set that has none, from the particles that are present. Then sets the limits of the CTFs of
 * particles which[count]; of all if which is NULL or the set had no grid. */
enum status grids_settle(struct particle_set *set, const int *which, size_t count, struct err *err);

/* Returns where images of an optics group end, in shells of the set's grid; 0: they have all shells (regrid_limit). */
double grids_limit(const struct particle_set *set, int optics);

/* Makes the even aberrations of an optics group; the caller frees them. NULL: there are none. */
enum status grids_even(const struct optics_aberrations *aberrations, struct aberration **ret_even, struct err *err);

/* Makes what brings images of a stack and an optics group to the set's grid. NULL: they stay as they are. */
enum status grids_regrid(const struct particle_set *set, const struct particle_optics *optics, int box,
                         struct regrid **ret_regrid, struct err *err);

/* Return whether images of a particle come from another grid, and whether its optics are corrected. */
bool grids_resample(const struct particle_set *set, const struct particle *particle);
bool grids_correct(const struct particle_set *set, const struct particle *particle);
/* Returns whether what brings the image to the set changes the deviation of its noise: another grid, or another MTF. Such
 * an image is judged and normalised as its file has it. */
bool grids_change_noise(const struct particle_set *set, const struct particle *particle);

/* Convert the shift of a particle, in px of the refinement, to that in Å of its own image, and back: a magnification
 * matrix changes shifts too. */
void grids_shift_to_table(const struct particle_set *set, const struct particle *particle, double ret_shift[2]);
void grids_shift_from_table(const struct particle_set *set, struct particle *particle, const double shift[2]);

#endif
