#include "stages/refiner/doubts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/memory.h"
#include "stages/refiner/detectors.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/resample.h"
#include "stages/refiner/setup.h"

struct refiner_doubts refiner_doubts(const struct refiner *r) {
    const char *reason = r->check != NULL ? image_check_reason(r->check) : "";
    struct refiner_doubts doubts = {
        .contrast = r->contrast, .cut = r->cut, .background = *reason != 0 ? reason : r->background};
    for (size_t i = 0; i < r->set.count; i++) {
        const struct particle *p = &r->set.particles[i];
        if (p->source < 0) continue;
        bool twin = p->twin != 0, example = doubts.twin == NULL && (twin || p->repeated > 0);
        doubts.spoiled += !twin && p->spoiled;
        doubts.without_ctf += !twin && !p->has_ctf;
        enum ctf_doubt doubt = p->has_ctf ? ctf_doubt(&p->ctf) : CTF_USUAL;
        doubts.low_defocus += !twin && doubt == CTF_DEFOCUS_LOW;
        doubts.negative_defocus += !twin && doubt == CTF_DEFOCUS_NEGATIVE;
        doubts.twins += (size_t)twin + (size_t)p->repeated;
        if (grids_resample(&r->set, p)) {
            doubts.resampled++;
            doubts.resampled_box = r->set.stacks[p->stack].box;
            doubts.resampled_pixel_size = r->set.optics[p->optics].pixel_size;
        }
        if (grids_correct(&r->set, p)) {
            doubts.corrected++;
            doubts.aberrations = &r->set.optics[p->optics].aberrations;
        }
        if (example) doubts.twin = p->name;
        if (example) doubts.twin_of = twin ? r->set.particles[p->twin - 1].name : p->name;
    }
    doubts.missing_mtf = detectors_missing(&r->set);
    return doubts;
}

/* Fewer particles than the least tell nothing of others; those that come later are judged with the next. */
enum { SAMPLE = 512, LEAST_LATER = 32 };

/* Lists members of each side that were not there when it was decided. Returns how many. */
static int list_unjudged(const struct refiner *r, int indices[2 * SAMPLE]) {
    int count = 0;
    for (int side = 0; side < r->side_count; side++) {
        const int least = count;
        for (int i = 0; i < r->sides[side].member_count && count - least < SAMPLE; i++)
            if (!r->set.particles[r->sides[side].members[i]].judged) indices[count++] = r->sides[side].members[i];
    }
    return count;
}

static enum status new_check(const struct refiner *r, struct image_check **ret_check, struct err *err) {
    const struct image_check_options options = {.box = r->box,
                                                .pixel_size = r->pixel_size,
                                                .diameter = r->options.diameter,
                                                .mode = (enum image_check_mode)r->options.normalise,
                                                .normalised = r->normalised,
                                                .goes_on = r->started,
                                                .strongest = r->check != NULL ? image_check_strongest(r->check) : 0};
    return image_check_create(&options, ret_check, err);
}

/* Particles that come later may be of another kind. Once images are normalised, all are. Those that are normalised
 * already lose nothing by it. */
static bool is_decided(const struct refiner *r) {
    return r->check != NULL && (image_check_normalises(r->check) || r->options.normalise != IMAGE_CHECK_AUTO);
}

enum status doubts_judge_images(struct refiner *r, struct err *err) {
    _cleanup_(mem_free) int *indices = NULL;
    _cleanup_(image_check_destroy) struct image_check *check = NULL;
    if (is_decided(r)) return STATUS_OK;
    TRY(mem_new(2 * SAMPLE, sizeof *indices, "particles", &indices, err));
    const int count = list_unjudged(r, indices);
    if (r->check != NULL && count < LEAST_LATER) return STATUS_OK;
    TRY(new_check(r, &check, err));
    TRY(loader_judge(r->loader, check, indices, count, err));
    for (size_t i = 0; i < r->set.count; i++)
        r->set.particles[i].judged |= particle_counts(&r->set.particles[i]);
    if (r->check != NULL && r->set.check == r->check) {
        const char *reason = image_check_reason(check);
        if (*reason != 0) snprintf(r->background, sizeof r->background, "%s", reason);
        return STATUS_OK;
    }
    const bool changed = r->check != NULL;
    image_check_destroy(&r->check);
    r->check = check;
    check = NULL;
    r->normalised = r->options.normalise == IMAGE_CHECK_AUTO && image_check_normalises(r->check);
    /* A device may keep images as they were. */
    return changed ? setup_alignment(r, err) : STATUS_OK;
}

enum { CUT_RADII_MOST = FOURIER_SIZE_MOST_3D / 2 + 1 };

/* Sums over a plane of two maps by radius, up to box/2. */
struct plane_sums {
    double rim[2], count;            /* over the last two radii: of a, of b; voxels */
    double products[CUT_RADII_MOST]; /* Σ (a − its rim)(b − its rim) */
};

static int radius_of(int x, int y, int z) {
    return (int)lround(sqrt(x * x + y * y + z * z));
}

static void sum_rim(int box, int z, const float *a, const float *b, struct plane_sums *ret_sums) {
    const int half = box / 2;
    const size_t n = (size_t)box;
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++) {
            const size_t i = ((size_t)z * n + (size_t)y) * n + (size_t)x;
            const int radius = radius_of(x - half, y - half, z - half);
            if (radius <= half - 2 || radius > half) continue;
            ret_sums->rim[0] += (double)a[i], ret_sums->rim[1] += (double)b[i], ret_sums->count++;
        }
}

static void sum_products(int box, int z, const float *a, const float *b, const double rim[2],
                         struct plane_sums *ret_sums) {
    const int half = box / 2;
    const size_t n = (size_t)box;
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++) {
            const size_t i = ((size_t)z * n + (size_t)y) * n + (size_t)x;
            const int radius = radius_of(x - half, y - half, z - half);
            if (radius <= half) ret_sums->products[radius] += ((double)a[i] - rim[0]) * ((double)b[i] - rim[1]);
        }
}

/* Fills sums[box/2 + 1] with Σ (a − its rim)(b − its rim) over the voxels of each radius; the rim is the mean of the last
 * two radii. Planes are added in their order, so that the result does not depend on the number of threads. */
static enum status sum_radii(int box, const float *a, const float *b, double *sums, struct err *err) {
    _cleanup_(mem_free) struct plane_sums *planes = NULL;
    double rim[2] = {0}, count = 0;
    TRY(mem_new((size_t)box, sizeof *planes, "radii", &planes, err));
#pragma omp parallel for schedule(static)
    for (int z = 0; z < box; z++)
        sum_rim(box, z, a, b, &planes[z]);
    for (int z = 0; z < box; z++)
        rim[0] += planes[z].rim[0], rim[1] += planes[z].rim[1], count += planes[z].count;
    const double means[2] = {rim[0] / count, rim[1] / count};
#pragma omp parallel for schedule(static)
    for (int z = 0; z < box; z++)
        sum_products(box, z, a, b, means, &planes[z]);
    for (int z = 0; z < box; z++)
        for (int i = 0; i <= box / 2; i++)
            sums[i] += planes[z].products[i];
    return STATUS_OK;
}

/* Finds what lies outside the diameter, of maps to 30 Å. Squares leave out what is faint: neighbours, that the mean over
 * all particles has smeared, and noise. */
static enum status find_cut(const struct refiner *r, const float *a, const float *b, struct refiner_cut *ret_cut,
                            struct err *err) {
    static const double FILTER = 30; /* Å */
    const int half = r->box / 2;
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    double shell = r->box * r->pixel_size / FILTER, all = 0, outside = 0,
           radius = r->options.diameter / 2 / r->pixel_size;
    _cleanup_(mem_free) float *first = NULL;
    _cleanup_(mem_free) float *second = NULL;
    _cleanup_(mem_free) double *sums = NULL;
    *ret_cut = (struct refiner_cut){0};
    TRY(mem_new_unset(voxels, sizeof *first, "a map", &first, err));
    TRY(mem_new((size_t)half + 1, sizeof *sums, "radii", &sums, err));
    copy_map(a, voxels, first);
    TRY(lowpass_map(first, r->box, shell, 2, err));
    if (b != a) {
        TRY(mem_new_unset(voxels, sizeof *second, "a map", &second, err));
        copy_map(b, voxels, second);
        TRY(lowpass_map(second, r->box, shell, 2, err));
    }
    TRY(sum_radii(r->box, first, b != a ? second : first, sums, err));
    for (int i = 0; i <= half; i++)
        all += sums[i];
    if (!(all > 0)) return STATUS_OK;
    for (int i = half; i >= 0; i--) {
        if (i > radius) ret_cut->share += sums[i] / all;
        outside += sums[i] / all;
        if (ret_cut->diameter == 0 && outside > 0.01) ret_cut->diameter = 2 * (i + 1) * r->pixel_size;
    }
    return STATUS_OK;
}

enum status doubts_look_at_reference(struct refiner *r, const float *map, struct err *err) {
    struct refiner_cut cut;
    TRY(find_cut(r, map, map, &cut, err));
    if (cut.share > r->cut.share) r->cut = cut;
    return STATUS_OK;
}

enum status refiner_check_diameter(const struct refiner *r, struct refiner_cut *ret_cut, struct err *err) {
    *ret_cut = (struct refiner_cut){0};
    if (classifies(r) || r->busy || r->box == 0) return STATUS_OK;
    return find_cut(r, r->sides[0].references->unfiltered, r->sides[1].references->unfiltered, ret_cut, err);
}
