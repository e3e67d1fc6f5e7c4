/* The particles of a refinement: where each comes from, its half, its CTF, and what has been found out about it.
 * They accumulate, are replaced by a new selection, and come back; what is known of one stays with its image's name. */
#ifndef ICESTREAM_STAGES_REFINER_PARTICLES_H
#define ICESTREAM_STAGES_REFINER_PARTICLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/formats/particle_table.h"
#include "common/formats/star.h"
#include "common/status.h"
#include "kernels/ctf/ctf.h"

struct particle {
    char *name;       /* "000001@stack", the stack relative to the root where it lies below it */
    int stack, slice; /* index into stacks; slice from 0 */
    int source;       /* index into sources, or −1: not in the present set */
    size_t row;
    int optics;
    int half;     /* 0 or 1 */
    bool aligned; /* the pose has been found in an iteration */
    int class_index;
    struct ctf ctf;
    bool has_ctf;
    double pose[9];
    double origin[2]; /* px: shift that centres the image */
    double norm;
    double log_likelihood, max_probability;
    int significant;    /* coarse samples that mattered */
    double reliability; /* 1: as good as before */
    double residual;    /* at the best pose of the last iteration, over shells up to residual_shell; < 0: unknown */
    int residual_shell;
    float *image; /* box², or NULL: read when needed (loader.h) */
    bool spoiled; /* the image that was read says nothing, and counts as empty */
};

struct particle_optics {
    char *name;
    int source;
    size_t row;
    double pixel_size, voltage, spherical_aberration, amplitude_contrast;
};

struct particle_source {
    struct star_file *file; /* NULL: no particle needs it any more */
    char *path;
};

struct particle_stack {
    char *path, *name; /* absolute or from the working directory; as in particle.name */
    char *given;       /* as the file called it that named it last */
    int source;        /* that file */
    int images;
    double pixel_size; /* Å, of its header; 0: unknown */
};

struct particle_set {
    struct particle *particles;
    size_t count, capacity;
    size_t present; /* those with a source */
    struct particle_optics *optics;
    int optics_count;
    struct particle_source *sources;
    int source_count;
    struct particle_stack *stacks;
    int stack_count, last_stack;
    int *table; /* open addressing by name: index + 1, 0 empty */
    size_t table_size;
    int box;           /* px; 0 until the first particle */
    double pixel_size; /* Å */
    size_t cached_bytes, cache_limit;
    double strongest; /* mean square of an image's values that is still believed; 0: not known yet */
    unsigned seed;
    char *root;                 /* what relative paths are tried against first */
    double fallback_pixel_size; /* where a file does not say; NaN: none */
    int held;                   /* by particle_set_hold, so many times */
    bool outdated;              /* some file could be let go */
};

void particle_set_init(struct particle_set *set, unsigned seed, size_t cache_limit, double fallback_pixel_size);
void particle_set_destroy(struct particle_set *set);

/* The particles of a STAR file (RELION 3.1 with optics, or one table). It is consumed, whatever the outcome. replace:
 * those that are not in it leave the set. ret_new: how many joined that were not in the set before. */
enum status particle_set_merge(struct particle_set *set, struct star_file **file, const char *path, bool replace,
                               size_t *ret_new, struct err *err);

/* Whether a set like this one, and empty, would take the file, which stays the caller's; and what its particles have in
 * common (0: it has none). Looks at the root and at what is a setting only, so that several threads may ask. */
enum status particle_set_try(const struct particle_set *set, struct star_file **file, const char *path, int *ret_box,
                             double *ret_pixel_size, struct err *err);
struct particle *particle_find(const struct particle_set *set, const char *name);

/* From the one to the other, which come in pairs, a copy of particles, optics and sources may be exported, from another
 * thread: files that no particle needs any more stay. */
void particle_set_hold(struct particle_set *set);
void particle_set_let_go(struct particle_set *set);

/* The set as tables "optics" and "particles" of RELION 3.1, every column of the sources kept. */
enum status particle_set_export(const struct particle_set *set, struct star_file *file, struct err *err);

/* A number that depends on the name and seed alone. */
uint64_t particle_hash(const char *name, unsigned seed);

#endif
