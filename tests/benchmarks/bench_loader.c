/* Measures how fast the refiner reads images of particles, in batches, as its first iterations do.
 *
 *   bench_loader FOLDER [IMAGES [BOX [THREADS [BATCH]]]]
 *
 * IMAGES (8,000) of BOX (360) px lie in stacks of 1,000, as 16-bit floats; FOLDER keeps them for the next call. They
 * are read by THREADS (all) in batches of BATCH (1,024), in the order of their files: once into memory that keeps them,
 * once into memory of the batch. Prints the time of each pass, of an image, and GB/s of what the files hold. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "stages/refiner/loader.h"

enum { EACH = 1000 };

struct bench {
    const char *folder;
    int images, box, threads, batch;
    int *order;
};

static enum status write_stacks(const struct bench *b, struct err *err) {
    struct image image = {0};
    unsigned random = 1;
    TRY(image_resize(&image, b->box, b->box, EACH, err));
    image.pixel_size = 2;
    enum status status = STATUS_OK;
    for (int s = 0; s * EACH < b->images && status == STATUS_OK; s++) {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%s/stack%04d.mrcs", b->folder, s);
        if (file_exists(path)) continue;
        for (size_t i = 0; i < image_count(&image); i++, random = random * 1664525u + 1013904223u)
            image.data[i] = (float)(random >> 8) / (1 << 24) - 0.5f;
        status = mrc_write(path, &image, MRC_STACK, MRC_FLOAT16, err);
    }
    image_destroy(&image);
    return status;
}

static enum status open_set(const struct bench *b, struct particle_set *set, size_t kept, struct err *err) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    particle_set_init(set, 1, kept, 2);
    snprintf(path, sizeof path, "%s/particles.star", b->folder);
    FILE *f = fopen(path, "w");
    FAIL_IF(f == NULL, err, STATUS_IO, "%s cannot be written", path);
    fprintf(f, "data_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnImagePixelSize #2\n1 2\n\n"
               "data_particles\n\nloop_\n_rlnImageName #1\n_rlnOpticsGroup #2\n");
    for (int i = 0; i < b->images; i++)
        fprintf(f, "%06d@stack%04d.mrcs 1\n", i % EACH + 1, i / EACH);
    FAIL_IF(fclose(f) != 0, err, STATUS_IO, "%s cannot be written", path);
    TRY(star_read(path, &file, err));
    return particle_set_merge(set, &file, path, false, NULL, err);
}

/* Reads all images once, each batch while the one before it is in use. */
static enum status pass(const struct bench *b, struct loader *loader, const char *what, struct err *err) {
    double start = clock_monotonic(), sum = 0;
    for (int first = 0, count; first < b->images; first += count) {
        const float *const *images = NULL;
        count = b->images - first < b->batch ? b->images - first : b->batch;
        TRY(loader_take(loader, NULL, b->order + first, count, &images, err));
        const int next = b->images - first - count < b->batch ? b->images - first - count : b->batch;
        if (next > 0) loader_begin(loader, NULL, b->order + first + count, next);
        sum += images[0][0];
    }
    double seconds = clock_monotonic() - start, bytes = 2.0 * b->box * b->box * b->images;
    printf("%-28s %6.2f s, %.3f ms an image, %.2f GB/s of files%s\n", what, seconds, 1e3 * seconds / b->images,
           bytes / seconds / 1e9, isnan(sum) ? " (not a number)" : "");
    return STATUS_OK;
}

static enum status measure(const struct bench *b, size_t kept, const char *first, const char *second, struct err *err) {
    struct particle_set set;
    struct loader *loader = NULL;
    enum status status = open_set(b, &set, kept, err);
    if (status == STATUS_OK) status = loader_create(&set, b->threads, NULL, &loader, err);
    if (status == STATUS_OK) status = pass(b, loader, first, err);
    if (status == STATUS_OK) status = pass(b, loader, second, err);
    loader_destroy(&loader);
    particle_set_destroy(&set);
    return status;
}

static enum status run(struct bench *b, struct err *err) {
    TRY(file_make_folders(b->folder, 0755, err));
    TRY(write_stacks(b, err));
    TRY(mem_new((size_t)b->images, sizeof *b->order, "the order of images", &b->order, err));
    for (int i = 0; i < b->images; i++)
        b->order[i] = i;
    TRY(measure(b, 0, "not kept, first pass", "not kept, second pass", err));
    return measure(b, SIZE_MAX / 2, "kept, first pass", "kept, from memory", err);
}

static int number(int argc, char **argv, int at, int usual) {
    return argc > at ? atoi(argv[at]) : usual;
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: bench_loader FOLDER [IMAGES [BOX [THREADS [BATCH]]]]\n");
        return EXIT_FAILURE;
    }
    struct bench b = {.folder = argv[1],
                      .images = number(argc, argv, 2, 8000),
                      .box = number(argc, argv, 3, 360),
                      .threads = number(argc, argv, 4, (int)sysconf(_SC_NPROCESSORS_ONLN)),
                      .batch = number(argc, argv, 5, 1024)};
    enum status status = run(&b, &err);
    if (status != STATUS_OK) fprintf(stderr, "bench_loader: %s\n", err.message);
    mem_free(&b.order);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
