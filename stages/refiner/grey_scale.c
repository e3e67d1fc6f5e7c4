/* Finds the grey scale that makes references and particles comparable, and whether it makes sense. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stages/refiner/estep.h"
#include "stages/refiner/setup.h"

enum { SCALE_PARTICLES = 96, COMPARED_LEAST = 20 };

/* Adds to the remark how much memory a classification may come to need. */
static void remark_memory(struct refiner *r) {
    const struct workspace *workspace = alignment_workspace(r->alignment);
    if (workspace == NULL || !classifies(r)) return;
    double need = setup_bytes_of_maps(r, r->box), capacity = (double)workspace_capacity(workspace);
    size_t used = strlen(r->remark);
    if (need > capacity)
        snprintf(r->remark + used, sizeof r->remark - used,
                 "; if classes come to be compared up to their full %d px, that needs %.2f GiB of the device's memory; "
                 "%.2f GiB may be used",
                 r->box, need * 0x1p-30, capacity * 0x1p-30);
}

/* Scales map k of those that were read, and all its copies. */
static void scale_maps(struct refiner *r, int k, double factor) {
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    for (int side = 0; side < r->side_count; side++)
        for (int c = 0; c < r->reference_count; c++) {
            float *map = r->sides[side].references[c].map;
            if (c != k && r->map_count > 1) continue;
#pragma omp parallel for schedule(static)
            for (size_t i = 0; i < voxels; i++)
                map[i] *= (float)factor;
        }
}

static enum status compare_with(struct refiner *r, int side, int k, struct err *err) {
    TRY(estep_place(r, err));
    TRY(estep_set_references(r, &r->sides[side], k, 1, err));
    return estep_compare_with(r, &r->sides[side], k, 1, err);
}

/* Returns how many of the batch's particles from `from` on one worker compares at a time, however many there are. On the
 * CPU the products of a larger batch round differently. */
static int part_from(const struct refiner *r, int from, int count) {
    const struct alignment_particle *particles = r->batch.particles;
    int part = 1;
    if (r->placement.workspace != NULL) return count - from;
    while (from + part < count && particles[from + part].chunk == particles[from].chunk)
        part++;
    return part;
}

/* Sums D and N (alignment.h) over the first members of a side, for a factor on map k. */
static enum status fit_some(struct refiner *r, int side, int k, double *dots, double *norms, struct err *err) {
    double mean;
    TRY(compare_with(r, side, k, err));
    for (int first = 0, count; first < r->sides[side].member_count && first < SCALE_PARTICLES; first += count) {
        TRY(estep_load(r, &r->sides[side], first, &count, err));
        /* Take exactly SCALE_PARTICLES, whatever the size of a batch. */
        if (count > SCALE_PARTICLES - first) count = SCALE_PARTICLES - first;
        for (int from = 0, part; from < count; from += part) {
            part = part_from(r, from, count);
            TRY(alignment_scale(r->alignment, r->batch.particles + from, part, &mean, dots, norms, err));
        }
    }
    return STATUS_OK;
}

/* Compares how well particles fit a reference and the same with inverted contrast, each at any grey scale: D²/N is what
 * the fit takes from the squared residual. The best of many poses fits noise too, but either contrast alike. */
static enum status compare_contrast(struct refiner *r, int k, double dots, double norms, struct err *err) {
    double inverted_dots = 0, inverted_norms = 0;
    if (r->sides[0].member_count < COMPARED_LEAST) return STATUS_OK;
    scale_maps(r, k, -1);
    TRY(fit_some(r, 0, k, &inverted_dots, &inverted_norms, err));
    scale_maps(r, k, -1);
    double gain = norms > 0 ? dots * dots / norms : 0;
    double inverted = inverted_norms > 0 ? inverted_dots * inverted_dots / inverted_norms : 0;
    double contrast = inverted > 0 ? gain / inverted : gain > 0 ? INFINITY : 1;
    if (k == 0 || contrast > r->contrast) r->contrast = contrast;
    return STATUS_OK;
}

/* Finds the factor that brings a reference, which may have any grey scale, to the scale of the particles: the one
 * that fits a sample of particles best, each at its best pose. Only the E-step of the first iteration depends on the
 * factor; the maps that it makes are on the scale of the particles. */
static enum status scale_reference(struct refiner *r, int k, struct err *err) {
    double dots = 0, norms = 0, first_dots = 0, first_norms = 0, mean, factor;
    int count;
    /* First scale the reference so that floats can tell D and N apart. */
    TRY(compare_with(r, 0, k, err));
    TRY(estep_load(r, &r->sides[0], 0, &count, err));
    TRY(alignment_scale(r->alignment, r->batch.particles, 1, &mean, NULL, NULL, err));
    FAIL_IF(!(mean > 0), err, STATUS_BAD_FORMAT, "the reference %s is empty inside the mask", r->map_paths[k]);
    factor = sqrt(500 / mean);
    scale_maps(r, k, factor);
    for (int side = 0; side < r->side_count; side++) {
        TRY(fit_some(r, side, k, &dots, &norms, err));
        if (side == 0) first_dots = dots, first_norms = norms;
    }
    TRY(compare_contrast(r, k, first_dots, first_norms, err));
    FAIL_IF(!(dots > 0), err, STATUS_BAD_FORMAT,
            "no particle resembles the reference %s: is its contrast inverted (protein must be white in both)?",
            r->map_paths[k]);
    scale_maps(r, k, dots / norms);
    snprintf(r->remark, sizeof r->remark,
             "reference %s, taken as %d px of %.4g Å (the particles have %d px of %.4g Å), scaled by %.3g to the grey "
             "values of %zu particles",
             r->map_paths[k], r->given_box, r->given_pixel_size, r->box, r->pixel_size, factor * dots / norms,
             r->set.present);
    return STATUS_OK;
}

enum status setup_scale(struct refiner *r, struct err *err) {
    for (int k = 0; k < r->map_count; k++)
        TRY(scale_reference(r, k, err));
    remark_memory(r);
    return STATUS_OK;
}
