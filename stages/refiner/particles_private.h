/* What the set of particles and the reading of files share. */
#ifndef ICESTREAM_STAGES_REFINER_PARTICLES_PRIVATE_H
#define ICESTREAM_STAGES_REFINER_PARTICLES_PRIVATE_H

#include "stages/refiner/particles.h"

/* A particle that the set does not have yet, of these values but for the name, which is copied. */
enum status particle_set_add(struct particle_set *set, const char *name, const struct particle *values,
                             struct particle **ret_particle, struct err *err);
/* Lets go of files that no particle and no optics group of the present set is from, as soon as none is held. */
void particle_set_release_sources(struct particle_set *set);

/* One more element of a list, all zeros. array_pointer: the address of the list's pointer. */
enum status particle_list_append(void *array_pointer, int *count, size_t size, struct err *err);
enum status particle_text(const char *text, char **ret_copy, struct err *err);

#endif
