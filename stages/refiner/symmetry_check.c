#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/prepare/prepare.h"
#include "stages/refiner/symmetry_private.h"

enum { PARTICLES_MOST = 500, PASSES = 8, AT_A_TIME = 64, SHELLS_LEAST = 6, SHELLS_MOST = 20, MARGIN = 8 };

static const double FSC_MOST = 0.99; /* beyond, noise is no longer all that differs */

static void release(struct symmetry_work *w) {
    for (int h = 0; h < 2; h++) {
        mem_free(&w->halves[h].data);
        mem_free(&w->halves[h].weight);
        mem_free(&w->halves[h].mates);
        mem_free(&w->halves[h].choice);
        mem_free(&w->halves[h].poses);
    }
    for (int b = 0; b < SYMMETRY_BLOCKS; b++)
        accumulator_destroy(&w->blocks[b]);
    accumulator_destroy(&w->sum);
    projector_destroy(&w->projector);
    fourier_pixels_destroy(&w->all);
    fourier_pixels_destroy(&w->own);
    mem_free(&w->map);
    mem_free(&w->other);
    mem_free(&w->slices);
}

static enum status allocate(struct symmetry_work *w, struct err *err) {
    size_t voxels = (size_t)w->box * (size_t)w->box * (size_t)w->box;
    TRY(fourier_pixels_create(w->r->box, w->size, &w->all, err));
    TRY(fourier_pixels_create(w->box, w->size, &w->own, err));
    size_t n = (size_t)w->own.count, operators = (size_t)w->operators;
    for (int h = 0; h < 2; h++) {
        struct symmetry_half *half = &w->halves[h];
        int members = w->r->sides[h].member_count;
        half->count = members < PARTICLES_MOST ? members : PARTICLES_MOST;
        size_t count = (size_t)half->count;
        TRY(mem_new(count * 2 * n, sizeof(float), "particles", &half->data, err));
        TRY(mem_new(count * n, sizeof(float), "particles", &half->weight, err));
        TRY(mem_new(count * operators * 9, sizeof(float), "poses", &half->mates, err));
        TRY(mem_new(count, sizeof(int), "poses", &half->choice, err));
        TRY(mem_new(count * 9, sizeof(float), "poses", &half->poses, err));
    }
    for (int b = 0; b < SYMMETRY_BLOCKS; b++)
        TRY(accumulator_create(3, w->box, w->size, &w->blocks[b], err));
    TRY(accumulator_create(3, w->box, w->size, &w->sum, err));
    TRY(projector_create(3, w->box, w->r->context.threads, &w->projector, err));
    TRY(mem_new(voxels, sizeof(float), "a map", &w->map, err));
    TRY(mem_new(voxels, sizeof(float), "a map", &w->other, err));
    const size_t most = operators > SYMMETRY_NEAR ? operators : SYMMETRY_NEAR;
    return mem_new(most * 2 * n, sizeof(float), "slices", &w->slices, err);
}

static void multiply(const double a[9], const double b[9], float ret[9]) {
    for (int i = 0; i < 9; i++)
        ret[i] = (float)(a[i / 3 * 3] * b[i % 3] + a[i / 3 * 3 + 1] * b[3 + i % 3] + a[i / 3 * 3 + 2] * b[6 + i % 3]);
}

/* Prepares particle i of a half as the E-step does. */
static enum status prepare_one(struct symmetry_work *w, int h, int i, const float *image, struct prepare *prepare,
                               float *spectrum, float *ctf) {
    const struct refiner *r = w->r;
    const struct side *side = &r->sides[h];
    const struct particle *p = &r->set.particles[side->members[i]];
    struct symmetry_half *half = &w->halves[h];
    size_t n = (size_t)w->all.count, at = (size_t)i * n;
    const struct prepare_options options = {.shift_x = (int)lround(p->origin[0]),
                                            .shift_y = (int)lround(p->origin[1]),
                                            .scale = side->average_norm / p->norm,
                                            .mask_radius = r->mask_radius};
    prepare_image(prepare, image, &options, &w->all, spectrum, NULL, NULL);
    fourier_pixels_shift(&w->all, w->all.count, spectrum, p->origin[0] - options.shift_x,
                         p->origin[1] - options.shift_y, half->data + 2 * at);
    const struct ctf *of_particle = particle_ctf(p);
    if (of_particle != NULL) ctf_at(of_particle, r->box, r->pixel_size, w->all.count, w->all.kx, w->all.ky, ctf);
    const float *sigma2 = side->sigma2 + (size_t)p->optics * (size_t)r->shells;
    for (size_t j = 0; j < n; j++) {
        float c = of_particle != NULL ? ctf[j] : 1, over = 1 / sigma2[w->all.shell[j]];
        half->data[2 * (at + j)] *= c * over;
        half->data[2 * (at + j) + 1] *= c * over;
        half->weight[at + j] = c * c * over;
    }
    for (int g = 0; g < w->operators; g++)
        multiply(p->pose, r->symmetry.matrices[g], half->mates + 9 * ((size_t)i * (size_t)w->operators + (size_t)g));
    return STATUS_OK;
}

static enum status prepare_half(struct symmetry_work *w, int h, struct prepare *prepare, float *spectrum, float *ctf,
                                struct err *err) {
    const struct symmetry_half *half = &w->halves[h];
    const int *members = w->r->sides[h].members;
    for (int first = 0, count; first < half->count; first += count) {
        const float *const *images;
        count = half->count - first < AT_A_TIME ? half->count - first : AT_A_TIME;
        TRY(loader_take(w->r->loader, NULL, members + first, count, &images, err));
        for (int i = 0; i < count; i++)
            TRY(prepare_one(w, h, first + i, images[i], prepare, spectrum, ctf));
    }
    return STATUS_OK;
}

static enum status prepare_halves(struct symmetry_work *w, struct err *err) {
    _cleanup_(prepare_destroy) struct prepare *prepare = NULL;
    _cleanup_(mem_free) float *spectrum = NULL;
    _cleanup_(mem_free) float *ctf = NULL;
    size_t n = (size_t)w->all.count;
    TRY(prepare_create(w->r->box, &prepare, err));
    TRY(mem_new(2 * n, sizeof *spectrum, "a spectrum", &spectrum, err));
    TRY(mem_new(n, sizeof *ctf, "a CTF", &ctf, err));
    for (int h = 0; h < 2; h++)
        TRY(prepare_half(w, h, prepare, spectrum, ctf, err));
    return STATUS_OK;
}

/* Adds the particles of a block, in the poses they have chosen, turned by mate `turn` of the group. */
static enum status add_block(struct symmetry_work *w, const struct symmetry_half *half, int block, int turn,
                             struct accumulator *to, struct err *err) {
    size_t n = (size_t)w->own.count;
    for (int i = block; i < half->count; i += SYMMETRY_BLOCKS) {
        double pose[9];
        float turned[9];
        for (int j = 0; j < 9; j++)
            pose[j] = half->poses[9 * (size_t)i + (size_t)j];
        multiply(pose, w->r->symmetry.matrices[turn], turned);
        TRY(accumulator_add(to, &w->own, w->own.count, 1, turned, half->data + 2 * n * (size_t)i,
                            half->weight + n * (size_t)i, 1, err));
    }
    return STATUS_OK;
}

/* Makes the map of w->sum inside the sphere. tau2: NULL: no prior. */
static enum status make_map(struct symmetry_work *w, const float *tau2, float *map, struct err *err) {
    const struct reconstruct_options options = {
        .tau2 = tau2, .tau_fudge = 1, .minres_shell = 1, .threads = w->r->context.threads};
    TRY(accumulator_finish(w->sum, NULL, w->r->context.threads, err));
    TRY(reconstruct_map(w->sum, &options, map, NULL, NULL, err));
    mask_sphere(3, w->box, map, w->radius, 2, 0);
    return STATUS_OK;
}

int symmetry_choose(const struct symmetry_work *w, const struct symmetry_half *half, int i, int count) {
    size_t n = (size_t)w->own.count;
    const float *data = half->data + 2 * n * (size_t)i, *weight = half->weight + n * (size_t)i;
    double best = -INFINITY;
    int found = 0;
    for (int g = 0; g < count; g++) {
        const float *slice = w->slices + 2 * n * (size_t)g;
        double dot = 0, norm = 0;
        for (size_t j = 0; j < n; j++) {
            dot += (double)slice[2 * j] * data[2 * j] + (double)slice[2 * j + 1] * data[2 * j + 1];
            norm += ((double)slice[2 * j] * slice[2 * j] + (double)slice[2 * j + 1] * slice[2 * j + 1]) * weight[j];
        }
        double fit = norm > 0 ? dot / sqrt(norm) : 0;
        if (fit > best) best = fit, found = g;
    }
    return found;
}

enum status symmetry_fill_block(struct symmetry_work *w, const struct symmetry_half *half, int block, struct err *err) {
    TRY(accumulator_clear(w->blocks[block], w->size, err));
    return add_block(w, half, block, 0, w->blocks[block], err);
}

enum status symmetry_map_without(struct symmetry_work *w, int h, int block, int blocks, struct err *err) {
    TRY(accumulator_clear(w->sum, w->size, err));
    for (int b = 0; b < blocks; b++)
        if (b != block) TRY(accumulator_merge(w->sum, w->blocks[b], err));
    return make_map(w, w->r->sides[h].references->tau2, w->map, err);
}

static void take_mate(const struct symmetry_work *w, struct symmetry_half *half, int i, int mate) {
    half->choice[i] = mate;
    memcpy(half->poses + 9 * (size_t)i, half->mates + 9 * ((size_t)i * (size_t)w->operators + (size_t)mate),
           9 * sizeof *half->poses);
}

/* Lets a block choose by the map of the other blocks that have chosen. */
static enum status choose_block(struct symmetry_work *w, int h, int block, bool first_pass, int *changed,
                                struct err *err) {
    struct symmetry_half *half = &w->halves[h];
    size_t operators = (size_t)w->operators;
    TRY(symmetry_map_without(w, h, block, first_pass ? block : SYMMETRY_BLOCKS, err));
    TRY(projector_set_map(w->projector, w->map, w->size, err));
    for (int i = block; i < half->count; i += SYMMETRY_BLOCKS) {
        projector_slices(w->projector, &w->own, w->own.count, w->operators, half->mates + 9 * (size_t)i * operators,
                         w->r->context.threads, w->slices);
        int found = symmetry_choose(w, half, i, w->operators);
        *changed += found != half->choice[i];
        take_mate(w, half, i, found);
    }
    return STATUS_OK;
}

static enum status choose_half(struct symmetry_work *w, int h, struct err *err) {
    struct symmetry_half *half = &w->halves[h];
    const struct particle *particles = w->r->set.particles;
    for (int i = 0; i < half->count; i++)
        take_mate(w, half, i,
                  (int)(particle_hash(particles[w->r->sides[h].members[i]].name, 77) % (unsigned)w->operators));
    for (int pass = 0, changed = 1; pass < PASSES && changed > 0; pass++) {
        changed = 0;
        for (int block = 0; block < SYMMETRY_BLOCKS; block++) {
            if (pass > 0 || block > 0) TRY(choose_block(w, h, block, pass == 0, &changed, err));
            TRY(symmetry_fill_block(w, half, block, err));
        }
    }
    return STATUS_OK;
}

/* Returns the mean of atanh(FSC), which scatters alike at any FSC, over shells 2 and on; each is weighed by its
 * radius. */
static enum status agreement(struct symmetry_work *w, double *ret_mean, struct err *err) {
    float fsc[SHELLS_MOST + MARGIN + 1];
    double sum = 0, weights = 0;
    TRY(fsc_maps(NULL, w->box, w->map, w->other, fsc, err));
    for (int s = 2; s <= w->size / 2; s++)
        sum += s * atanh(fmax(fmin((double)fsc[s], FSC_MOST), -FSC_MOST)), weights += s;
    *ret_mean = sum / weights;
    return STATUS_OK;
}

/* Compares the maps in C1 of both halves in all mates. */
static enum status compare_halves(struct symmetry_work *w, struct refiner_mates *ret_mates, struct err *err) {
    double sum = 0;
    TRY(accumulator_clear(w->sum, w->size, err));
    for (int b = 0; b < SYMMETRY_BLOCKS; b++)
        TRY(add_block(w, &w->halves[0], b, 0, w->sum, err));
    TRY(make_map(w, NULL, w->map, err));
    for (int g = 0; g < w->operators; g++) {
        double mean;
        TRY(accumulator_clear(w->sum, w->size, err));
        for (int b = 0; b < SYMMETRY_BLOCKS; b++)
            TRY(add_block(w, &w->halves[1], b, g, w->sum, err));
        TRY(make_map(w, NULL, w->other, err));
        TRY(agreement(w, &mean, err));
        sum += mean;
        if (g == 0 || mean > ret_mates->best) ret_mates->best = mean;
    }
    ret_mates->mean = sum / w->operators;
    return STATUS_OK;
}

/* Returns the share of particles whose poses lie near a mate of the refinement's. By chance hardly any do: of all
 * rotations, 0.1 % lie within 15 degrees of one. */
static double near_mates(const struct symmetry_work *w) {
    const double trace = 1 + 2 * cos(15 * M_PI / 180);
    int near = 0, all = 0;
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < w->halves[h].count; i++, all++) {
            const float *pose = w->halves[h].poses + 9 * (size_t)i;
            bool found = false;
            for (int g = 0; g < w->operators && !found; g++) {
                const float *mate = w->halves[h].mates + 9 * ((size_t)i * (size_t)w->operators + (size_t)g);
                double sum = 0;
                for (int j = 0; j < 9; j++)
                    sum += (double)pose[j] * (double)mate[j];
                found = sum > trace;
            }
            near += found;
        }
    return all > 0 ? (double)near / all : 0;
}

static enum status search_halves(struct symmetry_work *w, struct refiner_symmetry *check, struct err *err) {
    for (int h = 0; h < 2; h++)
        TRY(symmetry_search(w, h, err));
    check->near = near_mates(w);
    return compare_halves(w, &check->searched, err);
}

static enum status check_with(struct symmetry_work *w, struct refiner_symmetry *check, struct err *err) {
    struct err own = {0};
    TRY(allocate(w, err));
    TRY(prepare_halves(w, err));
    for (int h = 0; h < 2; h++)
        TRY(choose_half(w, h, err));
    TRY(compare_halves(w, &check->chosen, err));
    enum status status = search_halves(w, check, &own);
    check->looked = true;
    check->has_searched = status == STATUS_OK;
    /* The reference of a refinement that goes on may be gone. */
    FAIL_IF(status != STATUS_OK && !status_is_of_file(status), err, status, "%s", own.message);
    return STATUS_OK;
}

enum status refiner_check_symmetry(struct refiner *r, struct refiner_symmetry *ret_symmetry, struct err *err) {
    struct refiner_symmetry check = {0};
    double side = r->box * r->pixel_size;
    *ret_symmetry = check;
    if (classifies(r) || r->symmetry.count < 2 || r->busy || r->box == 0) return STATUS_OK;
    int shell = (int)lround(side / r->resolution), last = r->box / 2 - 1;
    shell = shell < SHELLS_LEAST ? SHELLS_LEAST : shell > SHELLS_MOST ? SHELLS_MOST : shell;
    if (shell > last) shell = last;
    struct symmetry_work w = {.r = r, .operators = r->symmetry.count, .size = 2 * shell, .box = 2 * shell + MARGIN};
    if (w.box > r->box) w.box = r->box;
    w.radius = r->mask_radius * w.box / r->box;
    enum status status = check_with(&w, &check, err);
    check.resolution = side / shell;
    check.particles = (size_t)w.halves[0].count;
    release(&w);
    if (status == STATUS_OK) *ret_symmetry = check;
    return status;
}
