#include "kernels/map_align/map_align.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align_private.h"

/* The grid compares up to diameter/GRID_WAVES: 15° are two periods of the finest wave on the sphere's surface, and less
 * inside. GRID_SAMPLES: about as many complex samples are compared there. */
enum { ORDER = 2, GRID_WAVES = 8, GRID_SAMPLES = 2400, LEAST_PLANES = 8, LEAST_SHELLS = 3, EDGE = 3 };
/* A shell whose power is less than this part of the strongest holds rounding errors, and what the edges of box and sphere
 * spread from other shells. */
#define LEAST_POWER 1e-5

static enum status check(const struct map_align_options *o, struct err *err) {
    FAIL_IF(o->box < 8 || o->box % 2 != 0 || o->box > FOURIER_SIZE_MOST_3D, err, STATUS_BAD_ARGUMENT,
            "maps of %d px cannot be aligned: the box must be even and between 8 and %d px", o->box,
            FOURIER_SIZE_MOST_3D);
    FAIL_IF(!(o->pixel_size > 0), err, STATUS_BAD_ARGUMENT, "a pixel of %g Å: it must be above 0", o->pixel_size);
    FAIL_IF(!(o->diameter > 0 && o->diameter <= o->box * o->pixel_size), err, STATUS_BAD_ARGUMENT,
            "a sphere of %g Å does not fit a box of %g Å", o->diameter, o->box * o->pixel_size);
    FAIL_IF(!(o->finest > 0 && o->coarsest > o->finest), err, STATUS_BAD_ARGUMENT,
            "maps cannot be compared from %g to %g Å: the first must be the coarser one", o->coarsest, o->finest);
    FAIL_IF(o->finest < 2 * o->pixel_size * (1 - 1e-6), err, STATUS_BAD_ARGUMENT,
            "maps of %g Å a pixel cannot be compared to %g Å: they end at %g Å", o->pixel_size, o->finest,
            2 * o->pixel_size);
    return STATUS_OK;
}

static int between(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

static enum status choose_shells(struct map_aligner *a, struct err *err) {
    const struct map_align_options *o = &a->options;
    const double side = o->box * o->pixel_size;
    a->first = (int)fmax(1, ceil(side / o->coarsest - 1e-6));
    a->last = between((int)(side / o->finest + 1e-6), 1, o->box / 2);
    FAIL_IF(a->last - a->first + 1 < LEAST_SHELLS, err, STATUS_BAD_ARGUMENT,
            "from %g to %g Å a box of %g Å has %d shells to compare: at least %d are needed", o->coarsest, o->finest,
            side, a->last - a->first + 1 > 0 ? a->last - a->first + 1 : 0, LEAST_SHELLS);
    a->grid_last = between((int)lround(GRID_WAVES * side / o->diameter), a->first + LEAST_SHELLS - 1, a->last);
    a->grid_step = fmax(1, (double)o->box / a->grid_last / 5);
    return STATUS_OK;
}

/* Spreads planes evenly: their normals lie on a spiral over half a sphere, so that no symmetry has them all alike. */
static void choose_planes(struct map_aligner *a) {
    const double golden = 180 * (3 - sqrt(5));
    a->planes = between(GRID_SAMPLES / map_align_count(a, a->grid_last), LEAST_PLANES, MAP_ALIGN_PLANES);
    for (int i = 0; i < a->planes; i++)
        euler_to_matrix(fmod(golden * i, 360), acos((i + 0.5) / a->planes) * 180 / M_PI, 0, a->frames[i]);
}

static enum status make_plans(struct map_aligner *a, struct err *err) {
    const int n = a->options.box;
    const struct fft_options forward = {.rank = 3, .shape = {n, n, n}, .threads = a->threads};
    struct fft_options inverse = forward;
    inverse.direction = FFT_INVERSE;
    TRY(fft_create(&forward, &a->forward, err));
    TRY(fft_create(&inverse, &a->inverse, err));
    TRY(projector_create(3, n, a->threads, &a->fixed, err));
    TRY(projector_create(3, n, a->threads, &a->moved, err));
    return projector_create(3, n, a->threads, &a->whole, err);
}

static enum status take_memory(struct map_aligner *a, struct err *err) {
    static const char WHAT[] = "the alignment of maps";
    const size_t voxels = fft_real_count(a->forward), pixels = (size_t)a->pixels.count, planes = (size_t)a->planes;
    const size_t orientations = (size_t)sampling_orientation_count(&a->sampling);
    const size_t terms = 2 * planes * (size_t)map_align_count(a, a->grid_last);
    const size_t search = map_align_search_scratch(a), refine = map_align_refine_scratch(a);
    a->scratch_floats = ((search > refine ? search : refine) + 15) / 16 * 16;
    TRY(mem_new(fft_complex_floats(a->forward), sizeof(float), WHAT, &a->spectrum, err));
    TRY(mem_new(voxels, sizeof(float), WHAT, &a->fixed_map, err));
    TRY(mem_new(voxels, sizeof(float), WHAT, &a->moved_map, err));
    TRY(mem_new(voxels, sizeof(float), WHAT, &a->work, err));
    TRY(mem_new((size_t)a->options.box / 2 + 1, sizeof(float), WHAT, &a->power, err));
    TRY(mem_new(pixels, sizeof(float), WHAT, &a->weight_fixed, err));
    TRY(mem_new(pixels, sizeof(float), WHAT, &a->weight_moved, err));
    TRY(mem_new(2 * planes * pixels, sizeof(float), WHAT, &a->samples, err));
    TRY(mem_new(MAP_ALIGN_HANDS * MAP_ALIGN_SHIFTS * terms, sizeof(float), WHAT, &a->columns, err));
    TRY(mem_new((size_t)a->threads * a->scratch_floats, sizeof(float), WHAT, &a->scratch, err));
    TRY(mem_new(MAP_ALIGN_HANDS * orientations, sizeof(float), WHAT, &a->best, err));
    const size_t splines = (size_t)map_align_splines(a->options.box);
    TRY(mem_new(splines, sizeof *a->profile.bands, WHAT, &a->profile.bands, err));
    TRY(mem_new(splines, sizeof *a->profile.values, WHAT, &a->profile.values, err));
    return mem_new(MAP_ALIGN_HANDS * orientations, sizeof(int), WHAT, &a->best_shift, err);
}

static enum status fill(struct map_aligner *a, struct err *err) {
    TRY(choose_shells(a, err));
    TRY(sampling_create(ORDER, a->options.symmetry, 1, 1, &a->sampling, err));
    a->options.symmetry = NULL;
    TRY(fourier_pixels_create(a->options.box, 2 * a->last, &a->pixels, err));
    choose_planes(a);
    TRY(make_plans(a, err));
    return take_memory(a, err);
}

enum status map_align_create(const struct map_align_options *options, struct map_aligner **ret_aligner,
                             struct err *err) {
    TRY(check(options, err));
    struct map_aligner *a = NULL;
    TRY(mem_new(1, sizeof *a, "the alignment of maps", &a, err));
    a->options = *options;
    a->threads = options->threads > 0 ? options->threads : 1;
    /* Threads share out the tiles of the product; threads of OpenBLAS below them would only wait for each other. */
    openblas_set_num_threads(1);
    enum status status = fill(a, err);
    if (status == STATUS_OK)
        *ret_aligner = a;
    else
        map_align_destroy(&a);
    return status;
}

void map_align_destroy(struct map_aligner **aligner) {
    struct map_aligner *a = aligner != NULL ? *aligner : NULL;
    if (a == NULL) return;
    sampling_destroy(&a->sampling);
    fourier_pixels_destroy(&a->pixels);
    projector_destroy(&a->fixed);
    projector_destroy(&a->moved);
    projector_destroy(&a->whole);
    fft_destroy(&a->forward);
    fft_destroy(&a->inverse);
    void *const buffers[] = {&a->spectrum,     &a->fixed_map,    &a->moved_map,     &a->work,          &a->power,
                             &a->weight_fixed, &a->weight_moved, &a->samples,       &a->columns,       &a->scratch,
                             &a->best,         &a->best_shift,   &a->profile.bands, &a->profile.values};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        mem_free(buffers[i]);
    mem_free(aligner);
}

static enum status check_map(const struct map_aligner *a, const float *map, const char *which, struct err *err) {
    const size_t voxels = fft_real_count(a->forward);
    size_t bad = 0;
    for (size_t i = 0; i < voxels; i++)
        bad += !isfinite(map[i]);
    FAIL_IF(bad > 0, err, STATUS_BAD_FORMAT, "the %s map cannot be aligned: %zu of its voxels are NaN or infinite",
            which, bad);
    return STATUS_OK;
}

static void subtract_radial(struct map_aligner *a, float *map) {
    const struct map_radial radial = {a->options.box, a->forward, a->inverse, a->spectrum, a->profile};
    map_align_subtract_radial(&radial, map);
}

/* Makes the map that is compared: about its centre of mass, inside the sphere. */
static void cut(struct map_aligner *a, const float *map, int ret_centre[3], float *out) {
    map_align_centre(a, map, ret_centre);
    map_align_roll(a->options.box, map, ret_centre, out);
    mask_sphere(3, a->options.box, out, a->options.diameter / a->options.pixel_size / 2, EDGE, 0);
}

/* Fills a map's weights: 1/√power of its shell, without the rotational average; and leaves that map in its projector. */
static enum status weigh(struct map_aligner *a, struct projector *projector, const float *map, float *weights,
                         struct err *err) {
    const size_t voxels = fft_real_count(a->forward);
    memcpy(a->work, map, voxels * sizeof *map);
    subtract_radial(a, a->work);
    TRY(projector_set_map(projector, a->work, 2 * a->last, err));
    TRY(projector_power(projector, a->power, err));
    float most = 0;
    for (int s = a->first; s <= a->last; s++)
        most = fmaxf(most, a->power[s]);
    for (int i = 0; i < a->pixels.count; i++) {
        const int s = a->pixels.shell[i];
        const bool compared = s >= a->first && a->power[s] > (float)LEAST_POWER * most;
        weights[i] = compared ? 1 / sqrtf(2 * a->power[s]) : 0;
    }
    return STATUS_OK;
}

/* Weights are 0 where one of the maps has nothing. Returns whether anything is left. */
static bool share_weights(struct map_aligner *a) {
    bool any = false;
    for (int i = 0; i < a->pixels.count; i++) {
        if (a->weight_fixed[i] == 0 || a->weight_moved[i] == 0) a->weight_fixed[i] = a->weight_moved[i] = 0;
        any |= a->weight_fixed[i] > 0;
    }
    return any;
}

/* Returns the mean FSC over the shells that are compared. */
static enum status score(struct map_aligner *a, const struct map_pose *pose, double *ret_score, struct err *err) {
    const int box = a->options.box;
    map_align_turn(a, a->moved, pose, a->last, a->work);
    subtract_radial(a, a->work);
    subtract_radial(a, a->fixed_map);
    TRY(fsc_maps(NULL, box, a->fixed_map, a->work, a->power, err));
    double sum = 0;
    int shells = 0;
    for (int s = a->first; s <= a->last; s++) {
        if (a->weight_fixed[a->pixels.shell_begin[s]] == 0) continue;
        sum += (double)a->power[s];
        shells++;
    }
    *ret_score = shells > 0 ? fmin(1, fmax(0, sum / shells)) : 0;
    return STATUS_OK;
}

/* Turns a pose about the centres of mass into one about the middle of the boxes. */
static void tell(const struct map_pose *pose, const int fixed[3], const int moved[3], struct map_alignment *ret) {
    memcpy(ret->rotation, pose->rotation, sizeof ret->rotation);
    ret->inverted = pose->inverted;
    for (int i = 0; i < 3; i++) {
        double turned = 0;
        for (int j = 0; j < 3; j++)
            turned += pose->rotation[3 * i + j] * moved[j];
        ret->shift[i] = fixed[i] + pose->shift[i] + (pose->inverted ? turned : -turned);
    }
}

enum status map_align_find(struct map_aligner *a, const float *fixed, const float *moved,
                           struct map_alignment *ret_alignment, struct err *err) {
    int fixed_centre[3], moved_centre[3];
    TRY(check_map(a, fixed, "fixed", err));
    TRY(check_map(a, moved, "moved", err));
    cut(a, fixed, fixed_centre, a->fixed_map);
    cut(a, moved, moved_centre, a->moved_map);
    TRY(weigh(a, a->fixed, a->fixed_map, a->weight_fixed, err));
    TRY(weigh(a, a->moved, a->moved_map, a->weight_moved, err));
    struct map_alignment found = {.rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
    if (share_weights(a)) {
        map_align_sample_fixed(a);
        map_align_search(a);
        /* Rotational averages about centres that differ by a part of a voxel would pull at the shift: from here on the
         * maps have them. */
        TRY(projector_set_map(a->fixed, a->fixed_map, 2 * a->last, err));
        TRY(projector_set_map(a->moved, a->moved_map, 2 * a->last, err));
        map_align_sample_fixed(a);
        map_align_refine(a);
        TRY(score(a, &a->candidates[0], &found.score, err));
        tell(&a->candidates[0], fixed_centre, moved_centre, &found);
    }
    *ret_alignment = found;
    return STATUS_OK;
}

enum status map_align_apply(struct map_aligner *a, const struct map_alignment *alignment, const float *moved,
                            float *ret_aligned, struct err *err) {
    const int box = a->options.box;
    struct map_pose pose = {.inverted = alignment->inverted};
    memcpy(pose.rotation, alignment->rotation, sizeof pose.rotation);
    memcpy(pose.shift, alignment->shift, sizeof pose.shift);
    TRY(check_map(a, moved, "moved", err));
    memcpy(a->work, moved, fft_real_count(a->forward) * sizeof *moved);
    mask_sphere(3, box, a->work, box / 2.0 - EDGE, EDGE, 0);
    TRY(projector_set_map(a->whole, a->work, box, err));
    map_align_turn(a, a->whole, &pose, box / 2, ret_aligned);
    return STATUS_OK;
}
