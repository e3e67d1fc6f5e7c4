/* Images on a CUDA device. Some stay there from iteration to iteration; the others are copied each time. All come by
 * way of 32 MiB of page-locked memory. */
#include <limits.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/alignment/cuda/alignment_private.h"

static size_t image_bytes(const struct alignment_cuda *a) {
    return (size_t)a->options.box * (size_t)a->options.box * sizeof(float);
}

enum status alignment_cuda_images_create(struct alignment_cuda *a, struct err *err) {
    enum { STAGE_BYTES = 16 << 20 };
    struct alignment_cuda_stages *s = &a->stages;
    const size_t each = image_bytes(a), fit = STAGE_BYTES / each;
    s->most = fit > ALIGNMENT_PARTICLES_MOST ? ALIGNMENT_PARTICLES_MOST : fit > 1 ? (int)fit : 1;
    TRY(mem_new(ALIGNMENT_PARTICLES_MOST, sizeof *s->order, "images of a batch", &s->order, err));
    return device_host_new(&a->options.device, STREAM_STAGES * (size_t)s->most, each, "images on their way", &s->block,
                           err);
}

static enum status number_images(struct alignment_cuda_images *images, int count, struct err *err) {
    int *entries = NULL;
    if (count <= images->count) return STATUS_OK;
    /* In a stream, each batch brings a few more images: grow by doubling. */
    if (count < INT_MAX / 2 && count < 2 * images->count) count = 2 * images->count;
    TRY(mem_new_unset((size_t)count, sizeof *entries, "images that stay on the device", &entries, err));
    for (int i = 0; i < count; i++)
        entries[i] = i < images->count ? images->entries[i] : -1;
    mem_free(&images->entries);
    images->entries = entries;
    images->count = count;
    return STATUS_OK;
}

enum status alignment_cuda_keep_images(struct alignment *alignment, int count, size_t most_bytes, struct err *err) {
    struct alignment_cuda *a = alignment->cuda;
    struct alignment_cuda_images *images = &a->images;
    size_t each = image_bytes(a), want = (size_t)(count > 0 ? count : 0), more;
    char *at = NULL;
    arena_close(a->arena, ARENA_ITERATION);
    if (want > most_bytes / each) want = most_bytes / each;
    TRY(number_images(images, count, err));
    if (want <= (size_t)images->room) return STATUS_OK;
    more = arena_need(want, each) - images->bytes;
    TRY(arena_keep(a->arena, more, "images that stay on the device", &at, err));
    if (images->end == NULL) images->end = at + more;
    images->bytes += more;
    images->room = (int)want;
    return STATUS_OK;
}

static void forget(struct alignment_cuda_images *images) {
    for (int i = 0; i < images->count; i++)
        images->entries[i] = -1;
    images->used = 0;
}

void alignment_cuda_forget_images(struct alignment *alignment) {
    forget(&alignment->cuda->images);
}

void alignment_cuda_images_destroy(struct alignment_cuda *a) {
    mem_free(&a->images.entries);
    mem_free(&a->stages.order);
    device_host_free(&a->options.device, &a->stages.block);
}

static int *entry_of(const struct alignment_cuda_images *images, int number) {
    return number > 0 && number <= images->count ? &images->entries[number - 1] : NULL;
}

static bool keeps(const struct alignment_cuda_images *images, int number) {
    const int *entry = entry_of(images, number);
    return entry != NULL && *entry >= 0;
}

bool alignment_cuda_keeps_image(const struct alignment *alignment, int number) {
    return keeps(&alignment->cuda->images, number);
}

int alignment_cuda_image_room(const struct alignment *alignment) {
    return alignment->cuda->images.room - alignment->cuda->images.used;
}

/* Chooses entries for as many images as there is room for, and lists the images to copy: first those that stay, the
 * last entry before the others, as they lie on the device. Returns how many stay. */
static int choose(struct alignment_cuda_images *images, const struct alignment_particle *particles, int count,
                  int *order, int *ret_all) {
    const int before = images->used;
    for (int i = 0; i < count; i++) {
        int *entry = entry_of(images, particles[i].number);
        if (entry != NULL && *entry < 0 && images->used < images->room) *entry = images->used++;
    }
    const int kept = images->used - before;
    int all = kept;
    for (int i = 0; i < count; i++) {
        const int *entry = entry_of(images, particles[i].number);
        if (entry == NULL || *entry < 0)
            order[all++] = i;
        else if (*entry >= before)
            order[images->used - 1 - *entry] = i;
    }
    *ret_all = all;
    return kept;
}

static char *place_of(const struct alignment_cuda_images *images, int entry, size_t each) {
    return images->end - ((size_t)entry + 1) * each;
}

/* Copies `count` images, which will lie side by side on the device. COPYING of the threads copy, as fast as the device
 * takes images; the others are in the team because it keeps its size. */
enum { COPYING = 8 };
static enum status send(struct alignment_cuda *a, const struct alignment_particle *particles, const int *order,
                        int count, int slot, char *to, int threads, struct err *err) {
    struct alignment_cuda_stages *s = &a->stages;
    const size_t each = image_bytes(a);
    const int stage = s->next;
    char *from = s->block + (size_t)stage * (size_t)s->most * each;
    TRY(stream_cuda_stage_free(a->stream, stage, err));
#pragma omp parallel for num_threads(threads) schedule(static, (count + COPYING - 1) / COPYING)
    for (int i = 0; i < count; i++)
        memcpy(from + (size_t)i * each, particles[order[i]].image, each);
    TRY(stream_cuda_bring(a->stream, slot, to, from, (size_t)count * each, err));
    s->next = (stage + 1) % STREAM_STAGES;
    return stream_cuda_stage_sent(a->stream, stage, err);
}

/* Copies the first `all` of the listed images. The first `kept` ones stay. */
static enum status send_all(struct alignment_cuda *a, const struct alignment_particle *particles, int kept, int all,
                            int slot, int threads, struct err *err) {
    const struct alignment_cuda_images *images = &a->images;
    const size_t each = image_bytes(a);
    for (int first = 0, count; first < all; first += count) {
        const int end = first < kept ? kept : all;
        char *to = first < kept ? place_of(images, images->used - 1 - first, each)
                                : (char *)a->device[slot].images + (size_t)first * each;
        count = end - first < a->stages.most ? end - first : a->stages.most;
        TRY(send(a, particles, a->stages.order + first, count, slot, to, threads, err));
    }
    return STATUS_OK;
}

enum status alignment_cuda_images_bring(struct alignment_cuda *a, const struct alignment_particle *particles, int count,
                                        int slot, int threads, struct err *err) {
    struct alignment_cuda_images *images = &a->images;
    struct prepare_particle_cuda *which = a->host[slot].which;
    const char *to = (const char *)a->device[slot].images;
    const size_t each = image_bytes(a);
    for (int i = 0; i < count; i++)
        FAIL_IF(particles[i].image == NULL && !keeps(images, particles[i].number), err, STATUS_BAD_STATE,
                "image %d is not on the device any more", particles[i].number);
    int all = 0;
    const int kept = choose(images, particles, count, a->stages.order, &all);
    for (int i = 0; i < count; i++)
        if (keeps(images, particles[i].number))
            which[i].image =
                (const float *)(const void *)place_of(images, *entry_of(images, particles[i].number), each);
    for (int k = kept; k < all; k++)
        which[a->stages.order[k]].image = (const float *)(const void *)(to + (size_t)k * each);
    const enum status status = send_all(a, particles, kept, all, slot, threads, err);
    /* Images that were not sent are not on the device. */
    if (status != STATUS_OK) forget(images);
    return status;
}

enum status alignment_cuda_bring(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct err *err) {
    struct alignment_cuda *a = alignment->cuda;
    enum status status = stream_cuda_adopt(a->stream, err);
    for (int first = 0, part; first < count && status == STATUS_OK; first += part) {
        int all = 0;
        part = count - first < ALIGNMENT_PARTICLES_MOST ? count - first : ALIGNMENT_PARTICLES_MOST;
        const int kept = choose(&a->images, particles + first, part, a->stages.order, &all);
        status = send_all(a, particles + first, kept, kept, 0, a->options.threads, err);
    }
    if (status != STATUS_OK) forget(&a->images);
    return status;
}
