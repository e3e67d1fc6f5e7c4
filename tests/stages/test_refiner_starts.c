/* Starts of a first map are dealt out to several devices, and each gives the same bytes as on one. Workers on the CPU
 * stand for devices, or device 0 (and device 1 where there is one) with the argument `cuda`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "stages/refiner/initial/starts.h"
#include "tests/stages/blobs.h"

enum { IMAGES = 60, STARTS = 5, PIXELS = BOX * BOX, VOXELS = BOX * BOX * BOX, DEVICES_MOST = 3, CLASSES = 2 };

static enum device_kind kind;
static int present = 1; /* devices of this kind; more are the same ones again */
static struct initial_images images;
static struct symmetry symmetry;

/* All that starts have found. */
struct found {
    float maps[STARTS][CLASSES * VOXELS];
    double shares[STARTS][CLASSES], pmax[STARTS], gains[STARTS][IMAGES];
};

static int opened[DEVICES_MOST]; /* lanes of each device */

enum status __real_alignment_create(const struct alignment_options *options, struct alignment **ret_alignment,
                                    struct err *err);
enum status __wrap_alignment_create(const struct alignment_options *options, struct alignment **ret_alignment,
                                    struct err *err);
enum status __wrap_alignment_create(const struct alignment_options *options, struct alignment **ret_alignment,
                                    struct err *err) {
    opened[options->device.index]++;
    return __real_alignment_create(options, ret_alignment, err);
}

static void must(enum status status, const struct err *err) {
    if (status != STATUS_OK) fail_msg("%s", err->message);
}

/* Makes images of a few blobs in noise, seen from anywhere. */
static void make_images(void) {
    struct object object;
    struct err err = {0};
    struct initial_key keys[IMAGES];
    srand(5);
    make_object(&object, 8);
    images = (struct initial_images){.count = IMAGES, .box = BOX, .pixel_size = PIXEL};
    must(mem_new(IMAGES, sizeof *images.which, "a test", &images.which, &err), &err);
    must(mem_new((size_t)IMAGES * PIXELS, sizeof *images.values, "a test", &images.values, &err), &err);
    must(mem_new(IMAGES, sizeof *images.ctfs, "a test", &images.ctfs, &err), &err);
    must(mem_new(IMAGES, sizeof *images.with_ctf, "a test", &images.with_ctf, &err), &err);
    for (int i = 0; i < IMAGES; i++) {
        double pose[9];
        euler_to_matrix(360 * uniform(), acos(2 * uniform() - 1) * 180 / M_PI, 360 * uniform(), pose);
        keys[i] = (struct initial_key){.particle = 1000003u * (uint64_t)(i + 1)};
        for (int p = 0; p < PIXELS; p++) {
            double sum = normal();
            for (int b = 0; b < object.count; b++) {
                const double *at = object.blobs[b];
                double dx = p % BOX - BOX / 2 - (pose[0] * at[0] + pose[1] * at[1] + pose[2] * at[2]);
                double dy = p / BOX - BOX / 2 - (pose[3] * at[0] + pose[4] * at[1] + pose[5] * at[2]);
                sum += 2 * at[3] * exp(-(dx * dx + dy * dy) / 8);
            }
            images.values[i * PIXELS + p] = (float)sum;
        }
    }
    must(initial_images_divide(&images, keys, 1, &err), &err);
}

static struct starts_options options_for(int devices, int classes) {
    struct starts_options options = {.device = {kind, 0},
                                     .device_count = devices,
                                     .threads = 8,
                                     .memory = 1,
                                     .diameter = 120,
                                     .symmetry = &symmetry,
                                     .seed = 3,
                                     .classes = classes};
    for (int i = 0; i < devices; i++)
        options.devices[i] = (struct device){kind, i % present};
    return options;
}

static void work(int devices, int classes, struct found *found) {
    static const struct starts_step STEP = {
        .particles = 12, .order = 1, .limit = 30, .gain = 0.5, .fudge = 1, .balance = true};
    const struct starts_options options = options_for(devices, classes);
    struct starts_judgement judgements[STARTS];
    struct starts *starts = NULL;
    struct err err = {0};
    const int which[STARTS] = {0, 1, 2, 3, 4};
    memset(opened, 0, sizeof opened);
    memset(found, 0, sizeof *found);
    must(starts_create(&images, &options, STARTS, &starts, &err), &err);
    must(starts_random(starts, which, STARTS, &err), &err);
    for (int i = 0; i < 2; i++)
        must(starts_iterate(starts, which, STARTS, &STEP, &err), &err);
    for (int i = 0; i < STARTS; i++)
        judgements[i] = (struct starts_judgement){starts_state(starts, i).map, INITIAL_HELD_OUT, found->gains[i]};
    must(starts_judge(starts, judgements, STARTS, 1, 30, &err), &err);
    for (int i = 0; i < STARTS; i++) {
        const struct starts_state state = starts_state(starts, i);
        memcpy(found->maps[i], state.map, (size_t)classes * VOXELS * sizeof *state.map);
        memcpy(found->shares[i], state.shares, (size_t)classes * sizeof *state.shares);
        found->pmax[i] = state.pmax;
    }
    if (kind == DEVICE_CPU) assert_int_equal(starts_at_once(starts), devices);
    starts_destroy(&starts);
}

/* Lanes lie on all devices, and no more on one than on another, but for the remainder. */
static void lanes_are_dealt_out(int devices) {
    int least = opened[0], most = opened[0];
    for (int i = 1; i < devices; i++) {
        if (opened[i] < least) least = opened[i];
        if (opened[i] > most) most = opened[i];
    }
    assert_true(least > 0 && most - least <= 1);
}

static void any_number_of_devices(int classes) {
    enum { CENTRE = (BOX / 2 * BOX + BOX / 2) * BOX + BOX / 2 };
    static struct found one, several;
    work(1, classes, &one);
    for (int i = 0; i < STARTS; i++)
        assert_true(one.pmax[i] > 0 && one.maps[i][CENTRE] != one.maps[(i + 1) % STARTS][CENTRE]);
    for (int devices = 2; devices <= DEVICES_MOST; devices++) {
        work(devices, classes, &several);
        if (devices <= present) lanes_are_dealt_out(devices);
        for (int i = 0; i < STARTS; i++) {
            if (memcmp(one.maps[i], several.maps[i], sizeof one.maps[i]) != 0)
                fail_msg("%d devices: the maps of start %d differ", devices, i);
            assert_memory_equal(one.shares[i], several.shares[i], sizeof one.shares[i]);
            assert_memory_equal(one.gains[i], several.gains[i], sizeof one.gains[i]);
            assert_true(one.pmax[i] == several.pmax[i]);
        }
    }
}

static void starts_of_a_map(void **state) {
    (void)state;
    any_number_of_devices(1);
}

static void starts_of_classes(void **state) {
    (void)state;
    any_number_of_devices(CLASSES);
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (argc > 1 && strcmp(argv[1], "cuda") == 0) {
        kind = DEVICE_CUDA;
        if (device_count(&present, &err) != STATUS_OK) return fprintf(stderr, "%s\n", err.message), 1;
        if (present == 0) return puts("skipped: no CUDA device"), 77;
    } else {
        present = DEVICES_MOST;
    }
    if (symmetry_create("C1", &symmetry, &err) != STATUS_OK) return fprintf(stderr, "%s\n", err.message), 1;
    make_images();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_of_a_map),
        cmocka_unit_test(starts_of_classes),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    initial_images_destroy(&images);
    symmetry_destroy(&symmetry);
    return failed;
}
