/* Compares texture on a CUDA device with the CPU, on images from a seed that the test prints. Both compute the same
 * integers, so features differ by rounding, at most 1 ulp. Outputs are poisoned before. A second run, and a run with
 * other images in flight, give the same bits. test_texture_devices [SEED]. */
#include "tests/kernels/texture_cases.h"

#include <time.h>

static struct texture *texture_on(enum device_kind kind, const struct texture_options *base) {
    struct err err = {0};
    struct texture *t = NULL;
    struct texture_options options = *base;
    options.device = (struct device){kind, 0};
    options.threads = 2;
    must(texture_create(&options, &t, &err), &err);
    return t;
}

static void run(struct texture *t, const struct texture_image *image, struct texture_features *to) {
    struct err err = {0};
    memset(to, 0xff, sizeof *to);
    must(texture_run(t, image, to, &err), &err);
}

/* Returns the largest difference of a feature in units of the last place of the larger value. For ranges, which are
 * differences, it is the last place of the mean if the mean is larger. */
static double apart_of(const float *found, const float *expected) {
    double worst = 0;
    for (int a = 0; a < TEXTURE_AGGREGATES; a++) {
        float size = fmaxf(fmaxf(fabsf(found[a]), fabsf(expected[a])), fabsf(expected[TEXTURE_MEAN]));
        double place = (double)(nextafterf(size, HUGE_VALF) - size);
        double apart = fabs((double)found[a] - (double)expected[a]) / place;
        worst = apart > worst || !(apart == apart) ? apart : worst; /* NaN is worst */
    }
    return worst;
}

static void check_pattern(enum pattern pattern, const struct texture_options *o, int nx, int ny, bool floats) {
    static struct texture_features expected, found, again;
    struct picture picture = make_picture(pattern, nx, ny);
    struct texture_image image = image_of(&picture, floats);
    struct texture *cpu = texture_on(DEVICE_CPU, o), *cuda = texture_on(DEVICE_CUDA, o);
    assert_int_equal(texture_pixels(cpu), texture_pixels(cuda));
    run(cpu, &image, &expected);
    run(cuda, &image, &found);
    run(cuda, &image, &again);
    double worst = 0;
    for (int q = 0; q < TEXTURE_QUANTISATIONS && worst == worst; q++)
        for (int l = 0; l < TEXTURE_LENGTHS && worst == worst; l++)
            for (int k = 0; k < TEXTURE_FEATURES && worst == worst; k++) {
                double apart = apart_of(found.values[q][l][k], expected.values[q][l][k]);
                worst = apart > worst || !(apart == apart) ? apart : worst;
            }
    print_message("  %-10s %5d px, window %d, stride %d, lengths to %d: %s, by %.3g ulp at most\n",
                  PATTERN_NAMES[pattern], texture_pixels(cuda), o->window, o->stride, o->lengths,
                  memcmp(&found, &expected, sizeof found) == 0 ? "the same bits" : "not the same bits", worst);
    assert_true(worst <= 1);
    assert_memory_equal(&found, &again, sizeof found);
    texture_destroy(&cpu);
    texture_destroy(&cuda);
    free_picture(&picture);
}

static void patterns_agree(void **state) {
    (void)state;
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        struct texture_options o = texture_defaults();
        o.diameter = pattern % 2 ? 36 : 50;
        check_pattern((enum pattern)pattern, &o, 53, 50, pattern % 2);
    }
}

/* Tests several strips that are partly empty, every layout of counts, odd numbers of levels, and strides smaller and
 * larger than a window. */
static void shapes_agree(void **state) {
    (void)state;
    struct texture_options o = texture_defaults();
    o.diameter = 111;
    o.lengths = 3;
    check_pattern(NOISE, &o, 120, 113, false);
    o.diameter = 200;
    o.stride = 8;
    o.lengths = 25;
    check_pattern(SMOOTH, &o, 200, 203, true);
    o.stride = 3;
    o.lengths = 2;
    o.fixed_range = true;
    check_pattern(SMOOTH, &o, 200, 203, false);
    o = (struct texture_options){.levels = {64, 17, 9}, .lengths = 4, .window = 63, .diameter = 120, .stride = 2};
    o.slots = o.threads = 1;
    check_pattern(NOISE, &o, 130, 120, false);
    check_pattern(CONSTANT, &o, 130, 120, false);
    o = (struct texture_options){.levels = {5, 64, 33}, .lengths = 3, .window = 5, .diameter = 300, .stride = 1};
    o.slots = o.threads = 1;
    check_pattern(NOISE, &o, 300, 301, false);
    o.stride = 11;
    check_pattern(TWO_LEVELS, &o, 300, 301, false);
}

/* The records of all displacements do not fit at once: the device computes the lengths in two chunks. (The default
 * circle of 200 px needs five chunks, and half a minute on the CPU.) */
static void chunks_agree(void **state) {
    (void)state;
    struct texture_options o = texture_defaults();
    o.diameter = 130;
    check_pattern(HALVES, &o, 131, 134, false);
    check_pattern(SMOOTH, &o, 131, 134, true);
}

static void images_in_flight_do_not_meet(void **state) {
    (void)state;
    enum { SLOTS = 3, IMAGES = 8 };
    struct err err = {0};
    static struct texture_features alone[IMAGES], found;
    struct picture pictures[IMAGES];
    struct texture_options o = texture_defaults();
    o.diameter = 60;
    o.slots = SLOTS;
    struct texture *t = texture_on(DEVICE_CUDA, &o);
    for (int k = 0; k < IMAGES; k++) {
        pictures[k] = make_picture((enum pattern)(k % PATTERNS), 64, 64);
        struct texture_image image = image_of(&pictures[k], k % 2);
        run(t, &image, &alone[k]);
    }
    for (int k = 0; k < IMAGES + SLOTS; k++) {
        if (k >= SLOTS) {
            memset(&found, 0xff, sizeof found);
            must(texture_finish(t, k % SLOTS, &found, &err), &err);
            assert_memory_equal(&found, &alone[k - SLOTS], sizeof found);
        }
        if (k >= IMAGES) continue;
        struct texture_image image = image_of(&pictures[k], k % 2);
        must(texture_start(t, k % SLOTS, &image, &err), &err);
        /* texture_start no longer needs the image. */
        memset(pictures[k].bytes, 0, 64 * 64);
    }
    struct texture_image image = image_of(&pictures[1], true);
    must(texture_start(t, 0, &image, &err), &err);
    texture_destroy(&t); /* with an image in flight */
    for (int k = 0; k < IMAGES; k++)
        free_picture(&pictures[k]);
}

int main(int argc, char **argv) {
    int count = 0;
    struct err err = {0};
    if (device_count(&count, &err) != STATUS_OK) return fprintf(stderr, "%s\n", err.message), 1;
    if (count == 0) return puts("skipped: no CUDA device"), 77;
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0; /* for compute-sanitizer, which is slow */
    choose_seed(argc > 1 && !quick ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_agree),
        cmocka_unit_test(images_in_flight_do_not_meet),
        cmocka_unit_test(shapes_agree),
        cmocka_unit_test(chunks_agree),
    };
    return quick ? _cmocka_run_group_tests("quick", tests, 1, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
