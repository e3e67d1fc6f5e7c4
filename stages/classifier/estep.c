#include "stages/classifier/estep.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"

/* An image is an outlier if its norm is so many (robust) standard deviations from the median. */
static const double OUTLIER_SPREADS = 6;
enum { MOST_SIGNIFICANT = 256, IMAGE_BYTES = 128 << 20, CHUNK = 512, NEIGHBOURS = 64 };
/* Below this many particles one thread is faster: beside reading threads, a team takes longer to start. */
enum { TEAM_FROM = 2048 };

struct estep {
    struct estep_options options;
    int box, shells, capacity; /* capacity: most classes */
    double pixel_size, mask_radius;
    struct alignment *alignment;
    struct sampling sampling;
    struct fourier_pixels pixels;
    int half;                      /* half that is being added; -1: none yet */
    size_t chunks;                 /* of that half */
    size_t added, lost;            /* particles of the half so far; lost by the last estep_run */
    struct model_sums before_half; /* copy of the sums before the half began */
    struct estep_result result;    /* copy of the result before the half began */
    bool with_empty;
    double log_empty;

    struct alignment_iteration iteration;
    struct projector **projectors; /* [capacity], for the alignment */
    struct accumulator **sums;
    float *log_class;

    int batch, room; /* particles compared at a time; most particles that the arrays hold */
    int part;        /* most particles of a batch for each device */
    float *images;   /* [image_room][box²]: images that the dataset does not keep in memory */
    int image_room, image_part;
    size_t *indices; /* [room]: into the dataset */
    struct alignment_particle *particles;
    struct alignment_result *results;
    int *before, *last_shells; /* [room]: former class of each; estep_last_shell */
    float *powers, *weights;   /* [room][shells], [room][capacity] */
};

static enum status build(struct estep *e, struct err *err) {
    const struct estep_options *o = &e->options;
    struct alignment_options options = {.device = o->device,
                                        .device_count = o->device_count,
                                        .threads = o->threads,
                                        .memory = o->memory,
                                        .box = e->box,
                                        .pixel_size = e->pixel_size,
                                        .mask_radius = e->mask_radius,
                                        .max_significant = MOST_SIGNIFICANT,
                                        .reliability = ALIGNMENT_NORM_NONE};
    memcpy(options.devices, o->devices, sizeof options.devices);
    size_t classes = (size_t)e->capacity;
    TRY(alignment_create(&options, &e->alignment, err));
    TRY(sampling_create_plane(o->psi_step, o->offset_range, o->offset_step, &e->sampling, err));
    TRY(mem_new(classes, sizeof(void *), "classes", &e->projectors, err));
    TRY(mem_new(classes, sizeof(void *), "classes", &e->sums, err));
    return mem_new(classes, sizeof *e->log_class, "classes", &e->log_class, err);
}

enum status estep_create(const struct estep_options *options, const struct model *model, struct estep **ret_estep,
                         struct err *err) {
    struct estep *e = NULL;
    TRY(mem_new(1, sizeof *e, "memory to compare particles", &e, err));
    e->options = *options;
    e->box = model->options.box;
    e->shells = e->box / 2 + 1;
    e->capacity = model->options.class_capacity;
    e->pixel_size = model->options.pixel_size;
    e->mask_radius = model->options.mask_radius;
    enum status status = build(e, err);
    if (status != STATUS_OK) {
        estep_destroy(&e);
        return status;
    }
    *ret_estep = e;
    return STATUS_OK;
}

static void free_batch(struct estep *e) {
    e->batch = e->part = e->room = 0;
    mem_free(&e->images);
    mem_free(&e->indices);
    mem_free(&e->particles);
    mem_free(&e->results);
    mem_free(&e->before);
    mem_free(&e->last_shells);
    mem_free(&e->powers);
    mem_free(&e->weights);
}

void estep_destroy(struct estep **estep) {
    if (estep == NULL || *estep == NULL) return;
    struct estep *e = *estep;
    alignment_destroy(&e->alignment);
    sampling_destroy(&e->sampling);
    fourier_pixels_destroy(&e->pixels);
    free_batch(e);
    mem_free(&e->before_half.values);
    mem_free(&e->projectors);
    mem_free(&e->sums);
    mem_free(&e->log_class);
    mem_free(estep);
}

size_t estep_image_bytes(double memory, const struct model *m) {
    const struct model_options *o = &m->options;
    const struct averages_options averages = model_averages(o);
    /* Sums that the batch adds, and references. */
    size_t classes = (size_t)o->class_capacity, taken = classes * accumulator_bytes(2, o->max_size);
    taken += m->placed ? averages_bytes(&averages) : classes * projector_bytes(2, o->max_size);
    return (double)taken < memory ? (size_t)((memory - (double)taken) / 4) : 0;
}

/* Makes room for the particles that are compared at a time, but for a limited number of images that are not in memory.
 * The number of particles falls as classes are added and averages become finer; then the old arrays have room. */
static enum status reserve_batch(struct estep *e, struct err *err) {
    size_t pixels = (size_t)e->box * (size_t)e->box, most = IMAGE_BYTES / (pixels * sizeof *e->images);
    size_t part = (size_t)alignment_batch(e->alignment), workers = (size_t)alignment_workers(e->alignment);
    size_t n = part * workers;
    e->part = (int)part;
    e->batch = (int)n;
    if (e->batch <= e->room) return STATUS_OK;
    free_batch(e);
    e->image_part = (int)(part < most ? part : most > 0 ? most : 1);
    e->image_room = e->image_part * (int)workers;
    TRY(mem_new_unset((size_t)e->image_room * pixels, sizeof *e->images, "particle images", &e->images, err));
    TRY(mem_new(n, sizeof *e->indices, "particles", &e->indices, err));
    TRY(mem_new(n, sizeof *e->particles, "particles", &e->particles, err));
    TRY(mem_new(n, sizeof *e->results, "particles", &e->results, err));
    TRY(mem_new(n, sizeof *e->before, "particles", &e->before, err));
    TRY(mem_new(n, sizeof *e->last_shells, "particles", &e->last_shells, err));
    TRY(mem_new(n * (size_t)e->shells, sizeof *e->powers, "spectra of particles", &e->powers, err));
    TRY(mem_new(n * (size_t)e->capacity, sizeof *e->weights, "classes of particles", &e->weights, err));
    for (size_t i = 0; i < n; i++) {
        e->results[i].power = e->powers + i * (size_t)e->shells;
        e->results[i].reference_weights = e->weights + i * (size_t)e->capacity;
    }
    e->part = (int)part;
    e->batch = e->room = (int)n;
    return STATUS_OK;
}

/* Returns the Fourier size at which one step of the angle moves the rim of the particle by 1.5 px; angles of the
 * coarse grid do not differ beyond. */
static int coarse_size(const struct estep *e, int size) {
    double rotated = M_PI * 2 * e->mask_radius * e->sampling.psi_step / 360;
    int coarse = 2 * (int)ceil(e->box * 1.5 / rotated);
    return coarse < size ? coarse : size;
}

enum status estep_begin(struct estep *e, const struct model *m, double jitter, struct err *err) {
    if (e->pixels.size != m->size) {
        fourier_pixels_destroy(&e->pixels);
        TRY(fourier_pixels_create(e->box, m->size, &e->pixels, err));
    }
    sampling_perturb(&e->sampling, jitter);
    for (int k = 0; k < m->class_count; k++) {
        e->projectors[k] = averages_reference(m->averages, k);
        /* A least prior: one batch without members must not rule a class out for good. */
        e->log_class[k] = (float)log(fmax(model_fraction(m, k), 0.1 / (m->class_count + 1)));
    }
    e->with_empty = m->options.with_empty && m->empty_active;
    e->log_empty = log(fmin(fmax(model_fraction(m, m->class_count), 0.05), 0.5));
    e->half = -1;
    e->iteration =
        (struct alignment_iteration){.pixels = &e->pixels,
                                     .coarse_pixels = fourier_pixels_within(&e->pixels, coarse_size(e, m->size)),
                                     .sampling = &e->sampling,
                                     .oversampled = true,
                                     .reference_count = m->class_count,
                                     .references = e->projectors,
                                     .sums = e->sums,
                                     .add_to = m->placed,
                                     .reference_log_prior = e->log_class,
                                     .sigma_offset = m->sigma_offset,
                                     .doubtful = e->with_empty,
                                     .sigma2 = m->sigma2,
                                     .optics_count = 1};
    return STATUS_OK;
}

void estep_forget_images(struct estep *e) {
    alignment_forget_images(e->alignment);
}

enum status estep_end(struct estep *e, struct model *m, struct err *err) {
    if (e->half < 0) return STATUS_OK;
    TRY(alignment_finish(e->alignment, err));
    TRY(averages_end(m->averages, m->class_count, e->half, err));
    e->half = -1;
    return STATUS_OK;
}

size_t estep_chunks(size_t count) {
    size_t chunks = 1;
    while (count / chunks > CHUNK)
        chunks *= 2;
    return chunks;
}

/* Mixes the bits, so that chunks are equally large in any selection of particles. Neighbours stay together: their images
 * lie in one stack. With as many devices as a power of two, a particle meets the same one in all batches that have a
 * chunk for each. */
size_t estep_chunk(size_t particle, size_t chunks) {
    return ((uint64_t)(particle / NEIGHBOURS) * 0x9e3779b97f4a7c15u >> 32) & (chunks - 1);
}

/* Begins with a half. which[count]: particles that are left of the batch, those of one half after the others. */
static enum status need_half(struct estep *e, struct model *m, const struct dataset *dataset, const size_t *which,
                             size_t count, const struct estep_result *result, struct err *err) {
    int half = estep_half(which[0]);
    if (e->half == half) return STATUS_OK;
    TRY(estep_end(e, m, err));
    TRY(averages_begin(m->averages, m->class_count, m->size, err));
    for (int k = 0; k < m->class_count; k++)
        e->sums[k] = averages_added(m->averages, k, half);
    TRY(alignment_keep_images(e->alignment, (int)dataset_count(dataset),
                              estep_image_bytes(alignment_memory(e->alignment), m), err));
    e->iteration.particle_count = (int)dataset_count(dataset);
    TRY(alignment_begin(e->alignment, &e->iteration, err));
    TRY(reserve_batch(e, err));
    TRY(model_copy_sums(m, half, &e->before_half, err));
    e->result = *result;
    size_t members = 0;
    while (members < count && estep_half(which[members]) == half)
        members++;
    e->chunks = estep_chunks(members);
    e->added = 0;
    e->half = half;
    return STATUS_OK;
}

/* Returns the scale that brings an image to the average norm: 0.5 to 2. */
static double norm_scale(const struct model *m, const struct dataset_particle *p) {
    return p->visits == 0 ? 1 : fmin(fmax(m->average_norm / p->norm, 0.5), 2);
}

static double squared(double x) {
    return x * x;
}

/* Returns the last frequency of an image in shells, 0: it has all (regrid_limit). */
static double limit_of(const struct dataset_particle *p, int box) {
    return p->ctf.limit * box * p->pixel_size;
}

/* A norm is that of all shells: an image of a coarser grid would have in the others what other images have there. */
static double noise_share(const struct model *m, const struct dataset_particle *p) {
    return regrid_share(m->sigma2, m->options.box / 2 + 1, limit_of(p, m->options.box));
}

int estep_last_shell(const struct model *m, const struct dataset_particle *p) {
    return regrid_last_shell(m->options.box / 2 + 1, limit_of(p, m->options.box));
}

/* Fills all members but the image, its number and its chunk, which load has filled. */
static void describe(const struct estep *e, const struct model *m, const struct dataset_particle *in,
                     struct alignment_particle *p) {
    *p = (struct alignment_particle){.image = p->image,
                                     .number = p->number,
                                     .chunk = p->chunk,
                                     .ctf = in->uses_ctf ? &in->ctf : NULL,
                                     .shift = {(int)lrintf(in->x), (int)lrintf(in->y)},
                                     .scale = norm_scale(m, in),
                                     .residual = -1,
                                     .norm_most = INFINITY};
    p->nothing = e->log_empty + alignment_log_poses(&e->iteration, p->shift);
    if (!e->with_empty || !(m->norm_spread > 0)) return;
    /* An image with contamination, a hot pixel or an edge has an unusual norm, whatever class it resembles. */
    double far = OUTLIER_SPREADS * m->norm_spread, share = noise_share(m, in);
    p->norm_least = share * squared(fmax(m->norm_median - far, 0) * p->scale) / 2;
    p->norm_most = share * squared((m->norm_median + far) * p->scale) / 2;
}

/* Chooses the class of the likeliest pose, or the empty class if that is likelier than each other class. */
static void choose(const struct estep *e, const struct model *m, const struct alignment_particle *p,
                   const struct alignment_result *r, struct dataset_particle *out) {
    bool empty = r->left_out;
    if (e->with_empty && !empty) {
        float largest = 0;
        for (int k = 0; k < m->class_count; k++)
            largest = fmaxf(largest, r->reference_weights[k]);
        empty = r->nothing >= (double)largest;
    }
    double log_poses = p->nothing - e->log_empty;
    double psi = atan2(r->pose[1], r->pose[0]) * 180 / M_PI;
    out->class_index = empty ? m->class_count : r->reference;
    out->psi = (float)(psi >= 180 ? psi - 360 : psi);
    out->x = (float)r->shift[0];
    out->y = (float)r->shift[1];
    out->probability = r->left_out ? 1 : (float)(empty ? r->nothing : r->pmax);
    out->evidence = (float)(r->evidence - log_poses);
    out->log_likelihood = (float)(r->log_likelihood - log_poses);
    out->significant = r->significant;
    /* Standard deviation of the residual, as if noise of all shells were measured in real space. */
    out->norm = (float)fmax(sqrt(2 * r->norm_sum / noise_share(m, out)) / p->scale, 1e-6);
}

/* Adds a particle to noise, priors and norms. alignment_add has added it to the averages. */
static void add_particle(struct model *m, const struct alignment_result *r, const struct dataset_particle *p) {
    m->effective++;
    m->norm_sum += p->norm;
    m->norm_count++;
    m->empty_weight += r->left_out ? 1 : r->nothing;
    if (r->left_out) return;
    m->sigma2_count++;
    for (int s = estep_last_shell(m, p) + 1; s <= m->options.box / 2; s++)
        m->sigma2_lacking[s]++;
    m->offset_sum += r->offset2;
    m->offset_count += r->weight_sum;
}

/* Adds all particles to classes and shells in parallel. Each sum runs in the order of particles. */
static void add_all(const struct estep *e, struct model *m, int count) {
    const struct alignment_result *r = e->results;
#pragma omp parallel num_threads(e->options.threads) if (count >= TEAM_FROM)
    {
#pragma omp for schedule(static) nowait
        for (int k = 0; k < m->class_count; k++)
            for (int i = 0; i < count; i++)
                if (!r[i].left_out) m->classes[k].weight[e->half] += (double)r[i].reference_weights[k];
#pragma omp for schedule(static)
        for (int s = 1; s < e->shells; s++)
            for (int i = 0; i < count; i++)
                if (!r[i].left_out && s <= e->last_shells[i]) m->sigma2_sum[s] += (double)r[i].power[s];
    }
}

/* Counts an unusable particle as a member of the empty class. */
static void pass_over(struct model *m, struct dataset_particle *p, struct estep_result *result) {
    result->changed += p->class_index != m->class_count;
    result->probability_sum += 1;
    p->class_index = m->class_count;
    p->probability = 1;
    p->evidence = p->log_likelihood = 0;
    p->visits++;
    m->empty_weight++;
    m->effective++;
}

/* On the CPU a chunk is what a single worker would take at a time, since its sums depend on that. */
struct share {
    int first, read, chunk; /* its first particle; the images of it that were read */
};

/* Goes on to the share of another worker where one is full. */
static void next_share(const struct estep *e, int loaded, struct share *s) {
    if (loaded - s->first < e->part && s->read < e->image_part) return;
    *s = (struct share){.first = loaded, .chunk = s->chunk + 1};
}

bool estep_keeps(const struct estep *e, size_t particle) {
    size_t chunks = e->chunks > 0 ? e->chunks : 1; /* 0: no half has begun, and nothing is kept */
    return alignment_keeps_image(e->alignment, (int)particle + 1, (int)estep_chunk(particle, chunks));
}

/* Loads images of the current half, as many as one alignment_add takes. */
static enum status load(struct estep *e, struct dataset *dataset, const size_t *which, size_t count, int *ret_loaded,
                        size_t *ret_done, struct err *err) {
    size_t done = 0, pixels = (size_t)e->box * (size_t)e->box;
    int loaded = 0, read = 0, workers = alignment_workers(e->alignment);
    bool on_cpu = e->options.device.kind == DEVICE_CPU;
    struct share share = {0};
    for (; done < count && loaded < e->batch && read < e->image_room && estep_half(which[done]) == e->half; done++) {
        if (on_cpu) next_share(e, loaded, &share);
        if (share.chunk == workers) break;
        float *scratch = e->images + (size_t)read * pixels;
        const float *image = scratch;
        if (!estep_keeps(e, which[done])) {
            TRY(dataset_image(dataset, which[done], scratch, &image, err));
            read += image == scratch;
            share.read += image == scratch;
        }
        if (dataset_at(dataset, which[done])->unusable) continue;
        e->indices[loaded] = which[done];
        e->particles[loaded].number = (int)which[done] + 1;
        e->particles[loaded].chunk = on_cpu ? share.chunk : (int)estep_chunk(which[done], e->chunks);
        e->particles[loaded++].image = image;
    }
    *ret_loaded = loaded;
    *ret_done = done;
    return STATUS_OK;
}

/* Resets the sums, which may hold parts of particles: the half begins anew. */
static void reset_half(struct estep *e, struct model *m, struct estep_result *result) {
    model_restore_sums(m, e->half, &e->before_half);
    *result = e->result;
    e->lost = e->added;
    e->half = -1;
}

size_t estep_lost(struct estep *e) {
    size_t lost = e->lost;
    e->lost = 0;
    return lost;
}

enum status estep_run(struct estep *e, struct model *m, struct dataset *dataset, const size_t *which, size_t count,
                      struct estep_result *result, size_t *ret_done, struct err *err) {
    int loaded = 0;
    size_t done;
    e->lost = 0;
    TRY(need_half(e, m, dataset, which, count, result, err));
    TRY(load(e, dataset, which, count, &loaded, &done, err));
#pragma omp parallel for num_threads(e->options.threads) schedule(static) if (loaded >= TEAM_FROM)
    for (int i = 0; i < loaded; i++)
        describe(e, m, dataset_at(dataset, e->indices[i]), &e->particles[i]);
    enum status status = alignment_add(e->alignment, e->particles, loaded, e->results, err);
    if (status != STATUS_OK) {
        reset_half(e, m, result);
        return status;
    }
    *ret_done = done;
    e->added += done;
    for (size_t i = 0; i < done; i++) {
        struct dataset_particle *p = dataset_at(dataset, which[i]);
        if (p->unusable) pass_over(m, p, result);
    }
#pragma omp parallel for num_threads(e->options.threads) schedule(static) if (loaded >= TEAM_FROM)
    for (int i = 0; i < loaded; i++) {
        struct dataset_particle *p = dataset_at(dataset, e->indices[i]);
        e->before[i] = p->class_index;
        choose(e, m, &e->particles[i], &e->results[i], p);
        p->visits++;
        e->last_shells[i] = estep_last_shell(m, p);
    }
    add_all(e, m, loaded);
    for (int i = 0; i < loaded; i++) {
        const struct dataset_particle *p = dataset_at(dataset, e->indices[i]);
        add_particle(m, &e->results[i], p);
        result->changed += p->class_index != e->before[i];
        result->probability_sum += (double)p->probability;
    }
    return STATUS_OK;
}

enum status estep_place(struct estep *e, struct model *m, struct err *err) {
    struct workspace *workspace = alignment_workspace(e->alignment);
    struct err own = {0};
    if (workspace == NULL) return STATUS_OK;
    enum status status = model_place(m, workspace, &own);
    if (status == STATUS_OK || status == STATUS_NO_MEMORY) return STATUS_OK;
    if (err != NULL) *err = own;
    return status;
}

enum status estep_device_seconds(struct estep *e, double *ret_seconds, struct err *err) {
    return alignment_device_seconds(e->alignment, ret_seconds, err);
}
