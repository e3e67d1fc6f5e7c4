/* Images of particles are the same whether they are kept in memory, read ahead, or read when asked for. Images that a
 * device keeps are not read. An error in a stack is reported when its images are taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "stages/refiner/loader.h"
#include "tests/common/scratch.h"

enum { BOX = 16, PIXELS = BOX * BOX, STACKS = 3, EACH = 40, ALL = STACKS * EACH, KEPT = 30, BATCH = 32 };

static float value(int stack, int slice, int pixel) {
    return (float)(1000 * stack + slice) + (float)pixel / PIXELS;
}

static void write_stack(const char *folder, int stack) {
    static float data[EACH * PIXELS];
    char path[PATH_SIZE + 64];
    const struct image images = {.nx = BOX, .ny = BOX, .nz = EACH, .pixel_size = 2, .data = data};
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < PIXELS; j++)
            data[i * PIXELS + j] = value(stack, i, j);
    snprintf(path, sizeof path, "%s/s%d.mrcs", folder, stack);
    assert_int_equal(mrc_write(path, &images, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
}

/* The rows take turns between the stacks. */
static void merge(struct particle_set *set, const char *folder) {
    char path[PATH_SIZE + 64];
    struct star_file *file = NULL;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/particles.star", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnImagePixelSize #2\n1 2\n\n"
               "data_particles\n\nloop_\n_rlnImageName #1\n_rlnOpticsGroup #2\n");
    for (int i = 0; i < ALL; i++)
        fprintf(f, "%06d@s%d.mrcs 1\n", i / STACKS + 1, i % STACKS);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    if (particle_set_merge(set, &file, path, false, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
}

static void open_set(const char *name, char folder[PATH_SIZE], struct particle_set *set, size_t kept) {
    scratch_path(name, folder);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    for (int stack = 0; stack < STACKS; stack++)
        write_stack(folder, stack);
    particle_set_init(set, 1, kept * PIXELS * sizeof(float), 2);
    merge(set, folder);
    assert_int_equal(set->count, ALL);
}

static void assert_images(const struct particle_set *set, const int *indices, int count, const float *const *images) {
    for (int i = 0; i < count; i++) {
        const struct particle *p = &set->particles[indices[i]];
        for (int j = 0; j < PIXELS; j++)
            assert_true(images[i][j] == value(indices[i] % STACKS, p->slice, j));
    }
}

static void images_are_the_same_however_they_come(void **state) {
    (void)state;
    char folder[PATH_SIZE];
    struct particle_set set;
    struct loader *loader = NULL;
    int order[ALL];
    open_set("loader", folder, &set, KEPT);
    for (int i = 0; i < ALL; i++)
        order[i] = 7 * i % ALL;
    for (int threads = 1; threads <= 3; threads += 2) {
        assert_int_equal(loader_create(&set, threads, NULL, &loader, NULL), STATUS_OK);
        /* 0: read when taken; 1: read ahead; 2: other images are read ahead than are taken */
        for (int how = 0; how < 3; how++)
            for (int first = 0, count; first < ALL; first += count) {
                const float *const *images;
                count = ALL - first < BATCH ? ALL - first : BATCH;
                if (how == 1 && first == 0) loader_begin(loader, NULL, order, count);
                assert_int_equal(loader_take(loader, NULL, order + first, count, &images, NULL), STATUS_OK);
                int left = ALL - first - count, next = left < BATCH ? left : BATCH;
                if (how > 0 && next > 0) loader_begin(loader, NULL, order + first + (how == 1 ? count : 1), next);
                /* The earlier batch stays as it is while the next one is read. */
                if (how > 0) usleep(2000);
                assert_images(&set, order + first, count, images);
                assert_true(set.cached_bytes <= set.cache_limit);
            }
        loader_stop(loader);
        assert_int_equal(set.cached_bytes, KEPT * PIXELS * sizeof(float));
        loader_destroy(&loader);
    }
    particle_set_destroy(&set);
}

/* Each image is read from its stack once. Then it comes from memory or from the cache, also in the next run. */
static void images_come_from_the_cache(void **state) {
    (void)state;
    char folder[PATH_SIZE], disk[PATH_SIZE + 8];
    struct particle_set set;
    int order[ALL];
    open_set("loader_cache", folder, &set, KEPT);
    snprintf(disk, sizeof disk, "%s/disk", folder);
    for (int i = 0; i < ALL; i++)
        order[i] = 7 * i % ALL;
    for (int run = 0; run < 2; run++) {
        struct loader *loader = NULL;
        struct shards *cache = NULL;
        assert_int_equal(shards_open(disk, folder, 0, &cache, NULL), STATUS_OK);
        assert_int_equal(loader_create(&set, 3, cache, &loader, NULL), STATUS_OK);
        for (int pass = 0; pass < 3; pass++)
            for (int first = 0; first < ALL; first += BATCH) {
                const float *const *images;
                int count = ALL - first < BATCH ? ALL - first : BATCH;
                int left = ALL - first - count, next = left < BATCH ? left : BATCH;
                assert_int_equal(loader_take(loader, NULL, order + first, count, &images, NULL), STATUS_OK);
                if (next > 0) loader_begin(loader, NULL, order + first + count, next);
                assert_images(&set, order + first, count, images);
            }
        loader_stop(loader);
        struct stack_reads reads = loader_reads(loader);
        assert_int_equal(reads.images, run == 0 ? ALL : 0);
        assert_int_equal(reads.cached, run == 0 ? 2 * (ALL - KEPT) : 3 * (ALL - KEPT));
        loader_destroy(&loader);
        shards_close(&cache, run == 1);
    }
    particle_set_destroy(&set);
}

/* Stands for a device that keeps images with even numbers. */
bool __wrap_alignment_keeps_image(const struct alignment *alignment, int number, int chunk);
bool __wrap_alignment_keeps_image(const struct alignment *alignment, int number, int chunk) {
    assert_non_null(alignment);
    assert_int_equal(chunk, 0);
    return number % 2 == 0;
}

/* Memory keeps none of the images that pass through it, whether they are read ahead or when they are taken. */
static void images_pass_through(void **state) {
    (void)state;
    char folder[PATH_SIZE];
    struct particle_set set;
    struct loader *loader = NULL;
    const float *const *images;
    int indices[ALL];
    open_set("loader_through", folder, &set, ALL);
    for (int i = 0; i < ALL; i++)
        indices[i] = i;
    assert_int_equal(loader_create(&set, 2, NULL, &loader, NULL), STATUS_OK);
    loader_pass(loader, true);
    for (int ahead = 0; ahead < 2; ahead++) {
        if (ahead) loader_begin(loader, NULL, indices, ALL);
        assert_int_equal(loader_take(loader, NULL, indices, ALL, &images, NULL), STATUS_OK);
        assert_images(&set, indices, ALL, images);
        assert_int_equal(set.cached_bytes, 0);
    }
    /* The loader reads images again that it has read ahead to pass through, if they are to stay. */
    loader_begin(loader, NULL, indices, ALL);
    loader_pass(loader, false);
    assert_int_equal(loader_take(loader, NULL, indices, KEPT, &images, NULL), STATUS_OK);
    assert_int_equal(set.cached_bytes, KEPT * PIXELS * sizeof(float));
    /* Images in memory stay there. */
    loader_pass(loader, true);
    assert_int_equal(loader_take(loader, NULL, indices, ALL, &images, NULL), STATUS_OK);
    assert_images(&set, indices, ALL, images);
    assert_int_equal(set.cached_bytes, KEPT * PIXELS * sizeof(float));
    loader_destroy(&loader);
    particle_set_destroy(&set);
}

/* The stack that is missing would be noticed. Whoever does not ask for the device's images gets all. */
static void images_on_the_device_are_not_read(void **state) {
    (void)state;
    char folder[PATH_SIZE];
    struct particle_set set;
    struct loader *loader = NULL;
    const struct alignment *device = (const struct alignment *)(const void *)folder;
    const float *const *images;
    int indices[ALL], odd[ALL], count = 0;
    open_set("loader_elsewhere", folder, &set, 0);
    for (int i = 0; i < ALL; i++)
        indices[i] = i;
    assert_int_equal(loader_create(&set, 2, NULL, &loader, NULL), STATUS_OK);
    for (int ahead = 0; ahead < 2; ahead++) {
        if (ahead) loader_begin(loader, device, indices, ALL);
        assert_int_equal(loader_take(loader, device, indices, ALL, &images, NULL), STATUS_OK);
        for (int i = 0; i < ALL; i++)
            if (i % 2 == 1)
                assert_null(images[i]);
            else
                assert_images(&set, indices + i, 1, images + i);
    }
    loader_begin(loader, device, indices, ALL);
    assert_int_equal(loader_take(loader, NULL, indices, ALL, &images, NULL), STATUS_OK);
    assert_images(&set, indices, ALL, images);
    for (int i = 1; i < ALL; i += 2)
        odd[count++] = i;
    for (int stack = 0; stack < STACKS; stack++) {
        char path[PATH_SIZE + 64];
        snprintf(path, sizeof path, "%s/s%d.mrcs", folder, stack);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(loader_take(loader, device, odd, count, &images, NULL), STATUS_OK);
    assert_int_not_equal(loader_take(loader, NULL, odd, count, &images, NULL), STATUS_OK);
    loader_destroy(&loader);
    particle_set_destroy(&set);
}

static void a_broken_stack_is_told_of_when_it_is_taken(void **state) {
    (void)state;
    char folder[PATH_SIZE], path[PATH_SIZE + 64];
    struct particle_set set;
    struct loader *loader = NULL;
    struct err err = {0};
    const float *const *images;
    int indices[ALL];
    open_set("loader_broken", folder, &set, ALL);
    for (int i = 0; i < ALL; i++)
        indices[i] = i;
    snprintf(path, sizeof path, "%s/s1.mrcs", folder);
    assert_int_equal(truncate(path, 3000), 0);
    assert_int_equal(loader_create(&set, 2, NULL, &loader, NULL), STATUS_OK);
    for (int ahead = 0; ahead < 2; ahead++) {
        if (ahead) loader_begin(loader, NULL, indices, ALL);
        assert_int_not_equal(loader_take(loader, NULL, indices, ALL, &images, &err), STATUS_OK);
        assert_non_null(strstr(err.message, "s1.mrcs"));
        assert_int_equal(set.cached_bytes, 0);
    }
    /* The stack serves once it is complete again. */
    write_stack(folder, 1);
    assert_int_equal(loader_take(loader, NULL, indices, ALL, &images, &err), STATUS_OK);
    assert_images(&set, indices, ALL, images);
    loader_destroy(&loader);
    particle_set_destroy(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_come_from_the_cache),
        cmocka_unit_test(images_are_the_same_however_they_come),
        cmocka_unit_test(images_pass_through),
        cmocka_unit_test(images_on_the_device_are_not_read),
        cmocka_unit_test(a_broken_stack_is_told_of_when_it_is_taken),
    };
    return scratch_run("refiner-loader", tests, sizeof tests / sizeof *tests);
}
