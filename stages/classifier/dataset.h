/* The particles of a classification: where their images lie, their CTFs, and what is known of each so far.
 *
 * Tables come in from I/O threads (dataset_submit, locked) and are taken over by the one thread that computes
 * (dataset_merge); all else belongs to that thread. Images are read when they are first needed and kept in memory up
 * to a limit; beyond it they are read again each time. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_DATASET_H
#define ICESTREAM_STAGES_CLASSIFIER_DATASET_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/star.h"
#include "common/status.h"
#include "kernels/ctf/ctf.h"

struct dataset_particle {
    int batch, row;   /* its row in the table of that batch */
    int stack, slice; /* slice from 0 */
    int optics;       /* row of the batch's optics table, -1: none */
    bool has_ctf;
    struct ctf ctf;
    double pixel_size; /* Å/px of its image */
    float *image;      /* box², NULL: not in memory */

    int class_index;      /* -1: not classified yet */
    float psi;            /* ° */
    float x, y;           /* px: the shift that centres the image */
    float probability;    /* of the likeliest pose */
    float log_likelihood; /* rlnLogLikeliContribution */
    float evidence;       /* ln of how much better the classes explain the image than nothing does */
    float norm;
    bool unusable;   /* its image holds values that are no numbers, or far too large: in the empty class */
    int significant; /* coarse poses */
    int visits;
};

struct dataset_stack {
    char *path; /* absolute */
    int slices;
};

/* A table that came in: one micrograph's particles, or a whole particles.star. */
struct dataset_batch {
    struct star_file *file;
    const struct star_table *optics, *table; /* of `file`; optics may be NULL */
    struct dataset_particle *particles;
    struct dataset_stack *stacks;
    int stack_count;
    size_t count;
    int box;
    double pixel_size;
};

/* Turns a path of a STAR file into one that can be opened. */
typedef enum status dataset_resolve(void *context, const char *star_path, const char *name, char *absolute,
                                    struct err *err);
/* fallback: Å/px where the table does not say; NaN: what the header of the first stack says. */
enum status dataset_batch_read(const char *star_path, dataset_resolve *resolve, void *context, double fallback,
                               struct dataset_batch **ret_batch, struct err *err);
void dataset_batch_destroy(struct dataset_batch **batch);

struct dataset;
enum status dataset_create(size_t memory_limit, struct dataset **ret_dataset, struct err *err);
void dataset_destroy(struct dataset **dataset);

/* Any thread. Takes the batch over (nulls it), or refuses it: its box or pixel size are not those of the others. */
enum status dataset_submit(struct dataset *dataset, struct dataset_batch **batch, struct err *err);
enum status dataset_merge(struct dataset *dataset, size_t *ret_added, struct err *err);
size_t dataset_count(const struct dataset *dataset);
int dataset_box(const struct dataset *dataset);           /* 0 before the first batch */
double dataset_pixel_size(const struct dataset *dataset); /* Å/px */
struct dataset_particle *dataset_at(struct dataset *dataset, size_t index);
/* The particle's image: in memory, or read into scratch[box²]. One that is not finite, or far stronger than the others,
 * is all zeros, and the particle becomes `unusable`. */
enum status dataset_image(struct dataset *dataset, size_t index, float *scratch, const float **ret_image,
                          struct err *err);
/* From some images, half of which at least are as they should be, how strong one may be: a hundred times as strong as
 * the median. Images that are in memory already are looked at again. */
enum status dataset_judge(struct dataset *dataset, const size_t *which, size_t count, struct err *err);
/* Text of the particle's row: its table and the row in it. */
const struct star_table *dataset_row(const struct dataset *dataset, size_t index, size_t *ret_row);
const char *dataset_stack(const struct dataset *dataset, size_t index); /* where its image is, absolute */
const struct star_table *dataset_optics(const struct dataset *dataset, size_t index, size_t *ret_row);

#endif
