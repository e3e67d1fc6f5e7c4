#include "estep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "estep_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

/* How far from the median, in (robust) standard deviations. */
static const double OUTLIER_SPREADS = 6;

static enum status make_shifts(struct estep *e, struct err *err) {
    double range = e->options.offset_range, step = e->options.offset_step;
    int reach = (int)floor(range / step + 1e-6);
    int capacity = (2 * reach + 1) * (2 * reach + 1);
    TRY(mem_new((size_t)capacity, sizeof *e->shifts, "shifts", &e->shifts, err));
    TRY(mem_new(4 * (size_t)capacity, sizeof *e->fine_shifts, "shifts", &e->fine_shifts, err));
    for (int j = -reach; j <= reach; j++)
        for (int i = -reach; i <= reach; i++)
            if ((i * i + j * j) * step * step < range * range + 0.001) e->n_shifts++;
    FAIL_IF(e->n_shifts > 256, err, STATUS_BAD_ARGUMENT,
            "offset_range %g px in steps of %g px makes %d shifts; 256 are the most: take larger steps", range, step,
            e->n_shifts);
    return STATUS_OK;
}

/* The grid of shifts, moved by `jitter` steps. */
static void place_shifts(struct estep *e, double jitter) {
    double range = e->options.offset_range, step = e->options.offset_step;
    int reach = (int)floor(range / step + 1e-6), t = 0;
    for (int j = -reach; j <= reach; j++)
        for (int i = -reach; i <= reach; i++) {
            if (!((i * i + j * j) * step * step < range * range + 0.001)) continue;
            e->shifts[t][0] = (i + jitter) * step;
            e->shifts[t][1] = (j + jitter) * step;
            for (int child = 0; child < 4; child++) {
                e->fine_shifts[4 * t + child][0] = e->shifts[t][0] + (child % 2 == 0 ? -0.25 : 0.25) * step;
                e->fine_shifts[4 * t + child][1] = e->shifts[t][1] + (child / 2 == 0 ? -0.25 : 0.25) * step;
            }
            t++;
        }
}

static enum status count_shells(struct estep *e, struct err *err) {
    struct fourier_pixels all = {0};
    TRY(mem_new((size_t)e->box / 2 + 1, sizeof *e->shell_count, "shells", &e->shell_count, err));
    TRY(fourier_pixels_create(e->box, e->box, &all, err));
    for (int s = 1; s <= e->box / 2; s++)
        e->shell_count[s] = all.shell_begin[s + 1] - all.shell_begin[s];
    fourier_pixels_destroy(&all);
    return STATUS_OK;
}

static enum status create_buffers(struct estep *e, int max_count, struct err *err) {
    size_t shells = (size_t)e->box / 2 + 1, n = (size_t)max_count, psi = 2 * (size_t)e->n_psi;
    size_t poses = MAX_SIGNIFICANT * CHILDREN, pixels = (size_t)e->box * (size_t)e->box;
    TRY(mem_new(3 * (size_t)e->n_psi * 9, sizeof *e->matrices, "angles", &e->matrices, err));
    TRY(mem_new(ESTEP_CHUNK * pixels, sizeof *e->image_scratch, "particle images", &e->image_scratch, err));
    TRY(mem_new((size_t)e->class_capacity + 1, sizeof *e->log_class, "classes", &e->log_class, err));
    TRY(mem_new((size_t)e->options.threads, sizeof *e->workers, "workers", &e->workers, err));
    for (int i = 0; i < e->options.threads; i++) {
        struct estep_worker *w = &e->workers[i];
        TRY(prepare_create(e->box, &w->prepare, err));
        TRY(mem_new(poses, sizeof *w->diff2, "poses", &w->diff2, err));
        TRY(mem_new(poses, sizeof *w->log_weights, "poses", &w->log_weights, err));
        TRY(mem_new(poses, sizeof *w->slice, "poses", &w->slice, err));
        TRY(mem_new(poses, sizeof *w->shift, "poses", &w->shift, err));
        TRY(mem_new(2 * n, sizeof *w->shifted, "a particle", &w->shifted, err));
        TRY(mem_new(psi * 2 * n, sizeof *w->slices, "back-projection", &w->slices, err));
        TRY(mem_new(psi * n, sizeof *w->slice_weights, "back-projection", &w->slice_weights, err));
        TRY(mem_new(psi * 9, sizeof *w->matrices, "angles", &w->matrices, err));
        TRY(mem_new(psi, sizeof *w->slot, "angles", &w->slot, err));
    }
    for (int i = 0; i < ESTEP_CHUNK; i++) {
        struct estep_particle *p = &e->particles[i];
        TRY(mem_new(2 * n, sizeof *p->masked, "particles", &p->masked, err));
        TRY(mem_new(2 * n, sizeof *p->unmasked, "particles", &p->unmasked, err));
        TRY(mem_new(n, sizeof *p->ctf, "particles", &p->ctf, err));
        TRY(mem_new(n, sizeof *p->inverse_noise, "particles", &p->inverse_noise, err));
        TRY(mem_new(shells, sizeof *p->power, "particles", &p->power, err));
        TRY(mem_new(shells, sizeof *p->residual, "particles", &p->residual, err));
        TRY(mem_new(poses, sizeof *p->poses, "poses", &p->poses, err));
    }
    return STATUS_OK;
}

enum status estep_create(const struct estep_options *options, const struct model *model, struct estep **ret_estep,
                         struct err *err) {
    struct estep *e = calloc(1, sizeof *e);
    FAIL_IF(e == NULL, err, STATUS_NO_MEMORY, "no memory to compare particles");
    e->options = *options;
    e->box = model->options.box;
    e->n_psi = (int)ceil(360 / options->psi_step - 1e-6);
    e->psi_step = 360.0 / e->n_psi;
    e->class_capacity = model->options.class_capacity;
    struct fourier_pixels largest = {0};
    enum status status = fourier_pixels_create(e->box, model->options.max_size, &largest, err);
    if (status == STATUS_OK) status = make_shifts(e, err);
    if (status == STATUS_OK) status = count_shells(e, err);
    if (status == STATUS_OK) status = create_buffers(e, largest.count, err);
    fourier_pixels_destroy(&largest);
    if (status != STATUS_OK) {
        estep_destroy(&e);
        return status;
    }
    *ret_estep = e;
    return STATUS_OK;
}

static void destroy_worker(struct estep_worker *w) {
    prepare_destroy(&w->prepare);
    expectation_destroy(&w->fine);
    mem_free(&w->weights);
    mem_free(&w->diff2);
    mem_free(&w->log_weights);
    mem_free(&w->slice);
    mem_free(&w->shift);
    mem_free(&w->shifted);
    mem_free(&w->slices);
    mem_free(&w->slice_weights);
    mem_free(&w->matrices);
    mem_free(&w->slot);
}

void estep_destroy(struct estep **estep) {
    if (estep == NULL || *estep == NULL) return;
    struct estep *e = *estep;
    for (int i = 0; i < e->options.threads && e->workers != NULL; i++)
        destroy_worker(&e->workers[i]);
    for (int i = 0; i < ESTEP_CHUNK; i++) {
        struct estep_particle *p = &e->particles[i];
        mem_free(&p->masked);
        mem_free(&p->unmasked);
        mem_free(&p->ctf);
        mem_free(&p->inverse_noise);
        mem_free(&p->power);
        mem_free(&p->residual);
        mem_free(&p->poses);
    }
    expectation_destroy(&e->coarse);
    fourier_pixels_destroy(&e->pixels);
    mem_free(&e->workers);
    mem_free(&e->shifts);
    mem_free(&e->fine_shifts);
    mem_free(&e->shell_count);
    mem_free(&e->matrices);
    mem_free(&e->coarse_slices);
    mem_free(&e->fine_slices);
    mem_free(&e->diff2);
    mem_free(&e->image_scratch);
    mem_free(&e->log_class);
    free(e);
    *estep = NULL;
}

static enum status reserve(float **buffer, size_t *capacity, size_t count, const char *what, struct err *err) {
    if (count <= *capacity) return STATUS_OK;
    mem_free(buffer);
    *capacity = 0;
    TRY(mem_new(count, sizeof **buffer, what, buffer, err));
    *capacity = count;
    return STATUS_OK;
}

/* Pixel list and workspaces for a Fourier size. */
static enum status set_size(struct estep *e, int size, struct err *err) {
    if (size == e->size) return STATUS_OK;
    expectation_destroy(&e->coarse);
    for (int i = 0; i < e->options.threads; i++)
        expectation_destroy(&e->workers[i].fine);
    fourier_pixels_destroy(&e->pixels);
    e->size = 0;
    TRY(fourier_pixels_create(e->box, size, &e->pixels, err));
    TRY(expectation_create(&e->pixels, e->options.threads, &e->coarse, err));
    for (int i = 0; i < e->options.threads; i++)
        TRY(expectation_create(&e->pixels, 1, &e->workers[i].fine, err));
    e->size = size;
    e->count = e->pixels.count;
    return STATUS_OK;
}

static enum status reserve_poses(struct estep *e, struct err *err) {
    size_t k = (size_t)e->class_count, poses = k * (size_t)e->n_psi * (size_t)e->n_shifts;
    TRY(reserve(&e->coarse_slices, &e->coarse_capacity, k * (size_t)e->n_psi * 2 * (size_t)e->coarse_count,
                "class slices", err));
    TRY(reserve(&e->fine_slices, &e->fine_capacity, k * 2 * (size_t)e->n_psi * 2 * (size_t)e->count, "class slices",
                err));
    TRY(reserve(&e->diff2, &e->diff2_capacity, ESTEP_CHUNK * poses, "poses", err));
    if (poses <= e->weights_capacity) return STATUS_OK;
    e->weights_capacity = 0;
    for (int i = 0; i < e->options.threads; i++) {
        mem_free(&e->workers[i].weights);
        TRY(mem_new(poses, sizeof *e->workers[i].weights, "poses", &e->workers[i].weights, err));
    }
    e->weights_capacity = poses;
    return STATUS_OK;
}

/* The size beyond which angles of a step apart no longer differ: 1.5 pixels at the rim of the particle. */
static int coarse_size(const struct estep *e, const struct model *m) {
    double rotated = M_PI * 2 * m->options.mask_radius * e->psi_step / 360;
    int size = 2 * (int)ceil(e->box * 1.5 / rotated);
    return size < e->size ? size : e->size;
}

enum status estep_begin(struct estep *e, const struct model *m, double jitter, struct err *err) {
    TRY(set_size(e, m->size, err));
    e->class_count = m->class_count;
    e->coarse_count = fourier_pixels_within(&e->pixels, coarse_size(e, m));
    e->psi_offset = jitter * e->psi_step;
    place_shifts(e, jitter);
    TRY(reserve_poses(e, err));
    float *fine = e->matrices + 9 * (size_t)e->n_psi;
    for (int i = 0; i < e->n_psi; i++) {
        double psi = (e->psi_offset + i * e->psi_step) * M_PI / 180, c = cos(psi), s = sin(psi);
        const double matrix[9] = {c, s, 0, -s, c, 0, 0, 0, 1};
        for (int j = 0; j < 9; j++)
            e->matrices[9 * i + j] = (float)matrix[j];
    }
    for (int i = 0; i < 2 * e->n_psi; i++)
        estep_fine_matrix(e, i, fine + 9 * (size_t)i);
    for (int k = 0; k < e->class_count; k++) {
        const struct projector *projector = m->classes[k].projector;
        size_t row = (size_t)k * (size_t)e->n_psi;
        projector_slices(projector, &e->pixels, e->coarse_count, e->n_psi, e->matrices, e->options.threads,
                         e->coarse_slices + row * 2 * (size_t)e->coarse_count);
        projector_slices(projector, &e->pixels, e->count, 2 * e->n_psi, fine, e->options.threads,
                         e->fine_slices + 2 * row * 2 * (size_t)e->count);
        /* No class is ruled out for good by one batch in which it had no member. */
        e->log_class[k] = (float)log(fmax(model_fraction(m, k), 0.1 / (e->class_count + 1)));
    }
    e->with_empty = m->options.with_empty && m->empty_active;
    e->log_empty = log(fmin(fmax(model_fraction(m, e->class_count), 0.05), 0.5));
    return STATUS_OK;
}

/* A particle that stands far out is toned down or up by twice at most. */
static double norm_scale(const struct model *m, const struct dataset_particle *p) {
    return p->visits == 0 ? 1 : fmin(fmax(m->average_norm / p->norm, 0.5), 2);
}

static void prepare_one(struct estep *e, struct estep_worker *w, const struct model *m, const float *image,
                        const struct dataset_particle *in, struct estep_particle *p) {
    p->old_x = rint(in->x);
    p->old_y = rint(in->y);
    struct prepare_options options = {
        .shift_x = (int)p->old_x,
        .shift_y = (int)p->old_y,
        .scale = norm_scale(m, in),
        .mask_radius = m->options.mask_radius,
    };
    prepare_image(w->prepare, image, &options, &e->pixels, p->masked, p->unmasked, p->power);
    if (in->has_ctf)
        ctf_at(&in->ctf, e->box, in->pixel_size, e->count, e->pixels.kx, e->pixels.ky, p->ctf);
    else
        for (int i = 0; i < e->count; i++)
            p->ctf[i] = 1;
    for (int i = 0; i < e->count; i++)
        p->inverse_noise[i] = 1 / m->sigma2[e->pixels.shell[i]];
}

static enum status prepare_chunk(struct estep *e, const struct model *m, struct dataset *dataset, const size_t *which,
                                 int count, struct err *err) {
    const float *images[ESTEP_CHUNK];
    size_t pixels = (size_t)e->box * (size_t)e->box;
    for (int i = 0; i < count; i++)
        TRY(dataset_image(dataset, which[i], e->image_scratch + (size_t)i * pixels, &images[i], err));
#pragma omp parallel for num_threads(e->options.threads) schedule(static)
    for (int i = 0; i < count; i++)
        prepare_one(e, &e->workers[omp_get_thread_num()], m, images[i], dataset_at(dataset, which[i]),
                    &e->particles[i]);
    return STATUS_OK;
}

/* Contamination, a hot pixel, an edge: such an image is not like the rest, whatever class it resembles. */
static void set_outlier(const struct estep *e, const struct model *m, struct estep_particle *p,
                        struct dataset_particle *out) {
    bool unlike = m->norm_spread > 0 && fabs(out->norm - m->norm_median) > OUTLIER_SPREADS * m->norm_spread;
    p->outlier = out->unusable || (e->with_empty && unlike);
    if (!p->outlier) return;
    p->pose_count = 0;
    p->empty = 1;
    out->class_index = e->class_count;
    out->probability = 1;
}

enum status estep_run(struct estep *e, struct model *m, struct dataset *dataset, const size_t *which, int count,
                      struct estep_result *result, struct err *err) {
    TRY(prepare_chunk(e, m, dataset, which, count, err));
    struct expectation_particle views[ESTEP_CHUNK];
    int before[ESTEP_CHUNK];
    double scale[ESTEP_CHUNK];
    for (int i = 0; i < count; i++) {
        struct estep_particle *p = &e->particles[i];
        views[i] = (struct expectation_particle){.image = p->masked, .ctf = p->ctf, .weight = p->inverse_noise};
        before[i] = dataset_at(dataset, which[i])->class_index;
        scale[i] = norm_scale(m, dataset_at(dataset, which[i]));
    }
    int rows = e->class_count * e->n_psi;
    TRY(expectation_coarse(e->coarse, e->coarse_count, e->coarse_slices, rows, views, count,
                           (const double(*)[2])e->shifts, e->n_shifts, e->diff2, err));
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(e->options.threads) schedule(dynamic)
    for (int i = 0; i < count; i++) {
        struct err own = {0};
        enum status status = estep_posterior(e, &e->workers[omp_get_thread_num()], &e->particles[i],
                                             e->diff2 + (size_t)i * (size_t)rows * (size_t)e->n_shifts, m->sigma_offset,
                                             dataset_at(dataset, which[i]), &own);
        if (status != STATUS_OK) {
#pragma omp critical(estep_run_failed)
            if (failed == STATUS_OK) {
                failed = status;
                if (err != NULL) *err = own;
            }
        }
    }
    if (failed != STATUS_OK) return failed;
    for (int i = 0; i < count; i++) {
        struct dataset_particle *p = dataset_at(dataset, which[i]);
        /* The spread of what no class explains, as if noise of all shells had been measured in real space. */
        p->norm = (float)fmax(sqrt(2 * e->particles[i].squares) / scale[i], 1e-6);
        set_outlier(e, m, &e->particles[i], p);
        result->changed += p->class_index != before[i];
        result->probability_sum += p->probability;
        if (p->unusable) continue;
        m->norm_sum += p->norm;
        m->norm_count++;
    }
    return estep_add(e, m, which, count, err);
}

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static enum status seed_chunk(struct estep *e, struct model *m, struct dataset *dataset, size_t first, int count,
                              const size_t *which, unsigned *random, struct err *err) {
    for (int i = 0; i < count; i++) {
        struct estep_particle *p = &e->particles[i];
        int shift = 0; /* the fine shift nearest to none */
        for (int t = 0; t < 4 * e->n_shifts; t++)
            if (hypot(e->fine_shifts[t][0], e->fine_shifts[t][1]) <
                hypot(e->fine_shifts[shift][0], e->fine_shifts[shift][1]))
                shift = t;
        p->poses[0] = (struct estep_pose){.class_index = (int)((first + (size_t)i) % (size_t)e->class_count),
                                          .psi = (int)(next_random(random) % (2u * (unsigned)e->n_psi)),
                                          .shift = shift,
                                          .weight = 1};
        p->outlier = dataset_at(dataset, which[i])->unusable;
        p->pose_count = p->outlier ? 0 : 1;
        p->empty = 0;
        p->best = 0;
        p->offset2 = 0;
        for (int s = 1; s <= e->box / 2; s++)
            p->residual[s] = 2.0 * p->power[s] * e->shell_count[s];
    }
    return estep_add(e, m, which, count, err);
}

enum status estep_seed(struct estep *e, struct model *m, struct dataset *dataset, const size_t *which, size_t count,
                       bool noise, unsigned seed, struct err *err) {
    TRY(set_size(e, m->size, err));
    e->class_count = m->class_count;
    e->psi_offset = 0;
    place_shifts(e, 0);
    unsigned random = seed;
    int half = e->box / 2;
    _cleanup_(mem_free) double *power = NULL;
    TRY(mem_new((size_t)half + 1, sizeof *power, "noise spectrum", &power, err));
    for (size_t first = 0; first < count; first += ESTEP_CHUNK) {
        int n = (int)(count - first < ESTEP_CHUNK ? count - first : ESTEP_CHUNK);
        TRY(prepare_chunk(e, m, dataset, which + first, n, err));
        if (!noise) TRY(seed_chunk(e, m, dataset, first, n, which + first, &random, err));
        for (int i = 0; i < n; i++)
            for (int s = 1; s <= half; s++)
                power[s] += e->particles[i].power[s] / (double)count;
    }
    /* The signal of one particle is small beside its noise: the power itself will do until the first averages are
     * there to be taken away. */
    for (int s = 1; s <= half && noise; s++)
        m->sigma2[s] = power[s] > 0 ? (float)power[s] : s > 1 ? m->sigma2[s - 1] : 1;
    if (noise) model_floor_noise(m);
    return STATUS_OK;
}
