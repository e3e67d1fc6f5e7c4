/* Images on a CUDA device. Some stay there from iteration to iteration; the others are copied each time. */
#include <limits.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/alignment/cuda/alignment_private.h"

static size_t image_bytes(const struct alignment_cuda *a) {
    return (size_t)a->options.box * (size_t)a->options.box * sizeof(float);
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
    if (want <= (size_t)images->room) return STATUS_OK;
    TRY(number_images(images, count, err));
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
    for (int slot = 0; slot < STREAM_SLOTS; slot++)
        mem_free(&a->staged[slot]);
}

static int *entry_of(const struct alignment_cuda_images *images, int number) {
    return number > 0 && number <= images->count ? &images->entries[number - 1] : NULL;
}

bool alignment_cuda_keeps_image(const struct alignment *alignment, int number) {
    const int *entry = entry_of(&alignment->cuda->images, number);
    return entry != NULL && *entry >= 0;
}

/* Chooses entries for as many images as there is room for. Returns how many are new. Their images come first among the
 * staged ones, the last entry before the others, as they lie on the device. */
static int choose(struct alignment_cuda_images *images, const struct alignment_particle *particles, int count,
                  int *staged, int *ret_all) {
    int before = images->used, more = 0;
    for (int i = 0; i < count; i++) {
        int *entry = entry_of(images, particles[i].number);
        staged[i] = -1;
        if (entry != NULL && *entry >= 0) continue;
        staged[i] = 0;
        if (entry != NULL && images->used < images->room)
            *entry = images->used++;
        else
            more++;
    }
    int kept = images->used - before, place = kept;
    for (int i = 0; i < count; i++) {
        const int *entry = entry_of(images, particles[i].number);
        if (staged[i] < 0) continue;
        staged[i] = entry != NULL && *entry >= 0 ? kept - 1 - (*entry - before) : place++;
    }
    *ret_all = kept + more;
    return kept;
}

static char *place_of(const struct alignment_cuda_images *images, int entry, size_t each) {
    return images->end - ((size_t)entry + 1) * each;
}

static enum status send(struct alignment_cuda *a, int slot, int kept, int all, struct err *err) {
    const struct alignment_cuda_images *images = &a->images;
    size_t each = image_bytes(a), first = (size_t)kept, rest = (size_t)(all - kept);
    const char *from = (const char *)a->host[slot].images;
    char *to = (char *)a->device[slot].images;
    if (first > 0)
        TRY(stream_cuda_bring(a->stream, slot, place_of(images, images->used - 1, each), from, first * each, err));
    if (rest == 0) return STATUS_OK;
    return stream_cuda_bring(a->stream, slot, to + first * each, from + first * each, rest * each, err);
}

enum status alignment_cuda_images_bring(struct alignment_cuda *a, const struct alignment_particle *particles, int count,
                                        int slot, int threads, struct err *err) {
    struct alignment_cuda_images *images = &a->images;
    const struct alignment_cuda_slot *from = &a->host[slot], *to = &a->device[slot];
    size_t each = image_bytes(a);
    for (int i = 0; i < count; i++) {
        const int *entry = entry_of(images, particles[i].number);
        FAIL_IF(particles[i].image == NULL && (entry == NULL || *entry < 0), err, STATUS_BAD_STATE,
                "image %d is not on the device any more", particles[i].number);
    }
    int all = 0, *staged = a->staged[slot], kept = choose(images, particles, count, staged, &all);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < count; i++) {
        const int *entry = entry_of(images, particles[i].number);
        const char *place = (const char *)to->images + (size_t)(staged[i] > 0 ? staged[i] : 0) * each;
        if (entry != NULL && *entry >= 0) place = place_of(images, *entry, each);
        from->which[i].image = (const float *)(const void *)place;
        if (staged[i] >= 0) memcpy((char *)from->images + (size_t)staged[i] * each, particles[i].image, each);
    }
    enum status status = send(a, slot, kept, all, err);
    /* Images that were not sent are not on the device. */
    if (status != STATUS_OK) forget(images);
    return status;
}
