/* Holds the particles of a refinement: where each comes from, its half, its CTF and the results so far. Particles
 * accumulate, leave with a new selection and come back; the name of an image keeps the results of its particle. */
#ifndef ICESTREAM_STAGES_REFINER_PARTICLES_H
#define ICESTREAM_STAGES_REFINER_PARTICLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/digest.h"
#include "common/formats/particle_place.h"
#include "common/formats/particle_table.h"
#include "common/formats/star.h"
#include "common/image_pool.h"
#include "common/names.h"
#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/prepare/image_check.h"

struct particle {
    char *name;       /* "000001@stack"; the stack relative to the root if it lies below the root */
    int stack, slice; /* index into stacks; slice from 0 */
    int source;       /* index into sources, or −1: not in the present set */
    bool gone;        /* its stack was written anew: its name stands for another image, and does not find it any more */
    size_t row;
    int optics;
    int half;               /* 0 or 1 */
    int own_half;           /* the half of its row, or of its name */
    bool mapped;            /* maps that were made hold the image, in the map of `half` */
    bool aligned;           /* an iteration has found the pose, or has kept the one given */
    bool given;             /* the table gave a pose; what iterations find begins there */
    double given_origin[2]; /* px: its origin, as `origin` */
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
    int chunk;    /* of its half: the first bits of the hash of its name (struct side) */
    float *image; /* box², or NULL: read when needed (loader.h) */
    bool judged;  /* it was there when it was decided how images are checked */
    bool spoiled; /* the image is constant, not finite or far too strong, and counts as empty */
    /* twins.h: */
    struct particle_place place;
    struct digest_value digest; /* of the image's pixels; 0: not read yet, or spoiled */
    bool doubled;               /* another image was found to have the same pixels */
    int twin;                   /* 1 + index of the particle whose twin it is: it is left out; 0: it counts */
    bool compared, junk;        /* with the first map; it does not show it (initial/junk.h), and counts all the same */
    int repeated;               /* further rows of its table that name the same image */
};

struct particle_optics {
    char *name;
    int source;
    size_t row;
    int box;           /* px, of its images; 0: none was seen */
    double pixel_size; /* Å, of its images */
    double voltage, spherical_aberration, amplitude_contrast;
    struct optics_aberrations aberrations;
    struct aberration *even;          /* of CTFs; NULL: none */
    struct optics_detector *detector; /* its MTF; NULL: none is named */
};

struct particle_source {
    struct star_file *file; /* NULL: released, no particle needs it */
    char *path;
    bool needed; /* while files are released: a particle or an optics group comes from it */
};

struct particle_stack {
    char *path, *name; /* absolute or from the working directory; as in particle.name */
    int box, images;
    double pixel_size; /* Å, of its header; 0: unknown */
    struct stat file;  /* when a table that names it was read */
};

struct particle_changes;

struct particle_set {
    struct particle *particles;
    size_t count, capacity;
    size_t present;  /* those with a source */
    int *order;      /* [present]: those of one selection, in the order of its rows; NULL: they came otherwise */
    uint64_t digest; /* of their names as its table has them (formats/selection_changes.h) */
    struct particle_changes *changes; /* of a set that was read: what the file says of a selection before; else NULL */
    size_t left_out;                  /* of those present, as twins of others */
    size_t repeated;                  /* further rows that name the image of a particle that is present */
    struct particle_optics *optics;
    int optics_count;
    struct particle_source *sources;
    int source_count;
    struct particle_stack *stacks;
    int stack_count;
    struct names particle_names, stack_paths; /* find particles by name, and stacks by path */
    struct stack_headers *headers;            /* of stacks that tables named; NULL: none are kept. The set's */
    int box;                     /* px, of the refinement, to which images are brought (grids.h); 0: no particles yet */
    double pixel_size;           /* Å */
    int preferred_box;           /* px, of the reference; 0: not known */
    double preferred_pixel_size; /* Å */
    bool ignore_optics;          /* aberrations are not corrected */
    struct image_pool *pool;     /* of images that stay in memory; NULL: there were none yet */
    size_t cached_bytes, cache_limit; /* of such images */
    struct image_check *check;        /* of images as they are read; NULL: not decided yet. The refiner's */
    unsigned seed;
    char *root;                 /* stacks not beside their table are looked for below it; NULL: none */
    double fallback_pixel_size; /* Å, for files without a pixel size; NaN: none */
    int held;                   /* number of holds (particle_set_hold) */
    bool outdated;              /* some files can be released */
    bool unsettled;             /* particles that joined before have not been brought to the grid (grids_settle) */
    bool poses_given;           /* tables must give poses (given_poses.h) */
    bool inverted;              /* poses are those of maps in the other hand than the reference, and tables (hand.h) */
    bool keep_twins;            /* no particle is left out as a twin */
    bool marked;                /* some particles were compared with a first map: `junk` means something */
    bool settled;               /* the twins of the present particles are known, as far as images were read */
    double twin_distance;       /* Å, between twins in one micrograph; 0: places are not compared */
};

/* Returns the number of particles that count: present, and not left out. */
static inline size_t particle_set_counted(const struct particle_set *set) {
    return set->present - set->left_out;
}
/* Returns whether the image was read, and is good. */
static inline bool particle_has_digest(const struct particle *p) {
    return (p->digest.high | p->digest.low) != 0;
}
/* Returns whether two particles were found to have equal pixels. */
static inline bool particle_twins_by_pixels(const struct particle *p, const struct particle *q) {
    return p->doubled && q->doubled && p->digest.low == q->digest.low && p->digest.high == q->digest.high;
}
/* Returns whether a particle counts. */
static inline bool particle_counts(const struct particle *p) {
    return p->source >= 0 && p->twin == 0;
}

/* Returns the CTF of a particle; NULL: it is 1 everywhere. */
static inline const struct ctf *particle_ctf(const struct particle *p) {
    return p->has_ctf || p->ctf.limit > 0 ? &p->ctf : NULL;
}

/* Begins an empty set. cache_limit: bytes for images that are kept in memory. */
void particle_set_init(struct particle_set *set, unsigned seed, size_t cache_limit, double fallback_pixel_size);
void particle_set_destroy(struct particle_set *set);

/* Reads a STAR file (RELION 3.1 with optics, or one table), which is consumed also on failure, into a set of its own
 * with the settings of `set`; of these it only reads, so that several threads may call it. The caller frees what was
 * read, or adds it to the set. */
enum status particle_set_read(const struct particle_set *set, struct star_file **file, const char *path,
                              struct particle_set **ret_read, struct err *err);
void particle_set_free(struct particle_set **read);
/* Adds the particles of a file that was read, which are consumed also on failure. replace: particles that are not in
 * the file leave the set, and those whose stack has since been written anew are not those of the same name in the file.
 * ret_new: the number of particles that were not in the set before. A file that cannot join leaves the particles of the
 * set as they were. */
enum status particle_set_join(struct particle_set *set, struct particle_set **read, bool replace, size_t *ret_new,
                              struct err *err);
/* As particle_set_read, for a file that holds what has changed since another selection (docs/protocol.md). */
enum status particle_set_read_changes(const struct particle_set *set, struct star_file **file, const char *path,
                                      struct particle_set **ret_read, struct err *err);
/* Returns the id of the selection with which changes that were read begin. */
const char *particle_set_since(const struct particle_set *read);
/* Applies changes that were read, which are consumed. The set is then as if the whole selection had joined it with
 * `replace`; but it keeps images of a stack that was written anew and is not among the changes. ret_misfit: why they cannot be applied, because the set does not hold just the selection that they begin
 * with, or because they contradict themselves: the set is then as it was; NULL: they are applied. */
enum status particle_set_change(struct particle_set *set, struct particle_set **read, const char **ret_misfit,
                                struct err *err);
/* Reads a file, and adds its particles. */
enum status particle_set_merge(struct particle_set *set, struct star_file **file, const char *path, bool replace,
                               size_t *ret_new, struct err *err);

/* Checks whether particle_set_read accepts the file, which the caller keeps. */
enum status particle_set_try(const struct particle_set *set, struct star_file **file, const char *path,
                             struct err *err);
/* Returns room for an image that stays in memory, box² floats, not set; NULL: the limit of the set is reached, or there
 * is no memory. Images lie in large pages: a page of the usual size costs more than what is written into it. */
float *particle_image_room(struct particle_set *set);
/* Takes such room back. Accepts NULL. */
void particle_image_give(struct particle_set *set, float *image);
/* Removes the particle's image from memory, if it is there. */
void particle_image_free(struct particle_set *set, struct particle *particle);

/* Returns the particle of this name (rlnImageName), or NULL. */
struct particle *particle_find(const struct particle_set *set, const char *name);

/* Between hold and let_go, which come in pairs, another thread may export a copy of particles, optics and sources: no
 * file is released. */
void particle_set_hold(struct particle_set *set);
void particle_set_let_go(struct particle_set *set);

/* Returns a number that depends on the name and the seed alone. */
uint64_t particle_hash(const char *name, unsigned seed);

#endif
