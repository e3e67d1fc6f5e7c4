/* The other start is the same reference, low-passed to 0.6 diameters of the particle. Right maps come back from it: the
 * two starts then agree as far as the halves do. A reference of another molecule, or one whose detail most poses
 * follow, leads elsewhere.
 *
 * Halves are crossed, so that what is compared shares no particle: X, the mean FSC of half 1 of one start with half 2
 * of the other, and the reverse. Let a half hold the particle, an error that both halves of its start share, and noise
 * of its own. If both starts are alike in this, the FSC of the whole map with the truth is √(2X/(1 + F)), with F of the
 * halves of one start. It is 0.5 at X = (1 + F)/8. Without errors X = F, and this is the usual 0.143.
 *
 * Errors of two starts may be alike, too: with X = 0.49 and F = 0.99 a map agreed with the truth by less than 0.5.
 * So what both starts hold must also outweigh what each has of its own, X ≥ F/2. Right maps have X = F, about. */
#include "stages/refiner/other_start.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/signal.h"

/* The other start is low-passed to BLURRED diameters. It shows nothing unless that is LEAST_COARSER times as coarse as
 * the first one, at least. */
static const double BLURRED = 0.6, LEAST_COARSER = 1.25;

/* A particle's pose, and all else that iterations change in a particle. */
struct found {
    double pose[9], origin[2], norm, log_likelihood, max_probability, reliability, residual;
    int class_index, significant, residual_shell;
    bool aligned;
};

/* The state that the second refinement changes, and that is put back after it. */
struct start_kept {
    struct schedule schedule;
    struct refiner_cut cut;
    struct side sides[2];        /* their numbers */
    struct found *particles;     /* [set.count] */
    float *maps[2], *spectra[2]; /* box³; [4][shells] */
    float *sigma2[2], *whole[2]; /* [optics][shells] */
    double *shares[2];           /* [optics] */
    double initial_lowpass, resolution, told, views_doubt, contrast;
    bool agree_beyond, inverted_wanted;
    int shared_shell, sure_shell;
    enum refiner_unresolved unresolved;
    struct signal signal;
    char remark[sizeof((struct refiner *)0)->remark];
};

bool other_start_doubts(double pmax, double shared, double agree) {
    static const double BROAD = 0.1, PROVEN = 4, DETAIL = 1 / 10.0; /* 1/Å: no wrong map was seen to agree so far */
    return pmax < BROAD && agree < fmin(PROVEN * shared, DETAIL);
}

int other_start_shell(const float *crossed, const float *fsc, int shells) {
    int shell = 1;
    while (shell + 1 < shells && crossed[shell + 1] >= fmaxf((1 + fsc[shell + 1]) / 8, fsc[shell + 1] / 2))
        shell++;
    return shell;
}

static double blurred(const struct refiner *r) {
    return BLURRED * r->options.diameter;
}

int other_start_least(const struct refiner *r) {
    enum { BEYOND = 3 };
    return schedule_shell(&r->schedule.options, blurred(r)) + BEYOND;
}

bool refiner_doubts_start(const struct refiner *r) {
    const double shared = fmin(r->options.join_resolution, r->options.initial_lowpass);
    if (classifies(r) || r->busy || !r->started || r->map_count != 1 || !(r->resolution > 0)) return false;
    if (r->set.poses_given || signal_is_noise(&r->signal)) return false;
    if (blurred(r) < LEAST_COARSER * r->options.initial_lowpass) return false;
    return !r->agree_beyond || other_start_doubts(r->schedule.average_pmax, 1 / shared, 1 / r->resolution);
}

static void free_kept(struct start_kept *k) {
    for (int h = 0; h < 2; h++) {
        mem_free(&k->maps[h]);
        mem_free(&k->spectra[h]);
        mem_free(&k->sigma2[h]);
        mem_free(&k->whole[h]);
        mem_free(&k->shares[h]);
    }
    mem_free(&k->particles);
}

/* Copies between two arrays: from what is kept, or into it. */
static void move(void *live, void *kept, size_t bytes, bool back) {
    if (live == NULL || kept == NULL) return;
    memcpy(back ? live : kept, back ? kept : live, bytes);
}

static size_t voxels(const struct refiner *r) {
    return (size_t)r->box * (size_t)r->box * (size_t)r->box;
}

static void move_side(const struct refiner *r, struct start_kept *k, int h, bool back) {
    const struct side *side = &r->sides[h];
    const struct reference *c = side->references;
    const size_t shells = (size_t)r->shells, noise = (size_t)r->sigma2_optics * shells;
    float *spectra[] = {c->tau2, c->ssnr, c->completeness, c->sigma2_reconstruction};
    for (size_t i = 0; i < 4; i++)
        move(spectra[i], k->spectra[h] + i * shells, shells * sizeof(float), back);
    move(c->map, k->maps[h], voxels(r) * sizeof *c->map, back);
    move(side->sigma2, k->sigma2[h], noise * sizeof *side->sigma2, back);
    move(side->whole_noise, k->whole[h], noise * sizeof *side->whole_noise, back);
    move(side->noise_shares, k->shares[h], (size_t)r->sigma2_optics * sizeof *side->noise_shares, back);
}

static struct found found_of(const struct particle *p) {
    struct found f = {.norm = p->norm,
                      .log_likelihood = p->log_likelihood,
                      .max_probability = p->max_probability,
                      .reliability = p->reliability,
                      .residual = p->residual,
                      .class_index = p->class_index,
                      .significant = p->significant,
                      .residual_shell = p->residual_shell,
                      .aligned = p->aligned};
    memcpy(f.pose, p->pose, sizeof f.pose);
    memcpy(f.origin, p->origin, sizeof f.origin);
    return f;
}

static void set_found(struct particle *p, const struct found *f) {
    p->aligned = f->aligned;
    p->class_index = f->class_index;
    p->significant = f->significant;
    p->norm = f->norm;
    p->reliability = f->reliability;
    p->log_likelihood = f->log_likelihood;
    p->max_probability = f->max_probability;
    p->residual = f->residual;
    p->residual_shell = f->residual_shell;
    memcpy(p->pose, f->pose, sizeof p->pose);
    memcpy(p->origin, f->origin, sizeof p->origin);
}

static enum status keep(struct refiner *r, struct start_kept *k, struct err *err) {
    const size_t shells = (size_t)r->shells, optics = (size_t)r->sigma2_optics;
    *k = (struct start_kept){.schedule = r->schedule,
                             .cut = r->cut,
                             .sides = {r->sides[0], r->sides[1]},
                             .initial_lowpass = r->options.initial_lowpass,
                             .resolution = r->resolution,
                             .told = r->told,
                             .views_doubt = r->views_doubt,
                             .contrast = r->contrast,
                             .agree_beyond = r->agree_beyond,
                             .inverted_wanted = r->inverted_wanted,
                             .shared_shell = r->shared_shell,
                             .sure_shell = r->sure_shell,
                             .unresolved = r->unresolved,
                             .signal = r->signal};
    memcpy(k->remark, r->remark, sizeof k->remark);
    TRY(mem_new(r->set.count, sizeof *k->particles, "poses", &k->particles, err));
    for (size_t i = 0; i < r->set.count; i++)
        k->particles[i] = found_of(&r->set.particles[i]);
    for (int h = 0; h < 2; h++) {
        TRY(mem_new_unset(voxels(r), sizeof(float), "a map", &k->maps[h], err));
        TRY(mem_new(4 * shells, sizeof(float), "spectra", &k->spectra[h], err));
        TRY(mem_new(optics * shells, sizeof(float), "noise spectra", &k->sigma2[h], err));
        TRY(mem_new(optics * shells, sizeof(float), "noise spectra", &k->whole[h], err));
        TRY(mem_new(optics, sizeof(double), "noise spectra", &k->shares[h], err));
        move_side(r, k, h, false);
    }
    return STATUS_OK;
}

static void restore(struct refiner *r, struct start_kept *k) {
    if (r->busy) loader_stop(r->loader);
    r->busy = false;
    r->schedule = k->schedule;
    r->cut = k->cut;
    r->options.initial_lowpass = k->initial_lowpass;
    r->resolution = k->resolution;
    r->told = k->told;
    r->views_doubt = k->views_doubt;
    r->contrast = k->contrast;
    r->agree_beyond = k->agree_beyond;
    r->inverted_wanted = k->inverted_wanted;
    r->shared_shell = k->shared_shell;
    r->sure_shell = k->sure_shell;
    r->unresolved = k->unresolved;
    r->signal = k->signal;
    memcpy(r->remark, k->remark, sizeof r->remark);
    for (size_t i = 0; i < r->set.count; i++)
        set_found(&r->set.particles[i], &k->particles[i]);
    for (int h = 0; h < 2; h++) {
        r->sides[h].average_norm = k->sides[h].average_norm;
        r->sides[h].sigma_offset = k->sides[h].sigma_offset;
        r->sides[h].accuracy_angle = k->sides[h].accuracy_angle;
        r->sides[h].accuracy_offset = k->sides[h].accuracy_offset;
        move_side(r, k, h, true);
    }
}

/* Forgets what iterations have found, as before the first one. */
static void begin_blurred(struct refiner *r) {
    static const struct found NEW = {.norm = 1, .reliability = 1, .residual = -1, .pose = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
    r->started = false;
    /* The other hand, if it is wanted, waits for the final iteration. */
    r->inverted_wanted = r->set.inverted;
    r->resolution = 0;
    r->options.initial_lowpass = r->schedule.options.initial_lowpass = blurred(r);
    r->shared_shell = schedule_shared_shell(&r->schedule.options, r->resolution);
    for (size_t i = 0; i < r->set.count; i++)
        set_found(&r->set.particles[i], &NEW);
    for (int h = 0; h < 2; h++) {
        r->sides[h].average_norm = 1;
        r->sides[h].sigma_offset = 10 / r->pixel_size;
        r->sides[h].changed = 0;
    }
}

/* Does an iteration, or what is left of the one that runs: an image that could not be read does not end it. */
static enum status iterate(struct refiner *r, const struct refiner_pause *pause, struct err *err) {
    bool complete = false;
    if (!r->busy) TRY(refiner_begin(r, &(struct refiner_iteration){.max_order = -1}, err));
    while (!complete) {
        FAIL_IF(pause->stops(pause->context), err, STATUS_CANCELLED, "stopped in the middle of an iteration");
        TRY(refiner_work(r, &complete, err));
    }
    return STATUS_OK;
}

/* From less it takes longer, also where a limit ended the first refinement early. */
static enum status refine(struct refiner *r, const struct refiner_pause *pause, struct err *err) {
    enum { LONGER = 5 };
    const int most = r->options.max_iterations + LONGER;
    for (int done = 0; done == 0 || (!r->schedule.converged && done < most); done++) {
        struct err own = {0};
        enum status status;
        do
            status = iterate(r, pause, &own);
        while (pause->waits(pause->context, status, &own));
        if (status != STATUS_OK && err != NULL) *err = own;
        TRY(status);
    }
    return STATUS_OK;
}

static enum status take_halves(struct refiner *r, struct err *err) {
    for (int h = 0; h < 2; h++) {
        TRY(mem_new_unset(voxels(r), sizeof(float), "a map", &r->other.halves[h], err));
        memcpy(r->other.halves[h], r->sides[h].references->unfiltered, voxels(r) * sizeof(float));
    }
    return STATUS_OK;
}

enum status refiner_refine_blurred(struct refiner *r, const struct refiner_pause *pause, struct err *err) {
    struct start_kept kept = {0};
    enum status status = keep(r, &kept, err);
    if (status == STATUS_OK) {
        other_start_release(r);
        begin_blurred(r);
        status = refine(r, pause, err);
        if (status == STATUS_OK) status = take_halves(r, err);
        if (status != STATUS_OK) other_start_release(r);
        restore(r, &kept);
    }
    free_kept(&kept);
    r->started = true;
    return status;
}

void other_start_release(struct refiner *r) {
    for (int h = 0; h < 2; h++)
        mem_free(&r->other.halves[h]);
    r->other.shell = 0;
}

/* Turns the halves of the other start onto those of this one. */
static enum status turn(struct refiner *r, float *const ret_halves[2], struct err *err) {
    const double least = 3 * r->pixel_size, diameter = 2 * r->mask_radius * r->pixel_size;
    const struct map_align_options options = {.box = r->box,
                                              .pixel_size = r->pixel_size,
                                              .diameter = diameter,
                                              .coarsest = diameter / 2,
                                              .finest = fmax(fmin(r->resolution, diameter / 6), least),
                                              .hands = true,
                                              .symmetry = &r->symmetry,
                                              .threads = r->context.threads};
    struct map_aligner *aligner = NULL;
    struct map_alignment found;
    _cleanup_(mem_free) float *fixed = NULL;
    _cleanup_(mem_free) float *moved = NULL;
    enum status status = map_align_create(&options, &aligner, err);
    if (status == STATUS_OK) status = mem_new_unset(voxels(r), sizeof *fixed, "a map", &fixed, err);
    if (status == STATUS_OK) status = mem_new_unset(voxels(r), sizeof *moved, "a map", &moved, err);
    for (size_t i = 0; status == STATUS_OK && i < voxels(r); i++) {
        fixed[i] = r->sides[0].references->unfiltered[i] + r->sides[1].references->unfiltered[i];
        moved[i] = r->other.halves[0][i] + r->other.halves[1][i];
    }
    if (status == STATUS_OK) status = map_align_find(aligner, fixed, moved, &found, err);
    mem_free(&fixed);
    mem_free(&moved);
    for (int h = 0; h < 2 && status == STATUS_OK; h++)
        status = map_align_apply(aligner, &found, r->other.halves[h], ret_halves[h], err);
    map_align_destroy(&aligner);
    return status;
}

/* Cuts maps to the sphere that map_align_apply leaves, so that all FSCs are of one volume. */
static void cut_to_sphere(const struct refiner *r, float *map) {
    mask_sphere(3, r->box, map, r->box / 2 - MASK_EDGE, MASK_EDGE, 0);
}

static enum status copy_half(const struct refiner *r, int h, float **ret_map, struct err *err) {
    TRY(mem_new_unset(voxels(r), sizeof **ret_map, "a map", ret_map, err));
    memcpy(*ret_map, r->sides[h].references->unfiltered, voxels(r) * sizeof **ret_map);
    cut_to_sphere(r, *ret_map);
    return STATUS_OK;
}

/* Finds the last shell that both starts hold, from the mean FSC of halves that share no particle. turned: the halves of the
 * other start. */
static enum status find_shell(struct refiner *r, float *const turned[2], int *ret_shell, struct err *err) {
    const size_t shells = (size_t)r->shells;
    _cleanup_(mem_free) float *first = NULL;
    _cleanup_(mem_free) float *second = NULL;
    _cleanup_(mem_free) float *curves = NULL;
    TRY(mem_new(3 * shells, sizeof *curves, "curves", &curves, err));
    TRY(copy_half(r, 0, &first, err));
    TRY(copy_half(r, 1, &second, err));
    cut_to_sphere(r, turned[0]);
    cut_to_sphere(r, turned[1]);
    float *fsc = curves, *crossed = curves + shells, *back = curves + 2 * shells;
    TRY(fsc_maps(NULL, r->box, first, second, fsc, err));
    TRY(fsc_maps(NULL, r->box, first, turned[1], crossed, err));
    TRY(fsc_maps(NULL, r->box, second, turned[0], back, err));
    for (size_t i = 0; i < shells; i++)
        crossed[i] = (crossed[i] + back[i]) / 2;
    *ret_shell = other_start_shell(crossed, fsc, r->shells);
    return STATUS_OK;
}

static enum status compare(struct refiner *r, int *ret_shell, struct err *err) {
    _cleanup_(mem_free) float *first = NULL;
    _cleanup_(mem_free) float *second = NULL;
    TRY(mem_new_unset(voxels(r), sizeof *first, "a map", &first, err));
    TRY(mem_new_unset(voxels(r), sizeof *second, "a map", &second, err));
    float *const turned[2] = {first, second};
    TRY(turn(r, turned, err));
    return find_shell(r, turned, ret_shell, err);
}

enum status other_start_compare(struct refiner *r, struct err *err) {
    struct err own = {0};
    int shell = OTHER_START_UNKNOWN;
    enum status status = compare(r, &shell, &own);
    other_start_release(r);
    r->other.shell = shell;
    /* The map is as good without it: there is no memory, or the box is too small to lay maps onto each other. */
    if (status == STATUS_OK || status == STATUS_NO_MEMORY || status == STATUS_BAD_ARGUMENT) return STATUS_OK;
    if (err != NULL) *err = own;
    return status;
}

bool other_start_differs(const struct refiner *r) {
    const int reached = (int)lround(r->box * r->pixel_size / r->resolution);
    return r->other.shell > 0 && r->other.shell + 1 < reached;
}
