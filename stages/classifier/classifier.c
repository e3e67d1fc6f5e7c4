#include "stages/classifier/classifier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/quantile/quantile.h"
#include "stages/classifier/ahead.h"
#include "stages/classifier/seed.h"

enum { EMPTY_FROM_UPDATE = 6, SPLITS_PER_UPDATE = 3 };

void classifier_init(struct classifier *c, const struct classifier_options *options, struct dataset *dataset) {
    *c = (struct classifier){.options = *options,
                             .dataset = dataset,
                             .random = (unsigned)options->seed * 2654435761u + 1,
                             .last_changed = 1};
}

void classifier_clear(struct classifier *c) {
    if (c->dataset != NULL) dataset_kept_by(c->dataset, NULL, NULL);
    model_destroy(&c->model); /* first: parts of it lie in the E-step's memory on a device */
    estep_destroy(&c->estep);
    mem_free(&c->order);
    mem_free(&c->batch);
    mem_free(&c->sorted);
    mem_free(&c->known_next);
}

static unsigned next_random(struct classifier *c) {
    c->random = c->random * 1664525u + 1013904223u;
    return c->random >> 8;
}

static double random_unit(struct classifier *c) {
    return next_random(c) / 16777216.0;
}

static enum status reserve_indices(size_t **array, size_t *capacity, size_t count, struct err *err) {
    if (count <= *capacity) return STATUS_OK;
    size_t wanted = *capacity * 2 > count ? *capacity * 2 : count;
    size_t *moved = realloc(*array, wanted * sizeof *moved);
    FAIL_IF(moved == NULL, err, STATUS_NO_MEMORY, "no memory for the order of %zu particles", wanted);
    *array = moved;
    *capacity = wanted;
    return STATUS_OK;
}

static double mask_diameter(const struct classifier *c) {
    double side = dataset_whole_box(c->dataset) * dataset_whole_pixel_size(c->dataset);
    return isnan(c->options.diameter) ? 0.8 * side : c->options.diameter;
}

/* Returns the last shell of the first references. */
static int first_shell(const struct model *m) {
    int shell = (int)(0.07 * model_whole_box(&m->options)) + 1;
    return shell < m->options.box / 2 ? shell : m->options.box / 2;
}

static bool keeps(const void *estep, size_t particle) {
    return estep_keeps(estep, particle);
}

enum status classifier_start(struct classifier *c, struct err *err) {
    if (c->model != NULL) return STATUS_OK;
    const struct classifier_options *o = &c->options;
    const int box = dataset_box(c->dataset), whole_box = dataset_whole_box(c->dataset);
    const double pixel_size = dataset_pixel_size(c->dataset), diameter = mask_diameter(c);
    const double whole = 1.0 * box / whole_box; /* a pixel of the particles, in pixels of the comparison */
    double radius = fmin(diameter / (2 * pixel_size), (whole_box / 2 - 1) * whole);
    FAIL_IF(
        radius < 4, err, STATUS_BAD_ARGUMENT,
        "diameter is %g Å, which is %.1f px of the images that are compared (%.4g Å/px): at least 8 px are needed%s",
        diameter, 2 * radius, pixel_size, box < whole_box ? "; set a finer `resolution`, or `cut: false`" : "");
    int max_size = 2 * (int)ceil(box * pixel_size / o->resolution);
    bool with_empty = o->classes >= 4;
    struct model_options model = {
        .box = box,
        .max_size = max_size < box ? max_size : box,
        .pixel_size = pixel_size,
        .whole_box = whole_box,
        .class_capacity = with_empty ? o->classes - 1 : o->classes,
        .with_empty = with_empty,
        .mask_radius = radius,
        .tau_fudge = o->tau_fudge,
        .threads = o->threads,
    };
    struct estep_options estep = {.psi_step = o->psi_step,
                                  .offset_range = o->offset_range * whole,
                                  .offset_step = o->offset_step * whole,
                                  .device = o->device,
                                  .device_count = o->sharing_count,
                                  .memory = o->memory > 0 ? o->memory * 0x1p30 : 0,
                                  .threads = o->threads};
    memcpy(estep.devices, o->sharing, sizeof estep.devices);
    TRY(model_create(&model, &c->model, err));
    c->model->sigma_offset = 10 / pixel_size;
    c->model->size = 2 * (first_shell(c->model) + whole_box / 8);
    if (c->model->size > model.max_size) c->model->size = model.max_size;
    TRY(estep_create(&estep, c->model, &c->estep, err));
    dataset_kept_by(c->dataset, keeps, c->estep);
    return STATUS_OK;
}

static void shuffle(struct classifier *c, size_t *array, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)(random_unit(c) * (double)i), kept = array[i - 1];
        array[i - 1] = array[j];
        array[j] = kept;
    }
}

static int wanted_classes(const struct classifier *c) {
    int all = c->model->options.class_capacity;
    double by_count = (double)dataset_count(c->dataset) / c->options.particles_per_class;
    int least = all < 3 ? all : 3;
    return by_count < least ? least : by_count > all ? all : (int)by_count;
}

enum { SAMPLE = 2000 }; /* as many particles represent all */

static enum status judge_images(struct classifier *c, const size_t *which, size_t count, struct err *err) {
    const enum image_check_mode mode = (enum image_check_mode)c->options.normalise;
    bool changed;
    TRY(dataset_judge(c->dataset, which, count, mask_diameter(c), mode, &changed, err));
    if (changed) estep_forget_images(c->estep);
    return STATUS_OK;
}

/* Makes the first references: low-pass filtered averages of random subsets. */
static enum status seed(struct classifier *c, struct err *err) {
    struct model *m = c->model;
    size_t count = dataset_count(c->dataset);
    if (count > SAMPLE) count = SAMPLE;
    m->class_count = wanted_classes(c);
    TRY(reserve_indices(&c->order, &c->order_capacity, dataset_count(c->dataset), err));
    for (size_t i = 0; i < dataset_count(c->dataset); i++)
        c->order[i] = i;
    shuffle(c, c->order, dataset_count(c->dataset));
    int box = m->options.box;
    for (int k = 0; k < m->class_count; k++)
        TRY(model_set_map(m, k, 0, err));
    TRY(judge_images(c, c->order, count, err));
    TRY(seed_noise(m, c->dataset, c->order, count, err));
    /* The signal variance is unknown yet. Set to that of the noise, it gives averages half their weight. */
    for (int k = 0; k < m->class_count; k++)
        for (int s = 0; s <= box / 2; s++)
            m->classes[k].tau2[s] = m->sigma2[s];
    int angles = 2 * (int)ceil(360 / c->options.psi_step - 1e-6);
    TRY(seed_sums(m, c->dataset, c->order, count, angles, (unsigned)c->options.seed, err));
    int size = m->size;
    TRY(model_maximise(m, err));
    for (int k = 0; k < m->class_count; k++)
        TRY(model_set_map(m, k, first_shell(m), err));
    m->size = size;
    m->sigma_offset = 10 / m->options.pixel_size;
    c->order_count = c->order_next = 0;
    return STATUS_OK;
}

static size_t batch_size(const struct classifier *c) {
    size_t n = dataset_count(c->dataset), size = n / 3;
    size_t most = 20u * (size_t)c->model->class_count > 400 ? 20u * (size_t)c->model->class_count : 400;
    return size < 150 ? 150 : size > most ? most : size;
}

/* Chooses new particles first, then the next particles of the pass. A batch holds each particle once. */
static enum status choose_batch(struct classifier *c, bool everything, struct err *err) {
    size_t n = dataset_count(c->dataset);
    size_t size = everything ? n : batch_size(c);
    TRY(reserve_indices(&c->batch, &c->batch_capacity, size, err));
    TRY(reserve_indices(&c->order, &c->order_capacity, n, err));
    c->batch_count = c->batch_next = 0;
    if (everything) {
        for (size_t i = 0; i < n; i++)
            c->batch[c->batch_count++] = i;
        c->first_unseen = n;
        c->order_count = c->order_next = 0;
        return STATUS_OK;
    }
    while (c->first_unseen < n && c->batch_count < size)
        c->batch[c->batch_count++] = c->first_unseen++;
    size_t fresh = c->batch_count;
    if (fresh == size) return STATUS_OK;
    if (c->order_next >= c->order_count) {
        c->order_count = n;
        c->order_next = 0;
        for (size_t i = 0; i < n; i++)
            c->order[i] = i;
        shuffle(c, c->order, n);
    }
    size_t first_fresh = c->first_unseen - fresh;
    while (c->batch_count < size && c->order_next < c->order_count) {
        size_t index = c->order[c->order_next++];
        if (index < first_fresh) c->batch[c->batch_count++] = index;
    }
    return STATUS_OK;
}

/* Returns the fraction of the sums that stays when the batch is added. */
static double fade_factor(const struct classifier *c) {
    double n = (double)dataset_count(c->dataset), batch = (double)c->batch_count;
    if (c->updates == 0 || c->restored || batch >= n) return 0;
    double target = n * fmin(1, 0.4 + 0.06 * c->updates);
    return fmin(fmax(1 - batch / target, 0), 0.95);
}

/* Splits the largest class to add a class as particles come, or to replace a class with hardly any particles. */
static enum status renew_classes(struct classifier *c, struct err *err) {
    struct model *m = c->model;
    int wanted = wanted_classes(c);
    for (int done = 0; done < SPLITS_PER_UPDATE; done++) {
        int largest = 0, smallest = 0;
        for (int k = 1; k < m->class_count; k++) {
            if (model_fraction(m, k) > model_fraction(m, largest)) largest = k;
            if (model_fraction(m, k) < model_fraction(m, smallest)) smallest = k;
        }
        const struct model_class *big = &m->classes[largest];
        if (big->weight[0] + big->weight[1] < 16) return STATUS_OK;
        if (m->class_count < wanted)
            TRY(model_split(m, largest, m->class_count, err));
        else if (m->class_count > 1 && model_fraction(m, smallest) < 0.1 / m->class_count && smallest != largest)
            TRY(model_split(m, largest, smallest, err));
        else
            return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status reserve_sorted(struct classifier *c, struct err *err) {
    if (c->sorted_capacity >= c->batch_capacity) return STATUS_OK;
    mem_free(&c->sorted);
    c->sorted_capacity = 0;
    TRY(mem_new(c->batch_capacity, sizeof *c->sorted, "the order of particles", &c->sorted, err));
    c->sorted_capacity = c->batch_capacity;
    return STATUS_OK;
}

/* Returns the place of a particle's chunk in a batch. chunks: of each half. */
static size_t place_of(size_t particle, const size_t chunks[2]) {
    int half = estep_half(particle);
    return (half > 0 ? chunks[0] : 0) + estep_chunk(particle, chunks[half]);
}

/* Sorts particles of a batch by half, which are added one after the other, and each half by chunk. */
static enum status sort_particles(const struct classifier *c, const size_t *from, size_t count, size_t *ret_sorted,
                                  struct err *err) {
    const bool on_cpu = c->options.device.kind == DEVICE_CPU; /* a half is one chunk there */
    size_t halves[2] = {0};
    for (size_t i = 0; i < count; i++)
        halves[estep_half(from[i])]++;
    const size_t chunks[2] = {on_cpu ? 1 : estep_chunks(halves[0]), on_cpu ? 1 : estep_chunks(halves[1])};
    _cleanup_(mem_free) size_t *at = NULL; /* where chunks begin; where they end, once all particles are placed */
    TRY(mem_new(chunks[0] + chunks[1] + 1, sizeof *at, "chunks of particles", &at, err));
    for (size_t i = 0; i < count; i++)
        at[place_of(from[i], chunks) + 1]++;
    for (size_t k = 0; k < chunks[0] + chunks[1]; k++)
        at[k + 1] += at[k];
    for (size_t i = 0; i < count; i++)
        ret_sorted[at[place_of(from[i], chunks)]++] = from[i];
    return STATUS_OK;
}

static enum status sort_batch(struct classifier *c, struct err *err) {
    TRY(reserve_sorted(c, err));
    TRY(sort_particles(c, c->batch, c->batch_count, c->sorted, err));
    memcpy(c->batch, c->sorted, c->batch_count * sizeof *c->batch);
    return STATUS_OK;
}

/* Lists in next[most] the particles of the next batch as far as they are known: new ones first, as choose_batch does. */
static size_t list_next(const struct classifier *c, size_t most, size_t *next) {
    const size_t all = dataset_count(c->dataset);
    size_t n = 0;
    for (size_t i = c->first_unseen; i < all && n < most; i++)
        next[n++] = i;
    for (size_t i = c->order_next; i < c->order_count && n < most; i++)
        next[n++] = c->order[i];
    return n;
}

/* Foretells in c->sorted the batch that follows if no particles join: its images can be read while this batch is
 * compared. A wrong guess costs time only. */
static enum status foresee(struct classifier *c, struct err *err) {
    const size_t *next = c->batch;
    size_t n = c->final_done + 1 < c->options.final_passes ? c->batch_count : 0;
    c->next_count = 0;
    if (!c->batch_is_everything) { /* else as it is, in the next pass */
        const size_t size = batch_size(c), most = size < c->sorted_capacity ? size : c->sorted_capacity;
        TRY(reserve_indices(&c->known_next, &c->known_next_capacity, most, err));
        n = list_next(c, most, c->known_next);
        next = c->known_next;
    }
    if (n > c->sorted_capacity) n = c->sorted_capacity;
    TRY(sort_particles(c, next, n, c->sorted, err));
    c->next_count = n;
    return STATUS_OK;
}

static enum status open_batch(struct classifier *c, bool everything, struct err *err) {
    TRY(choose_batch(c, everything || c->restored, err));
    TRY(sort_batch(c, err));
    double factor = fade_factor(c);
    TRY(judge_images(c, c->batch, c->batch_count, err));
    if (c->updates == 0 || c->restored) TRY(estep_place(c->estep, c->model, err));
    /* estep_begin takes the priors over classes from the old sums, so that it comes before model_fade. */
    TRY(estep_begin(c->estep, c->model, everything ? 0 : random_unit(c) - 0.5, err));
    if (everything || c->pass_seen >= (double)dataset_count(c->dataset)) {
        c->pass = (struct estep_result){0};
        c->pass_seen = 0;
    }
    TRY(model_fade(c->model, factor, err));
    c->restored = false;
    return STATUS_OK;
}

/* Opens a batch wholly or not at all: if images are away for a while, the caller tries again. */
static enum status begin_batch(struct classifier *c, bool everything, struct err *err) {
    size_t unseen = c->first_unseen, next = c->order_next;
    enum status status = open_batch(c, everything, err);
    if (status == STATUS_OK) return STATUS_OK;
    c->batch_count = c->batch_next = 0;
    c->first_unseen = unseen;
    c->order_next = next;
    return status;
}

/* Measures the median of the norms and their spread, from the median distance to the median. An even sample of the
 * particles, which gives both to 2 %, keeps the time of an update from growing with the number of particles. */
static enum status measure_norms(struct classifier *c, struct err *err) {
    enum { MOST = 4096 };
    size_t n = dataset_count(c->dataset), every = n / MOST + 1, count = 0;
    _cleanup_(mem_free) float *norms = NULL;
    TRY(mem_new(n / every + 1, sizeof *norms, "norms of particles", &norms, err));
    for (size_t i = 0; i < n; i += every)
        if (dataset_at(c->dataset, i)->visits > 0 && !dataset_at(c->dataset, i)->unusable)
            norms[count++] = dataset_at(c->dataset, i)->norm;
    if (count < 20) return STATUS_OK;
    float median = quantile_rank(norms, count, count / 2);
    for (size_t i = 0; i < count; i++)
        norms[i] = fabsf(norms[i] - median);
    c->model->norm_median = median;
    /* 1.4826: from the median distance to the standard deviation of a Gaussian. */
    c->model->norm_spread = 1.4826 * quantile_rank(norms, count, count / 2);
    return STATUS_OK;
}

static enum status end_batch(struct classifier *c, bool everything, struct err *err) {
    TRY(estep_end(c->estep, c->model, err));
    TRY(model_maximise(c->model, err));
    c->updates++;
    c->model->empty_active = c->updates >= EMPTY_FROM_UPDATE;
    TRY(measure_norms(c, err));
    c->batch_count = c->batch_next = 0;
    if (c->pass_seen > 0) {
        c->last_changed = c->pass.changed / c->pass_seen;
        c->probability = c->pass.probability_sum / c->pass_seen;
    }
    if (everything) {
        c->final_done++;
        return STATUS_OK;
    }
    return renew_classes(c, err);
}

/* Tells the dataset which images come next, once for a batch if it can look at all of them. left: of the batch. */
static void expect(struct classifier *c, size_t left) {
    if (!c->expected) dataset_expect(c->dataset, c->batch + c->batch_next, left, c->sorted, c->next_count);
    c->expected = left + c->next_count <= AHEAD_MOST;
}

static bool settled(const struct classifier *c) {
    return c->final_done >= c->options.final_passes || (c->final_done >= 2 && c->last_changed < 0.03);
}

void classifier_review(struct classifier *c) {
    double n = (double)dataset_count(c->dataset);
    if (c->restored && c->visits >= c->options.visits * n) c->visits = c->options.visits * n - 1;
}

enum status classifier_step(struct classifier *c, bool final, struct classifier_progress *ret_progress,
                            struct err *err) {
    *ret_progress = (struct classifier_progress){0};
    size_t added = 0;
    TRY(dataset_merge(c->dataset, &added, err));
    size_t n = dataset_count(c->dataset);
    if (n == 0 || (c->model == NULL && !final && n < (size_t)c->options.minimum_particles)) return STATUS_OK;
    if (c->model == NULL) {
        TRY(classifier_start(c, err));
        TRY(seed(c, err));
        ret_progress->more = true;
        return STATUS_OK;
    }
    bool due = c->visits < c->options.visits * (double)n;
    bool everything = final && !due;
    if (c->batch_count == 0) {
        if ((!final && !due) || (everything && settled(c))) return STATUS_OK;
        TRY(begin_batch(c, everything, err));
        c->batch_is_everything = everything;
        c->expected = false;
        (void)foresee(c, NULL); /* without memory for it, images are read when they are needed */
    }
    size_t done = 0, left = c->batch_count - c->batch_next; /* 0: ending the batch failed before */
    if (left > 0) {
        expect(c, left);
        enum status status =
            estep_run(c->estep, c->model, c->dataset, c->batch + c->batch_next, left, &c->pass, &done, err);
        size_t lost = status != STATUS_OK ? estep_lost(c->estep) : 0;
        if (status != STATUS_OK) c->expected = false;
        c->batch_next -= lost;
        c->pass_seen -= (double)lost;
        c->visits -= (double)lost;
        TRY(status);
    }
    c->batch_next += done;
    c->pass_seen += (double)done;
    c->visits += (double)done;
    ret_progress->more = true;
    if (c->batch_next == c->batch_count) {
        TRY(end_batch(c, c->batch_is_everything, err));
        ret_progress->updated = true;
    }
    return STATUS_OK;
}
