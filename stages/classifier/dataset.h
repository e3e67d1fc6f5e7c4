/* Holds the particles of a classification: where their images are, their CTFs, and the classes and poses found so far.
 *
 * I/O threads submit tables (dataset_submit takes a lock); the one computing thread adds them to the dataset
 * (dataset_merge) and calls all other functions. An image is read when it is first needed, and is kept in memory up to
 * a limit; images beyond the limit are read again each time. Threads read images that are expected ahead of their use
 * (ahead.h). */
#ifndef ICESTREAM_STAGES_CLASSIFIER_DATASET_H
#define ICESTREAM_STAGES_CLASSIFIER_DATASET_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/stack_reader.h"
#include "common/formats/star.h"
#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/prepare/image_check.h"
#include "stages/classifier/ways.h"

struct dataset_particle {
    int batch, row;   /* batch, and row in its table */
    int stack, slice; /* slice from 0 */
    int optics;       /* row of the batch's optics table, -1: none */
    int way;          /* index of its batch's ways; once it is merged, of the dataset's */
    bool has_ctf;
    bool uses_ctf; /* `ctf` is to be applied: it has one, or its image ends before the last shell */
    struct ctf ctf;
    int image_box;     /* px, of its image */
    double pixel_size; /* Å, of the comparison, once it is merged */
    float *image;      /* box² of the comparison, NULL: not in memory */
    int slot;          /* of ahead.h, 0: none */

    int class_index;      /* -1: not classified yet */
    float psi;            /* ° */
    float x, y;           /* px: the shift that centres the image */
    float probability;    /* of the likeliest pose */
    float log_likelihood; /* rlnLogLikeliContribution */
    float evidence;       /* ln(likelihood of the classes / likelihood of noise alone) */
    float norm;
    bool judged;     /* it was looked at when it was decided how images are checked */
    bool sampled;    /* chosen for the next sample; reading threads measure it */
    bool unusable;   /* the image holds NaN, infinite or far too large values: it is in the empty class */
    int significant; /* coarse poses */
    int visits;
};

struct dataset_stack {
    char *path; /* absolute */
    int box, slices;
};

/* A table as it was submitted: the particles of one micrograph, or a whole particles.star. */
struct dataset_batch {
    struct star_file *file;
    const struct star_table *optics, *table; /* parts of `file`; optics may be NULL */
    struct dataset_particle *particles;
    struct dataset_stack *stacks;
    int stack_count;
    size_t count;
    struct ways ways;
    char *source, *id; /* of the item that it came with; NULL: not known */
};

/* Finds the file that a STAR file names. absolute: PATH_MAX. */
typedef enum status dataset_resolve(void *context, const char *star_path, const char *name, char *absolute,
                                    struct err *err);
/* Reads a table and the headers of its stacks. fallback: Å/px for a table without pixel size; NaN: that in the header
 * of the first stack. ignore_optics: aberrations are not corrected. */
enum status dataset_batch_read(const char *star_path, dataset_resolve *resolve, void *context, double fallback,
                               bool ignore_optics, struct dataset_batch **ret_batch, struct err *err);
/* Notes source and id of the item that the table came with. */
enum status dataset_batch_name(struct dataset_batch *batch, const char *source, const char *id, struct err *err);
void dataset_batch_destroy(struct dataset_batch **batch);

struct dataset;
/* Creates an empty set. memory_limit: bytes for images that are kept in memory. */
enum status dataset_create(size_t memory_limit, struct dataset **ret_dataset, struct err *err);
void dataset_destroy(struct dataset **dataset);

/* Starts `threads` that read images ahead, into `bytes` of memory at most, and keep copies in the cache (NULL: none),
 * which must outlive the dataset. Results stay the same. Call it before the first image is read. */
enum status dataset_read_ahead(struct dataset *dataset, int threads, size_t bytes, struct shards *cache,
                               struct err *err);
/* Names who knows of images that need not be read, since a device keeps them; they are not read ahead either. `keeps` is
 * asked by the owner's thread, in dataset_expect and before. NULL: nobody. */
typedef bool dataset_keeps(const void *context, size_t index);
void dataset_kept_by(struct dataset *dataset, dataset_keeps *keeps, const void *context);
/* Says which images are needed next, in their order: which[count], then probably next[next_count]. Does nothing without
 * dataset_read_ahead. */
void dataset_expect(struct dataset *dataset, const size_t *which, size_t count, const size_t *next, size_t next_count);
/* Returns what was read so far: ahead, and by the computing thread when it needed an image. */
void dataset_reads(struct dataset *dataset, struct stack_reads *ret_ahead, struct stack_reads *ret_asked);

/* Call before the first merge: images are cut to the detail up to `finest` (Å) that is compared, where that saves much
 * (cut.h). They are checked and normalised whole. Threads that read ahead do that too, so that images are ready when they
 * are needed; results stay the same. */
void dataset_cut(struct dataset *dataset, double finest);

/* Copies what is known of the particles, so that another thread can write it while the classification goes on: all that
 * the functions below return without reading images. *copy: NULL, or a copy to reuse. Tables, and the optics, stay those of
 * the dataset, which must outlive the copy. */
enum status dataset_copy(const struct dataset *dataset, struct dataset **copy, struct err *err);
void dataset_copy_destroy(struct dataset **copy);

/* Takes the batch over and nulls it. Box and pixel size of most particles of the first batch become those of all. Any
 * thread. */
enum status dataset_submit(struct dataset *dataset, struct dataset_batch **batch, struct err *err);
/* Call before the first merge: makes the box and the pixel size of an earlier run those of all, if a submitted batch has
 * particles of them. */
void dataset_keep_grid(struct dataset *dataset, int box, double pixel_size);
/* Adds all submitted batches. ret_added may be NULL. */
enum status dataset_merge(struct dataset *dataset, size_t *ret_added, struct err *err);
/* Returns how many particles are brought from another box or pixel size, and such an image's; 0: none. */
size_t dataset_resampled(const struct dataset *dataset, int *ret_box, double *ret_pixel_size);
/* Returns how many particles have aberrations that are corrected, and one of these; 0: none. */
size_t dataset_corrected(const struct dataset *dataset, const struct optics_aberrations **ret_aberrations);
/* Returns rlnMtfFileName of a group whose file cannot be read; NULL: there is none. */
const char *dataset_missing_mtf(const struct dataset *dataset);
/* Returns the optics of a particle that is merged. */
const struct way *dataset_way(const struct dataset *dataset, size_t index);
/* Returns the number of particles. */
size_t dataset_count(const struct dataset *dataset);
/* Return box (px) and pixel size (Å) of the images that dataset_image returns; 0 before the first merged batch. */
int dataset_box(const struct dataset *dataset);
double dataset_pixel_size(const struct dataset *dataset);
/* Return those of the particles before they are cut, which files have. */
int dataset_whole_box(const struct dataset *dataset);
double dataset_whole_pixel_size(const struct dataset *dataset);
/* Returns the particle at `index`. */
struct dataset_particle *dataset_at(struct dataset *dataset, size_t index);
/* Returns the image of a particle, from memory or read into scratch[box²]. An image that is not finite, or far stronger
 * than the others, is set to zero, and its particle becomes `unusable`. */
enum status dataset_image(struct dataset *dataset, size_t index, float *scratch, const float **ret_image,
                          struct err *err);
/* Decides how images are checked and normalised (image_check.h), from those of which[count] that were not looked at
 * before: 2000 of them at most. The first call must find images that are normalised or can be. Later calls may find
 * others: from then on all are normalised. Those that cannot be are told and taken as they are. Checks images in memory
 * again. diameter: Å. *ret_changed: images that were given out before have other values now. */
enum status dataset_judge(struct dataset *dataset, const size_t *which, size_t count, double diameter,
                          enum image_check_mode mode, bool *ret_changed, struct err *err);
/* Returns why images are normalised, or cannot be, for a warning; "": they are taken as they are, or it is not decided
 * yet. */
const char *dataset_background(const struct dataset *dataset);
/* Returns whether images were found not to be normalised, and all are. */
bool dataset_normalises(const struct dataset *dataset);
/* Goes on with a run before. Call it before the first dataset_judge. normalised: dataset_normalises of that run. */
void dataset_go_on(struct dataset *dataset, bool normalised);
/* Returns the table that holds the particle's row. */
const struct star_table *dataset_row(const struct dataset *dataset, size_t index, size_t *ret_row);
/* Returns the path of the stack that holds the image. */
const char *dataset_stack(const struct dataset *dataset, size_t index);
/* Returns source and id of the item that brought the particle; "" where they are not known. */
void dataset_item(const struct dataset *dataset, size_t index, const char **ret_source, const char **ret_id);
/* Returns the optics table of the particle; NULL: none. */
const struct star_table *dataset_optics(const struct dataset *dataset, size_t index, size_t *ret_row);

#endif
