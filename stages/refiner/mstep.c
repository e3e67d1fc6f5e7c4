/* Does the M-step: joins low resolution, computes the FSC of the halves, the prior that follows from it, maps, and
 * the other parameters. Order and formulas: Scheres 2012; Scheres & Chen 2012 for the gold standard. */
#include "stages/refiner/mstep.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/fsc/independent.h"
#include "kernels/postprocess/postprocess.h"
#include "kernels/postprocess/solvent.h"
#include "stages/refiner/bands.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/resample.h"

enum { FEW_PARTICLES = 20 };
static const float LEAST_FSC = 0.143f;

static double clamp_fsc(double f) {
    return fmin(fmax(f, 0.001), 0.999);
}

/* Computes the priors. joined: for the sum of both halves, whose FSC with the truth is √(2F/(1+F)).
 * Noise fills the whole box, the particle only a part of it, and FSC is that of whole maps. A reference is masked: the
 * same signal stands there against map_share of the noise. */
static enum status priors_from_fsc(const struct refiner *r, struct reference *c, bool joined, float *ssnr, float *tau2,
                                   struct err *err) {
    TRY(accumulator_sigma2(c->accumulator, c->sigma2_reconstruction, err));
    for (int s = 0; s < r->shells; s++) {
        double f = clamp_fsc(r->fsc_joined[s]);
        if (joined) f = clamp_fsc(sqrt(2 * f / (1 + f)));
        double value = s <= r->schedule.current_size / 2 ? r->options.tau_fudge * f / (1 - f) : 0;
        ssnr[s] = (float)value;
        if (!joined) value /= r->map_share;
        tau2[s] = (float)(value * c->sigma2_reconstruction[s]);
    }
    return STATUS_OK;
}

static struct solvent_sphere sphere_of(const struct refiner *r) {
    return (struct solvent_sphere){.box = r->box, .radius = r->mask_radius, .edge = MASK_EDGE};
}

/* Makes the mask on the CPU. postprocess_make_mask makes masks for FSCs, with a wide edge; here the inner half of
 * the edge is enough. */
static enum status make_solvent(struct refiner *r, const float *combined, double shell, double *ret_inside,
                                struct err *err) {
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    _cleanup_(mem_free) float *map = NULL;
    TRY(mem_new_unset(voxels, sizeof *map, "a map", &map, err));
    copy_map(combined, voxels, map);
    mask_sphere(3, r->box, map, r->mask_radius, MASK_EDGE, 0);
    TRY(lowpass_map(map, r->box, shell, 2, err));
    TRY(postprocess_make_mask(r->box, r->pixel_size, map, r->solvent, err));
    double inside = 0;
    /* The values are multiples of 2^-23: their sum is the same in any order. */
#pragma omp parallel for schedule(static) reduction(+ : inside)
    for (size_t i = 0; i < voxels; i++) {
        r->solvent[i] = fmaxf(0, 2 * r->solvent[i] - 1);
        inside += r->solvent[i];
    }
    *ret_inside = inside;
    return STATUS_OK;
}

/* Finds where the particle is, from the map of both halves at low resolution. A sphere keeps remains of neighbours
 * and the noise around the particle in the reference, and poses settle on those: real, crowded particles then stay
 * far below the resolution that they hold. The map must show more than a blob, and the mask must be large enough for
 * a particle. */
static enum status find_solvent(struct refiner *r, struct workspace *device_or_null, const float *combined,
                                bool *ret_found, struct err *err) {
    static const double FINEST = 15, COARSEST = 30; /* Å */
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    *ret_found = false;
    if (!r->options.auto_mask || r->mask != NULL || r->resolution > COARSEST) return STATUS_OK;
    if (r->solvent == NULL)
        TRY(device_host_new(&r->context.device, voxels, sizeof *r->solvent, "a mask", &r->solvent, err));
    const struct solvent_sphere sphere = sphere_of(r);
    double shell = r->box * r->pixel_size / fmax(FINEST, r->resolution) + 1;
    double inside, all = 4 * M_PI / 3 * pow(r->mask_radius, 3);
    if (device_or_null != NULL)
        TRY(solvent_find_on(device_or_null, &sphere, r->pixel_size, shell, combined, r->solvent, &inside, err));
    else
        TRY(make_solvent(r, combined, shell, &inside, err));
    *ret_found = inside > 0.05 * all;
    return STATUS_OK;
}

void mstep_flatten(const struct refiner *r, const float *mask, float *map) {
    /* The user's mask is applied alone; a mask that was made lies inside the sphere. */
    if (r->mask == NULL) mask_sphere(3, r->box, map, r->mask_radius, MASK_EDGE, 0);
    if (mask == NULL) return;
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        map[i] *= mask[i];
}

/* Makes a map from sums up to last_shell; 0: from all. */
static enum status reconstruct(const struct refiner *r, const struct reference *c, const float *tau2, int last_shell,
                               float *map, float *completeness, struct err *err) {
    const struct reconstruct_options options = {.tau2 = tau2,
                                                .tau_fudge = 1,
                                                .minres_shell = LEAST_SHELL,
                                                .last_shell = last_shell,
                                                .threads = r->context.threads};
    return reconstruct_map(c->accumulator, &options, map, NULL, completeness, err);
}

/* Denoised and band-limited images have shells with almost no noise, into which a little of the other shells has
 * leaked at the rims of boxes and masks. Weighed by such low noise, the leaks would decide on the poses, alike in
 * both halves. Real noise falls by a factor of about ten. */
void mstep_floor_noise(float *sigma2, int shells) {
    const float least_share = 0.03f;
    float most = 0;
    for (int s = 1; s < shells; s++)
        most = fmaxf(most, sigma2[s]);
    for (int s = 1; s < shells; s++)
        sigma2[s] = fmaxf(sigma2[s], least_share * most);
}

static bool has_shell(const struct refiner *r, int optics, int shell) {
    return shell <= regrid_last_shell(r->shells, grids_limit(&r->set, optics));
}

static void update_noise(const struct refiner *r, struct side *side) {
    size_t shells = (size_t)r->shells;
    for (size_t s = 1; s < shells; s++) {
        double all = 0, all_weight = 0;
        for (int o = 0; o < r->sigma2_optics; o++) {
            if (!has_shell(r, o, (int)s)) continue;
            all += side->sigma2_sum[(size_t)o * shells + s];
            all_weight += side->optics_weight[o];
        }
        for (int o = 0; o < r->sigma2_optics; o++) {
            /* A group of few particles gets the noise of all particles, and one of a coarser grid gets, beyond its last
             * shell, that of all others: no noise would make anything there seem certain. */
            bool few = side->optics_weight[o] < FEW_PARTICLES || !has_shell(r, o, (int)s);
            double value = few ? all / all_weight : side->sigma2_sum[(size_t)o * shells + s] / side->optics_weight[o];
            if (value > 0) side->sigma2[(size_t)o * shells + s] = (float)value;
        }
    }
    for (int o = 0; o < r->sigma2_optics; o++)
        mstep_floor_noise(side->sigma2 + (size_t)o * shells, r->shells);
}

void mstep_parameters(const struct refiner *r, struct side *side) {
    update_noise(r, side);
    side->average_norm = side->norm_sum / side->member_count;
    double least = 2 / (r->pixel_size * r->pixel_size);
    side->sigma_offset = sqrt(fmax(side->offset2_sum / (2 * side->weight_sum), least));
}

/* Makes a map in two bands: the shells up to `low` of what the sums up to `reached` give, and beyond `reached` what
 * the other sums give. Cutting the map out of a padded one mixes shells; this separates them again. */
static enum status part_bands(struct refiner *r, const struct reference *c, const float *tau2, int low, int reached,
                              float *map, struct err *err) {
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    bool fits;
    float *bands[2];
    TRY(bands_reserve(r, bands, err));
    float *inner = bands[0], *rest = bands[1];
    TRY(reconstruct(r, c, tau2, reached, inner, NULL, err));
    TRY(workspace_fits_volumes(r->placement.workspace, r->box, &fits, err));
    if (fits) return solvent_join_on(r->placement.workspace, r->box, low, reached, inner, map, err);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        map[i] -= inner[i];
    TRY(part_map(map, r->box, reached, rest, map, err));
    TRY(part_map(inner, r->box, low, inner, rest, err));
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        map[i] += inner[i];
    return STATUS_OK;
}

/* Masks the map of a half. Removes what the mask carries from the shared shells into those beyond (bands.c). */
static enum status flatten_half(const struct refiner *r, struct workspace *device_or_null, const float *mask,
                                float *map, struct err *err) {
    const int shared = r->shared_shell;
    if (device_or_null != NULL) {
        struct solvent_sphere sphere = sphere_of(r);
        if (r->mask != NULL) sphere.radius = 0;
        return solvent_flatten_on(device_or_null, &sphere, mask, shared > 0 ? shared + 0.5 : 0, map, err);
    }
    if (shared == 0) {
        mstep_flatten(r, mask, map);
        return STATUS_OK;
    }
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    _cleanup_(mem_free) float *spread = NULL;
    _cleanup_(mem_free) float *low = NULL;
    TRY(mem_new_unset(voxels, sizeof *spread, "a map", &spread, err));
    TRY(mem_new_unset(voxels, sizeof *low, "a map", &low, err));
    copy_map(map, voxels, spread);
    TRY(lowpass_map(spread, r->box, shared + 0.5, 0, err));
    mstep_flatten(r, mask, spread);
    copy_map(spread, voxels, low);
    TRY(lowpass_map(low, r->box, shared + 0.5, 0, err));
    mstep_flatten(r, mask, map);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        map[i] -= spread[i] - low[i];
    return STATUS_OK;
}

/* Shell 1 holds 18 voxels, and of poor particles a few independent numbers: it disagrees by chance, and halves that
 * shared nothing then would drift apart. */
int mstep_reached_shell(const float *fsc, int last) {
    int shell = 1;
    while (shell < last && fsc[shell + 1] >= LEAST_FSC)
        shell++;
    return shell;
}

/* Returns the FSC that noise of so many independent numbers does not reach by chance: Fisher's transform of a
 * correlation, atanh(FSC), scatters by 1/√(N − 3). */
static double chance_fsc(double numbers) {
    static const double DEVIATIONS = 3;
    return numbers > 3 ? tanh(DEVIATIONS / sqrt(numbers - 3)) : 1;
}

/* Returns how many numbers a shell has by the mean variance of chance, 1/N, of this shell and two on either side: one
 * map of noise tells it poorly of one shell, by a factor of three either way. Shells without a count have 0. */
static double mean_numbers(const double *numbers, int shells, int shell) {
    enum { AROUND = 2 };
    int first = shell > AROUND ? shell - AROUND : 1, last = shell + AROUND < shells ? shell + AROUND : shells - 1;
    int counted = 0;
    double variance = 0;
    for (int s = first; s <= last; s++)
        if (numbers[s] > 0) variance += 1 / numbers[s], counted++;
    return counted > 0 ? counted / variance : 0;
}

/* Poses of noise are spread over all directions, and the halves' shells of such a map hold few independent numbers:
 * these agree or disagree by chance, in 32 px by up to 0.7. Noise counts as if it had no preferred direction, and so
 * has somewhat more numbers than there are: in 37 sets of pure noise the deviation was 1.4 times what they say.
 * Interpolation carries a little of the shared shells into those next to them (bands.c), so that one or two shells
 * alone are not believed. */
int mstep_believed_shell(const float *fsc, const double *numbers, const struct believed *b) {
    enum { LEAST = 3 };
    int shell = b->shared;
    while (shell < b->reached && (double)fsc[shell + 1] >= chance_fsc(mean_numbers(numbers, b->shells, shell + 1)))
        shell++;
    return shell < b->shared + LEAST ? b->shared : shell;
}

/* Returns the last shell, 1 to `reached`, before the FSC is so small that chance may have lifted it above 0.143. */
static int last_clear_shell(const float *fsc, int reached) {
    static const float CLEAR = 0.5f; /* beyond doubt with 10 independent numbers */
    int shell = 1;
    while (shell < reached && fsc[shell + 1] >= CLEAR)
        shell++;
    return shell;
}

/* An FSC of 0.143 is measured with an error of its own. A curve that stays near it over many shells, as those of few
 * particles do, would be told to any of them by chance. */
int mstep_sure_shell(const float *fsc, const double *numbers, const struct believed *b) {
    static const double DEVIATIONS = 1;
    int shell = last_clear_shell(fsc, b->reached);
    for (; shell < b->reached; shell++) {
        const double count = mean_numbers(numbers, b->shells, shell + 1);
        if (count == 0) continue;
        const double least = count > 3 ? tanh(atanh((double)LEAST_FSC) + DEVIATIONS / sqrt(count - 3)) : 1;
        if ((double)fsc[shell + 1] < least) break;
    }
    return shell;
}

/* Counts the independent numbers of the shells whose FSC decides, and of two on either side. */
static enum status count_numbers(const struct refiner *r, struct workspace *device_or_null, const struct half_maps *m,
                                 int first, int reached, double *numbers, struct err *err) {
    /* The last shell is cut by the box. */
    int last = (int)fmin(r->shells - 2, r->pixels.size / 2);
    if (last > reached + 2) last = reached + 2;
    const struct independent_shells around = {
        .box = r->box, .first = first > 1 ? first : 1, .last = last, .symmetry = &r->symmetry};
    return fsc_independent(device_or_null, &around, m->unfiltered[0], m->unfiltered[1], numbers, err);
}

/* Finds the resolution to which the halves agree: by what they share, and beyond it by more than chance. */
static enum status find_resolution(struct refiner *r, struct workspace *device_or_null, const struct half_maps *m,
                                   struct err *err) {
    const int shared = r->shared_shell;
    struct believed beyond = {
        .shells = r->shells, .shared = shared, .reached = mstep_reached_shell(r->fsc, r->shells - 1)};
    r->sure_shell = beyond.reached;
    if (beyond.reached > shared) {
        const int clear = last_clear_shell(r->fsc, beyond.reached),
                  first = shared > 0 && shared < clear ? shared : clear;
        _cleanup_(mem_free) double *numbers = NULL;
        TRY(mem_new((size_t)r->shells, sizeof *numbers, "numbers of shells", &numbers, err));
        TRY(count_numbers(r, device_or_null, m, first - 1, beyond.reached, numbers, err));
        if (shared > 0) beyond.reached = mstep_believed_shell(r->fsc, numbers, &beyond);
        r->sure_shell = mstep_sure_shell(r->fsc, numbers, &beyond);
    }
    r->resolution = r->box * r->pixel_size / beyond.reached;
    return STATUS_OK;
}

/* Finds where the maps are made: on the device, or in the host's memory at once. */
static struct half_maps place_of_maps(const struct refiner *r) {
    const struct reference *a = r->sides[0].references, *b = r->sides[1].references;
    if (r->placement.maps_on_device) return r->placement.maps;
    return (struct half_maps){
        .unfiltered = {a->unfiltered, b->unfiltered}, .map = {a->map, b->map}, .combined = r->combined};
}

static enum status fetch_maps(const struct refiner *r, const struct half_maps *m, struct err *err) {
    const size_t bytes = (size_t)r->box * (size_t)r->box * (size_t)r->box * sizeof(float);
    if (!r->placement.maps_on_device) return STATUS_OK;
    for (int h = 0; h < 2; h++) {
        const struct reference *c = r->sides[h].references;
        TRY(device_get(&r->context.device, c->unfiltered, m->unfiltered[h], bytes, err));
        TRY(device_get(&r->context.device, c->map, m->map[h], bytes, err));
    }
    return device_get(&r->context.device, r->combined, m->combined, bytes, err);
}

/* Makes the maps without a prior, and finds how far they agree. */
static enum status correlate_halves(struct refiner *r, struct workspace *device_or_null, const struct half_maps *m,
                                    struct err *err) {
    const int used = r->shared_shell;
    for (int h = 0; h < 2; h++) {
        struct reference *c = r->sides[h].references;
        TRY(accumulator_finish(c->accumulator, &r->symmetry, r->context.threads, err));
        TRY(reconstruct(r, c, NULL, 0, m->unfiltered[h], NULL, err));
        if (used > 0) TRY(part_bands(r, c, NULL, used, used, m->unfiltered[h], err));
    }
    timing_spent(&r->timing, REFINER_MAPS);
    TRY(fsc_maps(device_or_null, r->box, m->unfiltered[0], m->unfiltered[1], r->fsc, err));
    /* Beyond the current size the maps hold only what the division by the interpolation's fall-off leaves. */
    for (int s = r->pixels.size / 2 + 1; s < r->shells; s++)
        r->fsc[s] = 0;
    return find_resolution(r, device_or_null, m, err);
}

/* Makes the maps of the next E-step, and that of all particles; after this the accumulators are no longer needed.
 * reached: the last shell of the sums of the lower band. */
static enum status make_references(struct refiner *r, const struct half_maps *m, int reached, struct err *err) {
    struct reference *a = r->sides[0].references, *b = r->sides[1].references;
    for (int h = 0; h < 2; h++) {
        struct reference *c = r->sides[h].references;
        TRY(priors_from_fsc(r, c, false, c->ssnr, c->tau2, err));
        TRY(reconstruct(r, c, c->tau2, 0, m->map[h], c->completeness, err));
        if (r->shared_shell > 0 && !r->schedule.final)
            TRY(part_bands(r, c, c->tau2, r->shared_shell, reached, m->map[h], err));
        mstep_parameters(r, &r->sides[h]);
    }
    TRY(accumulator_merge(a->accumulator, b->accumulator, err));
    float ssnr[4097], tau2[4097];
    TRY(priors_from_fsc(r, a, true, ssnr, tau2, err));
    return reconstruct(r, a, tau2, 0, m->combined, NULL, err);
}

static enum status mask_maps(struct refiner *r, struct workspace *device_or_null, const struct half_maps *m,
                             struct err *err) {
    bool found = false;
    if (r->shared_shell == 0) TRY(find_solvent(r, device_or_null, m->combined, &found, err));
    const float *mask = found ? r->solvent : r->mask;
    for (int h = 0; h < 2; h++)
        TRY(flatten_half(r, device_or_null, mask, m->map[h], err));
    if (r->mask != NULL) return STATUS_OK;
    const struct solvent_sphere sphere = sphere_of(r);
    if (device_or_null != NULL) return solvent_flatten_on(device_or_null, &sphere, NULL, 0, m->combined, err);
    mstep_flatten(r, NULL, m->combined);
    return STATUS_OK;
}

enum status mstep(struct refiner *r, struct err *err) {
    struct reference *a = r->sides[0].references, *b = r->sides[1].references;
    const int used = r->shared_shell;
    const struct half_maps maps = place_of_maps(r);
    bool fits;
    /* Maps lie on the device only if it has room for all work on them. */
    TRY(workspace_fits_volumes(r->placement.workspace, r->box, &fits, err));
    struct workspace *device_or_null = fits ? r->placement.workspace : NULL;
    TRY(correlate_halves(r, device_or_null, &maps, err));
    double join = fmax(r->options.join_resolution, r->resolution);
    int shared = schedule_shell(&r->schedule.options, join);
    r->shared_shell = schedule_shared_shell(&r->schedule.options, r->resolution);
    if (!r->schedule.final) TRY(accumulator_join_shells(a->accumulator, b->accumulator, shared, err));
    TRY(accumulator_fsc(a->accumulator, b->accumulator, r->fsc_joined, err));
    timing_spent(&r->timing, REFINER_FSC);
    TRY(make_references(r, &maps, used > r->shared_shell ? used : r->shared_shell, err));
    timing_spent(&r->timing, REFINER_MAPS);
    if (!r->schedule.final) TRY(mask_maps(r, device_or_null, &maps, err));
    timing_spent(&r->timing, REFINER_MASK);
    TRY(fetch_maps(r, &maps, err));
    timing_spent(&r->timing, REFINER_MAPS);
    return STATUS_OK;
}
