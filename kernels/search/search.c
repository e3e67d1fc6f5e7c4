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
    struct search_cpu *cpu;
    struct search_cuda *cuda;
};

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

static enum status build(struct search *s, const float *templates, struct err *err) {
    TRY(check(&s->options, templates, err));
    if (s->options.device.kind == DEVICE_CPU) return search_cpu_create(&s->options, templates, &s->cpu, err);
#ifdef ICESTREAM_HAVE_CUDA
    return search_cuda_create(&s->options, templates, &s->cuda, err);
#else
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA: a search can run on the CPU only");
#endif
}

enum status search_create(const struct search_options *options, const float *templates, struct search **ret_search,
                          struct err *err) {
    struct search *s = NULL;
    TRY(mem_new(1, sizeof *s, "search", &s, err));
    s->options = *options;
    enum status status = build(s, templates, err);
    if (status != STATUS_OK) {
        search_destroy(&s);
        return status;
    }
    *ret_search = s;
    return STATUS_OK;
}

void search_destroy(struct search **search) {
    if (!*search) return;
    search_cpu_destroy(&(*search)->cpu);
#ifdef ICESTREAM_HAVE_CUDA
    search_cuda_destroy(&(*search)->cuda);
#endif
    mem_free(search);
}

const struct search_options *search_options(const struct search *search) {
    return &search->options;
}

enum status search_run(struct search *search, const struct search_input *input, const struct ctf *ctf, uint64_t seed,
                       struct search_maps *maps, struct err *err) {
    TRY(search_maps_fit(search, maps, err));
#ifdef ICESTREAM_HAVE_CUDA
    if (search->cuda) return search_cuda_run(search->cuda, input, ctf, seed, maps, err);
#endif
    return search_cpu_run(search->cpu, input->host, ctf, seed, maps, err);
}

enum status search_maps_fit(const struct search *search, struct search_maps *maps, struct err *err) {
    const struct search_options *o = &search->options;
    return search_maps_shape(&o->device, o->work, o->count, o->per_template, maps, err);
}

/* The next `bytes` of a block that is being handed out, aligned to cache lines; NULL while it is only measured. */
static void *take(char *block, size_t *used, size_t bytes) {
    void *part = block ? block + *used : NULL;
    *used += (bytes + 63) / 64 * 64;
    return part;
}

/* Lays the maps out in `block`; how many bytes they need. */
static size_t lay_out(struct search_maps *m, char *block) {
    size_t pixels = (size_t)m->work * m->work, used = 0, count = (size_t)m->count;
    m->image = take(block, &used, pixels * sizeof *m->image);
    m->mu = take(block, &used, pixels * sizeof *m->mu);
    m->sigma = take(block, &used, pixels * sizeof *m->sigma);
    m->score = take(block, &used, pixels * sizeof *m->score);
    m->template = take(block, &used, pixels * sizeof *m->template);
    m->rotation = take(block, &used, pixels * sizeof *m->rotation);
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
        memcpy(maps->rotation, rotation, pixels * sizeof *rotation);
        memset(maps->template, 0, pixels * sizeof *maps->template);
    } else
        keep_best(score, rotation, (uint16_t)t, pixels, maps->score, maps->template, maps->rotation);
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
