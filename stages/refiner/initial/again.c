#include "stages/refiner/initial/again.h"

#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/initial/write.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/resample.h"

static const double SURE = 3; /* standard errors */

struct comparison {
    struct initial *attempt;
    const struct initial_decision *decision;
    const struct refiner *refiner;
    struct map_aligner *aligner;
    int box;
    size_t voxels;
    double radius;                     /* px, of the particle */
    float *fixed, *turned, *own, *fsc; /* box³: a map in use; the new one turned onto it; scratch */
    double *evidence, *other;          /* [held out]: with the new map; with one in use */
};

static enum status open(struct comparison *c, struct err *err) {
    const struct initial_decision *d = c->decision;
    const size_t held = (size_t)d->parts[INITIAL_HELD_OUT] + 1;
    const struct map_align_options options = {.box = c->box,
                                              .pixel_size = d->pixel_size,
                                              .diameter = 2 * c->radius * d->pixel_size,
                                              .coarsest = d->diameter / 2,
                                              .finest = d->wanted,
                                              .hands = true,
                                              .symmetry = &c->refiner->symmetry,
                                              .threads = c->refiner->context.threads};
    TRY(mem_new(c->voxels, sizeof *c->fixed, "a map", &c->fixed, err));
    TRY(mem_new(c->voxels, sizeof *c->turned, "a map", &c->turned, err));
    TRY(mem_new(c->voxels, sizeof *c->own, "a map", &c->own, err));
    TRY(mem_new((size_t)c->box / 2 + 1, sizeof *c->fsc, "a curve", &c->fsc, err));
    TRY(mem_new(held, sizeof *c->evidence, "likelihoods", &c->evidence, err));
    TRY(mem_new(held, sizeof *c->other, "likelihoods", &c->other, err));
    return map_align_create(&options, &c->aligner, err);
}

static void close(struct comparison *c) {
    map_align_destroy(&c->aligner);
    mem_free(&c->fixed);
    mem_free(&c->turned);
    mem_free(&c->own);
    mem_free(&c->fsc);
    mem_free(&c->evidence);
    mem_free(&c->other);
}

/* Puts a refined map, the mean of its halves, onto the small grid: c->fixed. */
static enum status take_refined(struct comparison *c, int k, struct err *err) {
    const struct refiner *r = c->refiner;
    const size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    _cleanup_(mem_free) float *mean = NULL;
    TRY(mem_new(voxels, sizeof *mean, "a map", &mean, err));
    for (int side = 0; side < r->side_count; side++)
        for (size_t i = 0; i < voxels; i++)
            mean[i] += r->sides[side].references[k].map[i] / (float)r->side_count;
    return resample_map(mean, r->box, r->pixel_size, c->box, c->decision->pixel_size, c->fixed, err);
}

/* Turns the new map onto c->fixed: c->turned. Finds the FSC of their non-spherical parts from the diameter to `wanted`. */
static enum status agree(struct comparison *c, double *ret_mean, double *ret_least, struct err *err) {
    const struct initial_decision *d = c->decision;
    struct map_alignment found;
    TRY(map_align_find(c->aligner, c->fixed, initial_map(c->attempt), &found, err));
    TRY(map_align_apply(c->aligner, &found, initial_map(c->attempt), c->turned, err));
    _cleanup_(mem_free) float *moved = NULL;
    TRY(mem_new(c->voxels, sizeof *moved, "a map", &moved, err));
    memcpy(moved, c->turned, c->voxels * sizeof *moved);
    memcpy(c->own, c->fixed, c->voxels * sizeof *c->own);
    mask_sphere(3, c->box, moved, c->radius, MASK_EDGE, 0);
    mask_sphere(3, c->box, c->own, c->radius, MASK_EDGE, 0);
    TRY(map_align_without_radial(c->box, moved, err));
    TRY(map_align_without_radial(c->box, c->own, err));
    TRY(fsc_maps(NULL, c->box, c->own, moved, c->fsc, err));
    initial_summarise(d, c->refiner->symmetry.count, c->fsc, ret_mean, ret_least);
    return STATUS_OK;
}

static int shell_of(int box, int z, int y, int x) {
    const double dz = z <= box / 2 ? z : z - box, dy = y <= box / 2 ? y : y - box;
    return (int)lround(sqrt(dz * dz + dy * dy + (double)x * x));
}

/* Adds the power of a half transform to its shells. */
static void add_powers(int box, const float *transform, double *powers) {
    for (int z = 0, i = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x <= box / 2; x++, i++) {
                const int shell = shell_of(box, z, y, x);
                const double re = (double)transform[2 * i], im = (double)transform[2 * i + 1];
                if (shell <= box / 2) powers[shell] += re * re + im * im;
            }
}

/* Scales the shells of a half transform by the roots of `powers` over `own`. Corners beyond the last shell become 0. */
static void scale_shells(int box, const double *own, const double *powers, float *transform) {
    const double voxels = (double)box * box * box;
    for (int z = 0, i = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x <= box / 2; x++, i++) {
                const int shell = shell_of(box, z, y, x);
                const double scale = shell <= box / 2 && own[shell] > 0 ? sqrt(powers[shell] / own[shell]) / voxels : 0;
                transform[2 * i] *= (float)scale;
                transform[2 * i + 1] *= (float)scale;
            }
}

static enum status transform(enum fft_direction direction, int box, float *in, float *out, struct err *err) {
    struct fft_plan *plan = NULL;
    const struct fft_options options = {
        .rank = 3, .shape = {box, box, box}, .direction = direction, .threads = FFT_ALL_THREADS};
    TRY(fft_create(&options, &plan, err));
    fft_run(plan, in, out);
    fft_destroy(&plan);
    return STATUS_OK;
}

/* Gives the shells of c->fixed, cut to the particle, the power of the new map's. */
static enum status take_power(struct comparison *c, struct err *err) {
    const size_t shells = (size_t)c->box / 2 + 1, half = (size_t)c->box * (size_t)c->box * shells;
    _cleanup_(mem_free) float *spectrum = NULL;
    _cleanup_(mem_free) double *own = NULL;
    _cleanup_(mem_free) double *powers = NULL;
    TRY(mem_new(half, 2 * sizeof *spectrum, "a transform", &spectrum, err));
    TRY(mem_new(shells, sizeof *own, "a spectrum", &own, err));
    TRY(mem_new(shells, sizeof *powers, "a spectrum", &powers, err));
    memcpy(c->own, initial_map(c->attempt), c->voxels * sizeof *c->own);
    TRY(transform(FFT_FORWARD, c->box, c->own, spectrum, err));
    add_powers(c->box, spectrum, powers);
    mask_sphere(3, c->box, c->fixed, c->radius, MASK_EDGE, 0);
    TRY(transform(FFT_FORWARD, c->box, c->fixed, spectrum, err));
    add_powers(c->box, spectrum, own);
    scale_shells(c->box, own, powers, spectrum);
    return transform(FFT_INVERSE, c->box, spectrum, c->fixed, err);
}

/* Finds by how many standard errors held-out particles are more probable with the new map than with c->fixed. */
static enum status find_gain(struct comparison *c, double *ret_gain, struct err *err) {
    const int count = c->decision->parts[INITIAL_HELD_OUT];
    double mean = 0, squares = 0;
    TRY(take_power(c, err));
    TRY(initial_evidence(c->attempt, c->fixed, INITIAL_HELD_OUT, c->other, err));
    for (int i = 0; i < count; i++)
        mean += (c->evidence[i] - c->other[i]) / count;
    for (int i = 0; i < count; i++)
        squares += pow(c->evidence[i] - c->other[i] - mean, 2);
    const double deviation = sqrt(squares / fmax(count - 1, 1) / count);
    *ret_gain = deviation > 0 ? mean / deviation : 0;
    return STATUS_OK;
}

static int count_refined(const struct refiner *r) {
    return r->started && r->box > 0 ? r->reference_count : 0;
}

/* Finds whether the new map is the same as c->fixed; else how much better it is than that. */
static enum status judge(struct comparison *c, struct again *found, double *ret_mean, double *ret_least,
                         struct err *err) {
    double gain;
    TRY(agree(c, ret_mean, ret_least, err));
    found->same = found->same || initial_is_same(*ret_mean, *ret_least);
    if (found->same) return STATUS_OK;
    if (isnan(found->gain)) /* the first one that is compared */
        TRY(initial_evidence(c->attempt, initial_map(c->attempt), INITIAL_HELD_OUT, c->evidence, err));
    TRY(find_gain(c, &gain, err));
    found->gain = isnan(found->gain) ? gain : fmin(found->gain, gain);
    return STATUS_OK;
}

static enum status compare(struct comparison *c, const char *path, float *turned, struct again *found,
                           struct err *err) {
    double mean, least;
    TRY(open(c, err));
    TRY(initial_read_map(path, c->box, c->decision->pixel_size, c->fixed, err));
    TRY(judge(c, found, &found->mean, &found->least, err));
    memcpy(turned, c->turned, c->voxels * sizeof *turned);
    for (int k = 0; k < count_refined(c->refiner) && !found->same; k++) {
        TRY(take_refined(c, k, err));
        TRY(judge(c, found, &mean, &least, err));
    }
    if (found->same) found->gain = NAN;
    found->better = !found->same && found->gain >= SURE;
    return STATUS_OK;
}

enum status again_compare(struct initial *attempt, const char *path, float **ret_turned, struct again *ret_found,
                          struct err *err) {
    const struct initial_decision *d = initial_decision(attempt);
    struct comparison c = {.attempt = attempt,
                           .decision = d,
                           .refiner = initial_refiner(attempt),
                           .box = d->box,
                           .voxels = (size_t)d->box * (size_t)d->box * (size_t)d->box,
                           .radius = fmin(d->diameter / 2 / d->pixel_size, d->box / 2 - MASK_EDGE)};
    struct again found = {.gain = NAN};
    float *turned = NULL;
    TRY(mem_new(c.voxels, sizeof *turned, "a map", &turned, err));
    const enum status status = compare(&c, path, turned, &found, err);
    close(&c);
    if (status != STATUS_OK) {
        mem_free(&turned);
        return status;
    }
    *ret_turned = turned;
    *ret_found = found;
    return STATUS_OK;
}
