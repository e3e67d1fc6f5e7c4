/* Parts of the set of particles that the reader of files needs. */
#ifndef ICESTREAM_STAGES_REFINER_PARTICLES_PRIVATE_H
#define ICESTREAM_STAGES_REFINER_PARTICLES_PRIVATE_H

#include "stages/refiner/particles.h"

/* Makes room for so many particles in all, or for more. */
enum status particle_set_reserve(struct particle_set *set, size_t count, struct err *err);
/* Adds a particle that the set does not have. Takes its name over, which `from` then lacks. hash: names_hash of the
 * name. */
enum status particle_set_take(struct particle_set *set, struct particle *from, uint32_t hash, struct err *err);
/* Returns the particle of this name, whose names_hash is given, or NULL. */
struct particle *particle_find_hashed(const struct particle_set *set, const char *name, uint32_t hash);
/* Returns the stack with this path; −1: there is none. */
int particle_stack_at(const struct particle_set *set, const char *path);
/* Returns the optics group with this name, these values and this MTF (NULL: none, else of a detector with pixels of
 * mtf_pixel, Å); else the number of groups. */
int particle_optics_find(const struct particle_set *set, const char *name, const struct optics *values,
                         const struct optics_aberrations *aberrations, const char *mtf, double mtf_pixel);
/* Releases files that no present particle and no optics group comes from, or marks the set for it while it is held. */
void particle_set_release_sources(struct particle_set *set);

/* Appends an element of zeros to a list. array_pointer: the address of the list's pointer. */
enum status particle_list_append(void *array_pointer, int *count, size_t size, struct err *err);
/* Copies a text; the caller frees the copy. */
enum status particle_text(const char *text, char **ret_copy, struct err *err);

#endif
