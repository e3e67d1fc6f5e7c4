/* Class averages: of many 2-D references the running sums of two halves of particles, and the M-step that makes maps
 * and references of them (kernels/reconstruct, kernels/projector), all at once. In the host's memory, a class a thread;
 * or in a workspace of a CUDA device, where each step is a few kernels for all classes and nothing moves but maps and
 * spectra. Devices agree with the CPU but for rounding; each repeats bit for bit, and a class does not depend on the
 * others.
 *
 * Pointers are the host's. For one thread at a time. */
#ifndef ICESTREAM_KERNELS_AVERAGES_AVERAGES_H
#define ICESTREAM_KERNELS_AVERAGES_AVERAGES_H

#include "common/status.h"
#include "kernels/fourier/workspace.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"

enum { AVERAGES_MASK_EDGE = 5 }; /* px: the raised cosine at the mask's rim */

struct averages_options {
    int box, max_size;  /* px: maps, and frequencies up to max_size/2 */
    int capacity;       /* classes that there is room for */
    double mask_radius; /* px */
    double tau_fudge;   /* T */
    int minres_shell;   /* no prior below */
    int threads;        /* CPU */
    /* That all of it lies in until it is reset, no scope of whose arena is open; NULL: the host's memory. */
    struct workspace *workspace;
};

struct averages; /* destroyed before the workspace is */
/* In the host's memory a class takes some from its first map or split on. */
enum status averages_create(const struct averages_options *options, struct averages **ret_averages, struct err *err);
void averages_destroy(struct averages **averages);
/* Bytes of a workspace that they take. STATUS_NO_MEMORY from averages_create where these, and what averages_make needs
 * for a moment, would be more than half of what is left there: the rest is an E-step's. */
size_t averages_bytes(const struct averages_options *options);

/* Of class `index`, valid until averages_destroy: a half's sums, in the host's memory, to add to directly. */
struct accumulator *averages_sums(struct averages *averages, int index, int half);
struct projector *averages_reference(struct averages *averages, int index);

/* What an E-step adds to a half of the first `count` classes, up to size/2: averages_begin, then the E-step with
 * averages_added as its sums, then averages_end, unless all of that is to be forgotten. On a device the sums themselves
 * are what is added to, all at once, when the E-step is finished (alignment_iteration.add_to). */
enum status averages_begin(struct averages *averages, int count, int size, struct err *err);
struct accumulator *averages_added(struct averages *averages, int index, int half);
enum status averages_end(struct averages *averages, int count, int half, struct err *err);

/* Both halves of the first `count` classes times factor; 0: they begin anew. */
enum status averages_fade(struct averages *averages, int count, double factor, struct err *err);
/* Class `to` becomes half of what `from` has in its second half, in both halves; `from` half of what it has in its
 * first.
 */
enum status averages_split(struct averages *averages, int from, int to, struct err *err);

/* What one class is made with and into. */
struct average {
    int index;
    float *map;                                /* [box²] */
    float *tau2;                               /* [box/2 + 1]: the prior; becomes the power of the new reference */
    float *data_vs_prior, *completeness, *fsc; /* [box/2 + 1] */
};
/* Each class of the list once: FSC of its halves, Wiener filter, mask, the centre of mass of what is positive brought
 * to the middle in whole pixels; that map becomes its reference. */
enum status averages_make(struct averages *averages, const struct average *list, int count, struct err *err);
/* The maps of the list as they are become references; of each only index, map and tau2 are looked at. */
enum status averages_set(struct averages *averages, const struct average *list, int count, struct err *err);

#endif
