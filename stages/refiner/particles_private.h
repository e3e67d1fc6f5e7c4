/* Parts of the set of particles that the reader of files needs. */
#ifndef ICESTREAM_STAGES_REFINER_PARTICLES_PRIVATE_H
#define ICESTREAM_STAGES_REFINER_PARTICLES_PRIVATE_H

#include "common/files.h"
#include "common/formats/selection_changes.h"
#include "stages/refiner/particles.h"

/* Holds all that a file of changes says beside its rows. */
struct particle_changes {
    struct selection_changes head;
    size_t *rows;            /* [read->count]: rows of the whole table in which the particles stand */
    uint64_t *digests;       /* [read->count]: of their names as the file has them */
    char **names;            /* [removed]: of particles that have left */
    int *indices;            /* [removed]: where the set has them: particle_changes_misfit */
    size_t removed;          /* particles that have left */
    uint64_t removed_digest; /* of their names as the file has them, summed */
};

/* Returns why changes cannot be applied, NULL: they can. particles: [read->count], where the set has them, −1: not at
 * all. ret_moved: [set->count] zeros; becomes 1 for those that have left, or whose row is in the file. */
const char *particle_changes_misfit(const struct particle_set *set, const struct particle_set *read,
                                    const int *particles, unsigned char *ret_moved);
/* Lets the particles leave that the file says have left. */
void particle_changes_leave(struct particle_set *set, const struct particle_changes *changes);
/* Writes the order of the new selection's rows. particles, moved: as above, now without −1. before: the order that the
 * set had; order: [head.count]. */
void particle_changes_order(const struct particle_set *read, const int *particles, const unsigned char *moved,
                            const int *before, int *order);
void particle_changes_free(struct particle_changes **changes);

/* Writes the name of a particle: NNNNNN@STACK. */
void particle_name_write(int number, const char *stack, char name[PATH_SIZE + 16]);
/* Returns a path relative to the root if it lies below the root, so that the session can be moved and serves RELION as
 * its project folder. */
const char *particle_name_below(const char *root, const char *path);

/* Makes room for so many particles in all, or for more. */
enum status particle_set_reserve(struct particle_set *set, size_t count, struct err *err);
/* Adds a particle, which is not found by its name then. Takes its name over. */
enum status particle_set_append(struct particle_set *set, struct particle *from, struct err *err);
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
