/* Holds the particles of a refinement: where each comes from, its half, its CTF and the results so far. Particles
 * accumulate, leave with a new selection and come back; the name of an image keeps the results of its particle. */
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
    char *name;       /* "000001@stack"; the stack relative to the root if it lies below the root */
    int stack, slice; /* index into stacks; slice from 0 */
    int source;       /* index into sources, or −1: not in the present set */
    size_t row;
    int optics;
    int half;     /* 0 or 1 */
    bool aligned; /* an iteration has found the pose */
    int class_index;
    struct ctf ctf;
    bool has_ctf;
    double pose[9];
    double origin[2]; /* px: the shift that centres the image */
    double norm;
    double log_likelihood, max_probability;
    int significant;    /* coarse samples that mattered */
    double reliability; /* 1: as good as before */
    double residual;    /* at the best pose of the last iteration, over shells up to residual_shell; < 0: unknown */
    int residual_shell;
    float *image; /* box², or NULL: read when needed (loader.h) */
    bool spoiled; /* the image is not finite or far too strong, and counts as empty */
};

struct particle_optics {
    char *name;
    int source;
    size_t row;
    double pixel_size, voltage, spherical_aberration, amplitude_contrast;
};

struct particle_source {
    struct star_file *file; /* NULL: released, no particle needs it */
    char *path;
};

struct particle_stack {
    char *path, *name; /* absolute or from the working directory; as in particle.name */
    char *given;       /* as the last file named the stack */
    int source;        /* index of that file */
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
    double strongest; /* greatest strength of an image (particle_image.h); 0: unknown */
    unsigned seed;
    char *root;                 /* stacks not beside their table are looked for below it; NULL: none */
    double fallback_pixel_size; /* Å, for files without a pixel size; NaN: none */
    int held;                   /* number of holds (particle_set_hold) */
    bool outdated;              /* some files can be released */
};

/* Begins an empty set. cache_limit: bytes for images that are kept in memory. */
void particle_set_init(struct particle_set *set, unsigned seed, size_t cache_limit, double fallback_pixel_size);
void particle_set_destroy(struct particle_set *set);

/* Adds the particles of a STAR file (RELION 3.1 with optics, or one table), which is consumed also on failure.
 * replace: particles that are not in the file leave the set. ret_new: the number of particles that were not in the set
 * before. */
enum status particle_set_merge(struct particle_set *set, struct star_file **file, const char *path, bool replace,
                               size_t *ret_new, struct err *err);

/* Checks whether an empty set with the settings of this one would accept the file, which the caller keeps. Returns box
 * and pixel size of its particles (0: it has none). Reads settings only, so that several threads may call it. */
enum status particle_set_try(const struct particle_set *set, struct star_file **file, const char *path, int *ret_box,
                             double *ret_pixel_size, struct err *err);
/* Returns the particle of this name (rlnImageName), or NULL. */
struct particle *particle_find(const struct particle_set *set, const char *name);

/* Between hold and let_go, which come in pairs, another thread may export a copy of particles, optics and sources: no
 * file is released. */
void particle_set_hold(struct particle_set *set);
void particle_set_let_go(struct particle_set *set);

/* Returns a number that depends on the name and the seed alone. */
uint64_t particle_hash(const char *name, unsigned seed);

#endif
