/* Measures how long the computing thread of the classifier waits for images that memory does not hold.
 *
 *   bench_images FOLDER [IMAGES [STACKS [BOX [US [cold]]]]]
 *
 * IMAGES (200,000) of BOX (64) px lie in STACKS (2,000); FOLDER keeps them for the next call. They are asked for in
 * random order, in batches of 2,000, and each takes the computing thread US (20) µs, during which it uses no processor,
 * like one that waits for a GPU. Each row is a pass over all images; in the last two, images are kept in FOLDER/disk.
 * "cold" empties the system's cache of files before each (needs root). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "stages/classifier/dataset.h"

enum { BATCH = 2000, AT_A_TIME = 500 };

struct bench {
    const char *folder;
    int images, stacks, box;
    double seconds; /* of computing, per image */
    bool cold;
    size_t *order;
};

static enum status write_stack(const struct bench *b, int stack, struct image *image, struct err *err) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/stack%05d.mrcs", b->folder, stack);
    if (file_exists(path)) return STATUS_OK;
    for (size_t i = 0; i < image_count(image); i++)
        image->data[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return mrc_write(path, image, MRC_STACK, MRC_FLOAT32, err);
}

static enum status make(const struct bench *b, const char *star, struct err *err) {
    struct image image = {0};
    const int each = b->images / b->stacks;
    TRY(image_resize(&image, b->box, b->box, each, err));
    image.pixel_size = 2;
    enum status status = STATUS_OK;
    for (int s = 0; s < b->stacks && status == STATUS_OK; s++)
        status = write_stack(b, s, &image, err);
    image_destroy(&image);
    TRY(status);
    FILE *f = fopen(star, "w");
    FAIL_IF(f == NULL, err, STATUS_IO, "%s cannot be written", star);
    fprintf(f, "data_particles\n\nloop_\n_rlnImageName #1\n_rlnImagePixelSize #2\n");
    for (int s = 0; s < b->stacks; s++)
        for (int i = 1; i <= each; i++)
            fprintf(f, "%06d@stack%05d.mrcs 2\n", i, s);
    FAIL_IF(fclose(f) != 0, err, STATUS_IO, "%s cannot be written", star);
    return STATUS_OK;
}

static enum status resolve(void *context, const char *star_path, const char *name, char *absolute, struct err *err) {
    (void)star_path;
    return path_join(context, name, absolute, PATH_SIZE, err);
}

static void shuffle(struct bench *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        b->order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)rand() % i, kept = b->order[i - 1];
        b->order[i - 1] = b->order[j];
        b->order[j] = kept;
    }
}

/* Asks for all images as the E-step does. Returns how long that took without the computing. */
static enum status pass(const struct bench *b, struct dataset *d, float *space, double *ret_waited, struct err *err) {
    size_t count = dataset_count(d), pixels = (size_t)b->box * (size_t)b->box;
    *ret_waited = 0;
    for (size_t first = 0; first < count; first += AT_A_TIME) {
        size_t end = first - first % BATCH + BATCH, batch = end < count ? end : count;
        dataset_expect(d, b->order + first, batch - first, b->order + batch,
                       count - batch < BATCH ? count - batch : BATCH);
        double began = clock_monotonic();
        for (size_t i = first; i < first + AT_A_TIME && i < count; i++) {
            const float *image;
            TRY(dataset_image(d, b->order[i], space + (i - first) * pixels, &image, err));
        }
        *ret_waited += clock_monotonic() - began;
        clock_pause(b->seconds * AT_A_TIME);
    }
    return STATUS_OK;
}

static void drop_cache(const struct bench *b) {
    if (!b->cold) return;
    FILE *f = fopen("/proc/sys/vm/drop_caches", "w");
    if (f == NULL || fputs("1\n", f) < 0 || fclose(f) != 0) fprintf(stderr, "the cache cannot be emptied\n");
}

/* Reads all images twice. threads: that read ahead; 0: none. cache: NULL: none. */
static enum status measure(struct bench *b, char *star, int threads, struct shards *cache, struct err *err) {
    struct dataset *d = NULL;
    struct dataset_batch *batch = NULL;
    _cleanup_(mem_free) float *space = NULL;
    TRY(mem_new((size_t)AT_A_TIME * (size_t)b->box * (size_t)b->box, sizeof *space, "images", &space, err));
    TRY(dataset_create(0, &d, err));
    enum status status = dataset_batch_read(star, resolve, (void *)(uintptr_t)b->folder, NAN, false, &batch, err);
    if (status == STATUS_OK) status = dataset_submit(d, &batch, err);
    if (status == STATUS_OK) status = dataset_merge(d, NULL, err);
    if (status == STATUS_OK && threads > 0) status = dataset_read_ahead(d, threads, 128u << 20, cache, err);
    struct stack_reads before = {0};
    for (int i = 1; i <= 2 && status == STATUS_OK; i++) {
        struct stack_reads ahead, asked;
        double waited = 0;
        shuffle(b, dataset_count(d));
        drop_cache(b);
        double began = clock_monotonic();
        status = pass(b, d, space, &waited, err);
        dataset_reads(d, &ahead, &asked);
        const struct stack_reads sum = {ahead.opened + asked.opened, ahead.images + asked.images,
                                        ahead.cached + asked.cached};
        printf("| %d%s | %d | %.1f | %.1f | %zu | %zu | %zu |\n", threads, cache != NULL ? ", scratch" : "", i,
               clock_monotonic() - began, waited, sum.opened - before.opened, sum.images - before.images,
               sum.cached - before.cached);
        fflush(stdout);
        before = sum;
    }
    dataset_destroy(&d);
    return status;
}

static enum status bench(struct bench *b, struct err *err) {
    char star[PATH_SIZE];
    snprintf(star, sizeof star, "%s/images.star", b->folder);
    TRY(file_make_folders(b->folder, 0755, err));
    TRY(make(b, star, err));
    TRY(mem_new((size_t)b->images, sizeof *b->order, "the order of images", &b->order, err));
    printf("| threads that read ahead | pass | s | of these waiting for images | stacks opened | images read from "
           "stacks | from scratch |\n|---|---|---|---|---|---|---|\n");
    for (int threads = 0; threads <= 4; threads += threads < 2 ? 1 : 2)
        TRY(measure(b, star, threads, NULL, err));
    struct shards *cache = NULL;
    char disk[PATH_SIZE];
    snprintf(disk, sizeof disk, "%s/disk", b->folder);
    TRY(shards_open(disk, b->folder, 0, &cache, err));
    enum status status = measure(b, star, 4, cache, err);
    shards_close(&cache, true);
    return status;
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (argc < 2) {
        fprintf(stderr, "bench_images FOLDER [IMAGES [STACKS [BOX [US [cold]]]]]\n");
        return 2;
    }
    struct bench b = {.folder = argv[1],
                      .images = argc > 2 ? atoi(argv[2]) : 200000,
                      .stacks = argc > 3 ? atoi(argv[3]) : 2000,
                      .box = argc > 4 ? atoi(argv[4]) : 64,
                      .seconds = 1e-6 * (argc > 5 ? atof(argv[5]) : 20),
                      .cold = argc > 6 && strcmp(argv[6], "cold") == 0};
    srand(1);
    enum status status = b.images >= b.stacks && b.stacks > 0 && b.box > 7 ? bench(&b, &err) : STATUS_BAD_ARGUMENT;
    free(b.order);
    if (status == STATUS_OK) return 0;
    fprintf(stderr, "bench_images: %s\n", err.message);
    return 1;
}
