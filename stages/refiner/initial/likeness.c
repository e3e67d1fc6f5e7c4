#include "stages/refiner/initial/likeness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/initial/initial.h"
#include "stages/refiner/refiner_private.h"

struct likeness {
    struct likeness_options options;
    struct map_aligner *aligner;
    size_t voxels;
    double radius;                 /* px, of the particle */
    float *turned, *fixed, *curve; /* box³; [box/2 + 1] */
};

static enum status open(struct likeness *l, struct err *err) {
    const struct likeness_options *o = &l->options;
    const struct map_align_options align = {.box = o->box,
                                            .pixel_size = o->pixel_size,
                                            .diameter = 2 * l->radius * o->pixel_size,
                                            .coarsest = o->diameter / 2,
                                            .finest = o->wanted,
                                            .hands = true,
                                            .symmetry = o->symmetry,
                                            .threads = o->threads};
    TRY(mem_new(l->voxels, sizeof *l->turned, "a map", &l->turned, err));
    TRY(mem_new(l->voxels, sizeof *l->fixed, "a map", &l->fixed, err));
    TRY(mem_new((size_t)o->box / 2 + 1, sizeof *l->curve, "a curve", &l->curve, err));
    return map_align_create(&align, &l->aligner, err);
}

enum status likeness_create(const struct likeness_options *options, struct likeness **ret_likeness, struct err *err) {
    struct likeness *l = calloc(1, sizeof *l);
    FAIL_IF(l == NULL, err, STATUS_NO_MEMORY, "no memory to compare maps");
    l->options = *options;
    l->voxels = (size_t)options->box * (size_t)options->box * (size_t)options->box;
    l->radius = fmin(options->diameter / 2 / options->pixel_size, options->box / 2 - MASK_EDGE);
    enum status status = open(l, err);
    if (status != STATUS_OK)
        likeness_destroy(&l);
    else
        *ret_likeness = l;
    return status;
}

void likeness_destroy(struct likeness **likeness) {
    struct likeness *l = *likeness;
    if (l == NULL) return;
    map_align_destroy(&l->aligner);
    mem_free(&l->turned);
    mem_free(&l->fixed);
    mem_free(&l->curve);
    free(l);
    *likeness = NULL;
}

static double correlation(size_t voxels, const float *a, const float *b) {
    double products = 0, squares[2] = {0};
    for (size_t i = 0; i < voxels; i++) {
        products += (double)a[i] * (double)b[i];
        squares[0] += (double)a[i] * (double)a[i];
        squares[1] += (double)b[i] * (double)b[i];
    }
    return squares[0] > 0 && squares[1] > 0 ? products / sqrt(squares[0] * squares[1]) : 0;
}

enum status likeness_find(struct likeness *l, const float *fixed, const float *moved, struct likeness_found *ret_found,
                          struct err *err) {
    const struct likeness_options *o = &l->options;
    const struct initial_decision shells = {
        .box = o->box, .pixel_size = o->pixel_size, .diameter = o->diameter, .wanted = o->wanted};
    struct map_alignment alignment;
    TRY(map_align_find(l->aligner, fixed, moved, &alignment, err));
    TRY(map_align_apply(l->aligner, &alignment, moved, l->turned, err));
    memcpy(l->fixed, fixed, l->voxels * sizeof *fixed);
    mask_sphere(3, o->box, l->turned, l->radius, MASK_EDGE, 0);
    mask_sphere(3, o->box, l->fixed, l->radius, MASK_EDGE, 0);
    TRY(map_align_without_radial(o->box, l->turned, err));
    TRY(map_align_without_radial(o->box, l->fixed, err));
    TRY(fsc_maps(NULL, o->box, l->fixed, l->turned, l->curve, err));
    *ret_found = (struct likeness_found){.agreement = fsc_resolution(l->curve, o->box, o->pixel_size, 0.5),
                                         .correlation = correlation(l->voxels, l->turned, l->fixed),
                                         .inverted = alignment.inverted};
    initial_summarise(&shells, o->symmetry->count, l->curve, &ret_found->mean, &ret_found->least);
    return STATUS_OK;
}

bool likeness_is_same(const struct likeness_found *found) {
    return initial_is_same(found->mean, found->least);
}
