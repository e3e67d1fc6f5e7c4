/* The coarse pass: every pose of the grid at a size at which neighbours of the grid differ just so much; what holds
 * 99.9 % of the probability goes on to the fine pass. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/expectation/posterior.h"
#include "stages/refiner/refiner_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

static const double ADAPTIVE_FRACTION = 0.999;
/* Samples whose children are not looked at cost a thirty-second: so many more of them may be kept. */
enum { WITHOUT_CHILDREN = 4 };

/* All coarse orientations of the iteration, once for a half. */
enum status estep_coarse_slices(struct refiner *r, struct half *half, struct err *err) {
    enum { CHUNK = 1024 };
    int total = sampling_orientation_count(&r->sampling);
    float matrices[CHUNK][9];
    TRY(grown_reserve(&r->coarse_slices, (size_t)total * 2 * (size_t)r->coarse_pixels, "slices of the coarse pass",
                      err));
    for (int first = 0; first < total; first += CHUNK) {
        int count = total - first < CHUNK ? total - first : CHUNK;
        for (int i = 0; i < count; i++) {
            double m[9];
            sampling_matrix(&r->sampling, first + i, m);
            for (int j = 0; j < 9; j++)
                matrices[i][j] = (float)m[j];
        }
        projector_slices(half->projector, &r->pixels, r->coarse_pixels, count, matrices[0], r->options.threads,
                         r->coarse_slices.data + (size_t)first * 2 * (size_t)r->coarse_pixels);
    }
    return STATUS_OK;
}

/* Spectra, CTF and weights of one particle; what its pose says about priors. */
static void prepare_particle(struct refiner *r, const struct half *half, struct batch_particle *b, const float *image,
                             struct thread_space *space) {
    struct particle *p = b->particle;
    b->shift[0] = (int)lround(p->origin[0]);
    b->shift[1] = (int)lround(p->origin[1]);
    b->optics = p->optics;
    const struct prepare_options options = {.shift_x = b->shift[0],
                                            .shift_y = b->shift[1],
                                            .scale = half->average_norm / p->norm,
                                            .mask_radius = r->mask_radius};
    prepare_image(space->prepare, image, &options, &r->pixels, b->masked, b->unmasked, b->power);
    if (p->has_ctf)
        ctf_at(&p->ctf, r->box, r->pixel_size, r->pixels.count, r->pixels.kx, r->pixels.ky, b->ctf);
    else
        for (int i = 0; i < r->pixels.count; i++)
            b->ctf[i] = 1;
    const float *sigma2 = half->sigma2 + (size_t)p->optics * (size_t)r->shells;
    for (int i = 0; i < r->pixels.count; i++)
        b->weight[i] = 1 / sigma2[r->pixels.shell[i]];
    for (int t = 0; t < r->sampling.shift_count; t++) {
        double x = b->shift[0] + r->coarse_shift[t][0], y = b->shift[1] + r->coarse_shift[t][1];
        b->shift_log_prior[t] = (float)(-(x * x + y * y) / (2 * half->sigma_offset * half->sigma_offset));
    }
}

enum status estep_prepare(struct refiner *r, struct half *half, int count, struct err *err) {
    size_t n = (size_t)r->pixels.count, per_particle = 2 * n + 2 * n + n + n + (size_t)r->shells;
    TRY(grown_reserve(&r->spectra, per_particle * (size_t)count, "particle spectra", err));
    TRY(grown_reserve(&r->priors, (size_t)r->sampling.shift_count * (size_t)count, "priors", err));
    for (int i = 0; i < count; i++) {
        float *at = r->spectra.data + per_particle * (size_t)i;
        struct batch_particle *b = &r->batch[i];
        b->masked = at;
        b->unmasked = at + 2 * n;
        b->ctf = at + 4 * n;
        b->weight = at + 5 * n;
        b->power = at + 6 * n;
        b->shift_log_prior = r->priors.data + (size_t)r->sampling.shift_count * (size_t)i;
    }
#pragma omp parallel for num_threads(r->options.threads) schedule(dynamic)
    for (int i = 0; i < count; i++)
        prepare_particle(r, half, &r->batch[i], r->images.data + (size_t)i * (size_t)r->box * (size_t)r->box,
                         &r->threads[omp_get_thread_num()]);
    return STATUS_OK;
}

/* Images of members first .. first+count−1 into the batch. */
enum status estep_load(struct refiner *r, const struct half *half, int first, int count, struct err *err) {
    TRY(grown_reserve(&r->images, (size_t)count * (size_t)r->box * (size_t)r->box, "particle images", err));
    for (int i = 0; i < count; i++)
        r->batch[i].particle = &r->set.particles[half->members[first + i]];
    return particle_set_images(&r->set, half->members + first, count, r->images.data, err);
}

static struct expectation_particle comparison(const struct batch_particle *b) {
    return (struct expectation_particle){.image = b->masked, .ctf = b->ctf, .weight = b->weight};
}

/* At low resolution thousands of samples fit a particle alike, and the fine pass over all of them would take most of
 * the time of the first iterations only to say so again. The best of them stand for the rest. */
static void limit_samples(const float *weights, size_t samples, size_t most, float *threshold, size_t *kept) {
    double low = 0, high = ADAPTIVE_FRACTION;
    for (int i = 0; i < 12 && *kept > most; i++) {
        float t;
        size_t count;
        double middle = (low + high) / 2;
        expectation_top_sum(weights, samples, middle, &t, &count);
        if (count > most) {
            high = middle;
            continue;
        }
        low = middle;
        *threshold = t;
        if (count > most * 9 / 10 || i > 8) *kept = count;
    }
    /* Ties may keep more than asked for; the list takes what it has room for. */
    if (*kept > most) *kept = most;
}

/* Weights of the coarse samples in place of their differences, and the list of those that matter. */
static enum status select_samples(struct refiner *r, struct batch_particle *b, int orientations,
                                  struct thread_space *space, struct err *err) {
    int shifts = r->sampling.shift_count;
    size_t samples = (size_t)orientations * (size_t)shifts, kept;
    size_t most = (size_t)r->options.max_significant * (r->oversampled ? 1 : WITHOUT_CHILDREN);
    float threshold;
    posterior_weights(b->coarse, orientations, shifts, r->local ? b->near.log_priors : NULL, b->shift_log_prior, NULL,
                      NULL);
    expectation_top_sum(b->coarse, samples, ADAPTIVE_FRACTION, &threshold, &kept);
    b->particle->significant = (int)kept;
    if (kept > most) {
        TRY(estep_reserve_values(space, kept, err));
        size_t copied = 0;
        for (size_t i = 0; i < samples && copied < kept; i++)
            if (b->coarse[i] >= threshold) space->pose_values[copied++] = b->coarse[i];
        limit_samples(space->pose_values, copied, most, &threshold, &kept);
    }
    TRY(int_list_reserve(&b->significant, (int)kept, err));
    TRY(int_list_reserve(&b->orientations, orientations < (int)kept ? orientations : (int)kept, err));
    b->significant.count = b->orientations.count = 0;
    for (int o = 0; o < orientations; o++) {
        const float *row = b->coarse + (size_t)o * (size_t)shifts;
        int before = b->significant.count;
        for (int t = 0; t < shifts; t++)
            if (row[t] >= threshold && b->significant.count < (int)kept)
                b->significant.data[b->significant.count++] = o * shifts + t;
        if (b->significant.count > before)
            b->orientations.data[b->orientations.count++] = r->local ? b->near.orientations[o] : o;
    }
    return STATUS_OK;
}

/* The grid near a particle's last pose, compared with it alone. */
static enum status coarse_near(struct refiner *r, struct half *half, struct batch_particle *b,
                               struct thread_space *space, struct err *err) {
    size_t need = (size_t)b->near.count * (2 * (size_t)r->coarse_pixels + 9);
    if (need > space->local_capacity) {
        mem_free(&space->local_slices);
        space->local_capacity = 0;
        TRY(mem_new(2 * need, sizeof *space->local_slices, "slices near a pose", &space->local_slices, err));
        space->local_capacity = 2 * need;
    }
    float *matrices = space->local_slices + (size_t)b->near.count * 2 * (size_t)r->coarse_pixels;
    for (int i = 0; i < b->near.count; i++) {
        double m[9];
        sampling_matrix(&r->sampling, b->near.orientations[i], m);
        for (int j = 0; j < 9; j++)
            matrices[9 * i + j] = (float)m[j];
    }
    projector_slices(half->projector, &r->pixels, r->coarse_pixels, b->near.count, matrices, 1, space->local_slices);
    struct expectation_particle e = comparison(b);
    return expectation_coarse(space->expectation, r->coarse_pixels, space->local_slices, b->near.count, &e, 1,
                              (const double(*)[2])r->coarse_shift, r->sampling.shift_count, b->coarse, err);
}

static enum status coarse_local(struct refiner *r, struct half *half, int count, struct err *err) {
    size_t total = 0;
    double sigma = r->sampling.angle_step; /* twice the step of the fine pass */
    for (int i = 0; i < count; i++) {
        struct batch_particle *b = &r->batch[i];
        TRY(sampling_near(&r->sampling, b->particle->pose, sigma, &b->near, err));
        total += (size_t)b->near.count * (size_t)r->sampling.shift_count;
    }
    TRY(grown_reserve(&r->coarse, total, "weights of the coarse pass", err));
    total = 0;
    for (int i = 0; i < count; i++) {
        r->batch[i].coarse = r->coarse.data + total;
        total += (size_t)r->batch[i].near.count * (size_t)r->sampling.shift_count;
    }
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(r->options.threads) schedule(dynamic)
    for (int i = 0; i < count; i++) {
        struct err mine = {0};
        enum status status = coarse_near(r, half, &r->batch[i], &r->threads[omp_get_thread_num()], &mine);
        if (status == STATUS_OK)
            status = select_samples(r, &r->batch[i], r->batch[i].near.count, &r->threads[omp_get_thread_num()], &mine);
        if (status != STATUS_OK) {
#pragma omp critical(refiner_coarse)
            {
                failed = status;
                if (err != NULL) *err = mine;
            }
        }
    }
    return failed;
}

static enum status coarse_global(struct refiner *r, int count, struct err *err) {
    int orientations = sampling_orientation_count(&r->sampling), shifts = r->sampling.shift_count;
    size_t samples = (size_t)orientations * (size_t)shifts;
    struct expectation_particle comparisons[BATCH_PARTICLES];
    TRY(grown_reserve(&r->coarse, samples * (size_t)count, "weights of the coarse pass", err));
    for (int i = 0; i < count; i++) {
        r->batch[i].coarse = r->coarse.data + samples * (size_t)i;
        comparisons[i] = comparison(&r->batch[i]);
    }
    TRY(expectation_coarse(r->expectation, r->coarse_pixels, r->coarse_slices.data, orientations, comparisons, count,
                           (const double(*)[2])r->coarse_shift, shifts, r->coarse.data, err));
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(r->options.threads) schedule(dynamic)
    for (int i = 0; i < count; i++) {
        struct err mine = {0};
        enum status status = select_samples(r, &r->batch[i], orientations, &r->threads[omp_get_thread_num()], &mine);
        if (status != STATUS_OK) {
#pragma omp critical(refiner_coarse)
            {
                failed = status;
                if (err != NULL) *err = mine;
            }
        }
    }
    return failed;
}

enum status estep_coarse(struct refiner *r, struct half *half, int count, struct err *err) {
    TRY(estep_prepare(r, half, count, err));
    return r->local ? coarse_local(r, half, count, err) : coarse_global(r, count, err);
}
