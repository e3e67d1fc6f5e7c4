#include "kernels/search/search.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/local_stats/local_stats.h"
#include "kernels/normalise/normalise.h"
#include "kernels/search/search_private.h"

struct search {
    struct search_options options;
    const struct search_work *work; /* for the kind of device */
    void *state;                    /* of the work */
};

/* Returns NULL for a CUDA device when the program was built without CUDA. */
static const struct search_work *work_on(const struct device *device) {
    if (device->kind == DEVICE_CPU) return &search_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &search_cuda_work;
#else
    return NULL;
#endif
}

static enum status check(const struct search_options *o, const float *templates, struct err *err) {
    FAIL_IF(o->size % 2 || o->work % 2 || o->work < 2 || o->work > o->size || o->nx < 1 || o->ny < 1 ||
                o->nx > o->size || o->ny > o->size || o->count < 1 || o->count > UINT16_MAX || o->rotations < 1 ||
                o->rotations > UINT16_MAX || o->box < 2 || o->box % 2 || o->box > o->size,
            err, STATUS_BAD_ARGUMENT,
            "a search of %d × %d px in a square of %d px at %d px with %d templates of %d px in %d rotations is not "
            "possible",
            o->nx, o->ny, o->size, o->work, o->count, o->box, o->rotations);
    for (int t = 0; t < o->count; t++) {
        double power = 0;
        for (int j = -o->box / 2; j < o->box / 2; j++)
            for (int i = -o->box / 2; i < o->box / 2; i++) {
                size_t at = ((size_t)t * o->box + j + o->box / 2) * o->box + i + o->box / 2;
                if (i * i + j * j < o->radius * o->radius) power += (double)templates[at] * templates[at];
            }
        FAIL_IF(!(power > 0), err, STATUS_BAD_ARGUMENT,
                "template %d is empty inside the particle's circle: leave it out of the stack", t + 1);
    }
    return STATUS_OK;
}

static enum status build(struct search *s, const float *templates, const struct search_tuning *tuning,
                         struct err *err) {
    TRY(check(&s->options, templates, err));
    s->work = work_on(&s->options.device);
    FAIL_IF(s->work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: a search can run on the CPU only");
    return s->work->create(&s->options, templates, tuning, &s->state, err);
}

enum status search_create_as(const struct search_options *options, const float *templates,
                             const struct search_tuning *tuning, struct search **ret_search, struct err *err) {
    struct search *s = NULL;
    TRY(mem_new(1, sizeof *s, "search", &s, err));
    s->options = *options;
    if (s->options.threads < 1) s->options.threads = 1;
    enum status status = build(s, templates, tuning, err);
    if (status != STATUS_OK) {
        search_destroy(&s);
        return status;
    }
    *ret_search = s;
    return STATUS_OK;
}

enum status search_create(const struct search_options *options, const float *templates, struct search **ret_search,
                          struct err *err) {
    const struct search_tuning fastest = {0};
    return search_create_as(options, templates, &fastest, ret_search, err);
}

void search_destroy(struct search **search) {
    if (!*search) return;
    if ((*search)->state) (*search)->work->destroy((*search)->state);
    mem_free(search);
}

void *search_state(struct search *search) {
    return search->state;
}

const struct search_options *search_options(const struct search *search) {
    return &search->options;
}

enum status search_run(struct search *search, const struct search_input *input, const struct ctf *ctf, uint64_t seed,
                       struct search_maps *maps, struct err *err) {
    TRY(search_maps_fit(search, maps, err));
    return search->work->run(search->state, input, ctf, seed, maps, err);
}

enum status search_maps_fit(const struct search *search, struct search_maps *maps, struct err *err) {
    const struct search_options *o = &search->options;
    return search_maps_shape(&o->device, o->work, o->count, o->per_template, maps, err);
}

/* Returns the next `bytes` of a block, aligned to cache lines; NULL while sizes are only measured. */
static void *take(char *block, size_t *used, size_t bytes) {
    void *part = block ? block + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return part;
}

/* Lays the maps out in `block`; returns the number of bytes they need. */
static size_t lay_out(struct search_maps *m, char *block) {
    size_t pixels = (size_t)m->work * m->work, used = 0, count = (size_t)m->count;
    m->image = take(block, &used, pixels * sizeof *m->image);
    m->mu = take(block, &used, pixels * sizeof *m->mu);
    m->sigma = take(block, &used, pixels * sizeof *m->sigma);
    m->score = take(block, &used, pixels * sizeof *m->score);
    m->best_template = take(block, &used, pixels * sizeof *m->best_template);
    m->best_rotation = take(block, &used, pixels * sizeof *m->best_rotation);
    m->terms = take(block, &used, count * sizeof *m->terms);
    m->scores = m->per_template ? take(block, &used, count * pixels * sizeof *m->scores) : NULL;
    m->rotations = m->per_template ? take(block, &used, count * pixels * sizeof *m->rotations) : NULL;
    return used;
}

enum status search_maps_shape(const struct device *device, int work, int count, bool per_template,
                              struct search_maps *maps, struct err *err) {
    bool same_device = maps->device.kind == device->kind && maps->device.index == device->index;
    if (maps->block && same_device && maps->work == work && maps->count == count && maps->per_template == per_template)
        return STATUS_OK;
    struct search_maps fresh = {.device = *device, .work = work, .count = count, .per_template = per_template};
    size_t bytes = lay_out(&fresh, NULL);
    if (maps->block && same_device && bytes <= maps->bytes) {
        fresh.block = maps->block;
        fresh.bytes = maps->bytes;
    } else {
        search_maps_clear(maps);
        TRY(device_host_new(device, bytes, 1, "picking maps", &fresh.block, err));
        fresh.bytes = bytes;
    }
    lay_out(&fresh, fresh.block);
    *maps = fresh;
    return STATUS_OK;
}

void search_maps_clear(struct search_maps *maps) {
    if (maps->block) device_host_free(&maps->device, &maps->block);
    *maps = (struct search_maps){0};
}

MULTIVERSION static void keep_best(const float *score, const uint16_t *rotation, uint16_t t, size_t count, float *best,
                                   uint16_t *template, uint16_t *turned) {
    for (size_t i = 0; i < count; i++) {
        int better = score[i] > best[i];
        best[i] = better ? score[i] : best[i];
        template[i] = better ? t : template[i];
        turned[i] = better ? rotation[i] : turned[i];
    }
}

void search_keep_best(const float *score, const uint16_t *rotation, int t, struct search_maps *maps) {
    size_t pixels = (size_t)maps->work * maps->work;
    if (t == 0) {
        memcpy(maps->score, score, pixels * sizeof *score);
        memcpy(maps->best_rotation, rotation, pixels * sizeof *rotation);
        memset(maps->best_template, 0, pixels * sizeof *maps->best_template);
    } else
        keep_best(score, rotation, (uint16_t)t, pixels, maps->score, maps->best_template, maps->best_rotation);
}

void search_maps_combine(struct search_maps *maps) {
    size_t pixels = (size_t)maps->work * maps->work;
    for (int t = 0; t < maps->count; t++)
        search_keep_best(maps->scores + t * pixels, maps->rotations + t * pixels, t, maps);
}

float search_noise(const struct search_options *options, int rings, const double *power, const double *count) {
    double least = INFINITY, pixels = (double)options->size * options->size;
    for (int ring = 0; ring < rings; ring++)
        if (count[ring] >= SEARCH_RING_COEFFICIENTS) least = fmin(least, power[ring] / count[ring] / pixels);
    return isfinite(least) ? (float)sqrt(least / circle_count(options->box, options->radius)) : 0;
}

struct template_spectra_options search_spectra_options(const struct search_options *o, size_t memory_limit) {
    return (struct template_spectra_options){.size = o->size,
                                             .work = o->work,
                                             .band = o->band,
                                             .box = o->box,
                                             .radius = o->radius,
                                             .count = o->count,
                                             .rotations = o->rotations,
                                             .invert = o->invert,
                                             .memory_limit = memory_limit,
                                             .threads = o->threads};
}

struct whiten_options search_whiten_options(const struct search_options *o) {
    double scale = (double)o->work / o->size;
    int x = normalise_offset(o->size, o->nx), y = normalise_offset(o->size, o->ny);
    return (struct whiten_options){.size = o->size,
                                   .work = o->work,
                                   .x0 = (int)ceil(x * scale),
                                   .y0 = (int)ceil(y * scale),
                                   .x1 = (int)floor((x + o->nx) * scale),
                                   .y1 = (int)floor((y + o->ny) * scale),
                                   .diameter = 2 * o->radius * scale};
}
