/* Class averages: running sums of many 2D references, in two halves of particles, and the M-step that makes maps and
 * references from all of them at once (kernels/reconstruct, kernels/projector).
 *
 * Sums lie in host memory, where each thread works on one class, or in a workspace of a CUDA device. There each step is
 * a few kernels for all classes, and only maps and spectra are copied. Devices agree with the CPU except for rounding.
 * Each device repeats bit for bit, and a class does not depend on the others.
 *
 * Pointers are host pointers. Use from one thread at a time. */
#ifndef ICESTREAM_KERNELS_AVERAGES_AVERAGES_H
#define ICESTREAM_KERNELS_AVERAGES_AVERAGES_H

#include "common/status.h"
#include "kernels/fourier/workspace.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"

enum { AVERAGES_MASK_EDGE = 5 }; /* px: raised cosine at the rim of the mask */

struct averages_options {
    int box, max_size;  /* px: of maps; frequencies go up to max_size/2 */
    int capacity;       /* most classes */
    double mask_radius; /* px */
    double tau_fudge;   /* T */
    int minres_shell;   /* no prior below this shell */
    int threads;        /* on the CPU */
    /* Workspace that holds all sums until it is reset. None of its arena's scopes may be open. NULL: host memory. */
    struct workspace *workspace;
};

struct averages; /* destroy it before the workspace */
/* Creates sums for options->capacity classes. In host memory a class takes its memory at its first map or split. */
enum status averages_create(const struct averages_options *options, struct averages **ret_averages, struct err *err);
void averages_destroy(struct averages **averages);
/* Returns the bytes that the sums take in a workspace. averages_create fails with STATUS_NO_MEMORY if these, with the
 * temporary memory of averages_make, exceed half of what is left there: the E-step needs the rest. */
size_t averages_bytes(const struct averages_options *options);

/* Return the sums of half `half` of class `index`, in host memory, to add to directly, and the reference of the class.
 * Valid until averages_destroy. */
struct accumulator *averages_sums(struct averages *averages, int index, int half);
struct projector *averages_reference(struct averages *averages, int index);

/* Adds an E-step to one half of the first `count` classes, up to size/2: call averages_begin, run the E-step with
 * averages_added as its sums, then call averages_end; leave averages_end out to discard the E-step. On a device the
 * E-step adds to the sums themselves, all at once, when it finishes (alignment_iteration.add_to). */
enum status averages_begin(struct averages *averages, int count, int size, struct err *err);
struct accumulator *averages_added(struct averages *averages, int index, int half);
enum status averages_end(struct averages *averages, int count, int half, struct err *err);

/* Multiplies both halves of the first `count` classes by factor; 0 clears them. */
enum status averages_fade(struct averages *averages, int count, double factor, struct err *err);
/* Splits a class: both halves of `to` become half of what the second half of `from` holds; both halves of `from` become
 * half of its first. */
enum status averages_split(struct averages *averages, int from, int to, struct err *err);

/* Input and output of one class. */
struct average {
    int index;
    float *map;                                /* [box²] */
    float *tau2;                               /* [box/2 + 1]: in: the prior; out: the power of the new reference */
    float *data_vs_prior, *completeness, *fsc; /* [box/2 + 1] */
};
/* Makes the average of each class in the list: FSC of the halves, Wiener filter, mask, then a shift by whole pixels
 * that brings the centre of mass of all positive pixels to the middle. The shifted map becomes the reference of the
 * class. A class may occur once in the list. */
enum status averages_make(struct averages *averages, const struct average *list, int count, struct err *err);
/* Makes the given maps the references of their classes. Uses only index, map and tau2 of each entry. */
enum status averages_set(struct averages *averages, const struct average *list, int count, struct err *err);

#endif
