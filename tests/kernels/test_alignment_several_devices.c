/* Several CUDA devices share particles: sums and results are, bit for bit, those of one device. One device stands for
 * several where there is no other. Simulated particles, new from a printed seed: gpu_alignment_several [SEED]. */
#include <stdio.h>

#include "tests/kernels/alignment_trials.h"

enum { MOST_DEVICES = 3, CHUNK = 5 };

/* The memory of the first device holds nothing of the caller, the references, or references and sums. */
enum place { NOTHING, REFERENCES_THERE, ALL_THERE, PLACES };

static const struct trial TRIALS[] = {
    {.box = 32,
     .size = 24,
     .coarse_size = 12,
     .order = 1,
     .references = 1,
     .particles = 60,
     .offset_range = 3,
     .offset_step = 1.5,
     .oversampled = true,
     .max_significant = 100000,
     .rounded = true},
    {.box = 32,
     .size = 28,
     .coarse_size = 20,
     .order = 1,
     .references = 2,
     .particles = 47,
     .offset_range = 3,
     .offset_step = 2,
     .oversampled = true,
     .max_significant = 100000,
     .summed = 0.9,
     .screen_size = 10},
    {.box = 44,
     .size = 40,
     .coarse_size = 40,
     .order = 4,
     .references = 2,
     .particles = 40,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = true,
     .local = true,
     .max_significant = 100000},
    {.box = 48,
     .size = 48,
     .coarse_size = 40,
     .order = 1,
     .references = 2,
     .particles = 40,
     .local = true,
     .given = true,
     .offset_step = 1,
     .max_significant = 100000,
     .shared_shell = 8},
};

/* Chunks of five; the first one comes again at the end, as it does in a part of a half. */
static void number_chunks(struct data *d) {
    int count = d->trial.particles;
    for (int i = 0; i < count; i++)
        d->particles[i].chunk = i >= count - 2 ? 0 : i / CHUNK;
}

/* real: devices 0, 1, 2 …, else device 0 as many times. */
static struct alignment *create(const struct data *d, int devices, bool real, double memory) {
    struct alignment_options options = options_of(d, DEVICE_CUDA, memory);
    struct alignment *alignment = NULL;
    struct err err = {0};
    options.device_count = devices;
    for (int i = 0; i < devices; i++)
        options.devices[i] = (struct device){DEVICE_CUDA, real ? i : 0};
    must(alignment_create(&options, &alignment, &err), &err);
    assert_int_equal(alignment_workers(alignment), devices);
    return alignment;
}

/* Copies sums back to the host, where they are compared. */
static void fetch(const struct data *d, enum place place, struct outcome *o) {
    struct err err = {0};
    for (int k = 0; k < d->trial.references; k++) {
        struct accumulator_grid there = accumulator_grid(o->sums[k]);
        if (place == ALL_THERE) {
            void *values = new (1, there.bytes);
            must(device_get(&DEVICE, values, there.values, there.bytes, &err), &err);
            must(accumulator_clear(o->sums[k], d->trial.size, &err), &err);
            memcpy(o->sums[k]->voxels, values, there.bytes);
            free(values);
        }
        must(projector_set_map(d->projectors[k], d->maps[k], d->trial.size, &err), &err);
    }
}

/* at_once: particles in a call, for each device; 0: as many as it takes. */
static void iterate(const struct data *d, struct alignment *alignment, enum place place, int at_once,
                    struct outcome *o) {
    static const float priors[REFERENCES] = {-0.5f, -0.9f};
    struct workspace *w = alignment_workspace(alignment);
    struct err err = {0};
    make_outcome(d, o);
    if (place != NOTHING) workspace_reset(w);
    for (int k = 0; place != NOTHING && k < d->trial.references; k++) {
        if (place == ALL_THERE) must(accumulator_clear_on(o->sums[k], w, d->trial.size, &err), &err);
        must(projector_set_map_on(d->projectors[k], w, d->maps[k], d->trial.size, &err), &err);
    }
    struct alignment_iteration iteration = iteration_of(d, o, priors);
    must(alignment_begin(alignment, &iteration, &err), &err);
    int most = alignment_workers(alignment) * (at_once > 0 ? at_once : alignment_batch(alignment));
    for (int first = 0, count; first < d->trial.particles; first += count) {
        count = d->trial.particles - first < most ? d->trial.particles - first : most;
        must(alignment_add(alignment, d->particles + first, count, o->results + first, &err), &err);
    }
    must(alignment_finish(alignment, &err), &err);
    if (place != NOTHING) fetch(d, place, o);
}

static void check_devices(const struct data *d, int devices, bool real, enum place place, const struct outcome *one) {
    struct outcome o;
    static const int AT_ONCE[] = {0, 7};
    for (size_t i = 0; i < sizeof AT_ONCE / sizeof *AT_ONCE; i++) {
        struct alignment *alignment = create(d, devices, real, 1e9);
        iterate(d, alignment, place, AT_ONCE[i], &o);
        check_same(d, one, &o);
        discard_outcome(&o);
        /* Again, in the memory of an iteration that is over. */
        iterate(d, alignment, place, AT_ONCE[i], &o);
        check_same(d, one, &o);
        discard_outcome(&o);
        alignment_destroy(&alignment);
    }
}

static void any_number_gives_the_same_bits(void **state) {
    (void)state;
    int visible = 0;
    struct err err = {0};
    must(device_count(&visible, &err), &err);
    printf("%d devices, seed %llu\n", visible, (unsigned long long)seed);
    for (size_t i = 0; i < sizeof TRIALS / sizeof *TRIALS; i++)
        for (enum place place = NOTHING; place < PLACES; place++) {
            struct data d;
            struct outcome one;
            make(&TRIALS[i], &d);
            number_chunks(&d);
            struct alignment *alignment = create(&d, 1, false, 1e9);
            iterate(&d, alignment, place, 0, &one);
            alignment_destroy(&alignment);
            for (int devices = 1; devices <= MOST_DEVICES; devices++) {
                check_devices(&d, devices, false, place, &one);
                if (devices > 1 && devices <= visible) check_devices(&d, devices, true, place, &one);
            }
            discard_outcome(&one);
            discard(&d);
        }
}

/* Brings all images in an iteration that is then abandoned. */
static void begin_and_bring(const struct data *d, struct alignment *alignment) {
    static const float priors[REFERENCES] = {0};
    struct outcome o;
    struct err err = {0};
    make_outcome(d, &o);
    struct alignment_iteration iteration = iteration_of(d, &o, priors);
    must(alignment_begin(alignment, &iteration, &err), &err);
    must(alignment_bring(alignment, d->particles, d->trial.particles, &err), &err);
    discard_outcome(&o);
}

/* An image stays on the device that compares its chunk, and only there. */
static void images_stay_where_they_are_compared(void **state) {
    (void)state;
    struct data d;
    struct outcome first, second;
    struct err err = {0};
    make(&TRIALS[0], &d);
    number_chunks(&d);
    struct alignment *alignment = create(&d, 2, false, 1e9);
    size_t bytes = (size_t)d.trial.box * (size_t)d.trial.box * sizeof(float) * (size_t)d.trial.particles;
    for (int i = 0; i < d.trial.particles; i++)
        d.particles[i].number = i + 1;
    must(alignment_keep_images(alignment, d.trial.particles, bytes, &err), &err);
    assert_int_equal(alignment_image_room(alignment, 1), d.trial.particles);
    iterate(&d, alignment, ALL_THERE, 0, &first);
    alignment_forget_images(alignment);
    begin_and_bring(&d, alignment);
    for (int i = 0; i < d.trial.particles; i++) {
        int chunk = d.particles[i].chunk;
        assert_true(alignment_keeps_image(alignment, i + 1, chunk));
        assert_false(alignment_keeps_image(alignment, i + 1, chunk + 1));
        d.particles[i].image = NULL;
    }
    iterate(&d, alignment, ALL_THERE, 0, &second);
    check_same(&d, &first, &second);
    alignment_forget_images(alignment);
    assert_false(alignment_keeps_image(alignment, 1, 0));
    alignment_destroy(&alignment);
    discard_outcome(&first);
    discard_outcome(&second);
    discard(&d);
}

/* Without a limit, workers on one device share what is free there. */
static void free_memory_is_shared(void **state) {
    (void)state;
    struct data d;
    struct outcome o;
    make(&TRIALS[0], &d);
    struct alignment *alignment = create(&d, 2, false, 0);
    iterate(&d, alignment, NOTHING, 0, &o);
    alignment_destroy(&alignment);
    discard_outcome(&o);
    discard(&d);
}

/* Returns the outcome of sums over images that are multiplied by `scale`. */
static enum status sums_of(struct data *d, int devices, double scale) {
    static const float priors[REFERENCES] = {0};
    struct outcome o;
    struct err err = {0};
    for (int i = 0; i < d->trial.particles; i++)
        d->particles[i].scale = scale;
    struct alignment *alignment = create(d, devices, false, 1e9);
    make_outcome(d, &o);
    struct alignment_iteration iteration = iteration_of(d, &o, priors);
    must(alignment_begin(alignment, &iteration, &err), &err);
    must(alignment_add(alignment, d->particles, d->trial.particles, o.results, &err), &err);
    enum status status = alignment_finish(alignment, &err);
    alignment_destroy(&alignment);
    discard_outcome(&o);
    return status;
}

/* Images that just fill the sums of one device fill half of each of two: together they are as many. */
static void overflow_is_that_of_one_device(void **state) {
    (void)state;
    enum { STEPS = 16 };
    struct data d;
    make(&TRIALS[0], &d);
    number_chunks(&d);
    double fits = 1, overflows = 1e9;
    assert_int_equal(sums_of(&d, 1, fits), STATUS_OK);
    assert_int_equal(sums_of(&d, 1, overflows), STATUS_BAD_STATE);
    for (int i = 0; i < STEPS; i++) {
        double middle = sqrt(fits * overflows);
        enum status status = sums_of(&d, 1, middle);
        assert_true(status == STATUS_OK || status == STATUS_BAD_STATE);
        *(status == STATUS_OK ? &fits : &overflows) = middle;
    }
    printf("    images of %g times their values fit, of %g times do not\n", fits, overflows);
    for (int devices = 2; devices <= MOST_DEVICES; devices++) {
        assert_int_equal(sums_of(&d, devices, fits), STATUS_OK);
        assert_int_equal(sums_of(&d, devices, overflows), STATUS_BAD_STATE);
    }
    discard(&d);
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_gives_the_same_bits),
        cmocka_unit_test(images_stay_where_they_are_compared),
        cmocka_unit_test(free_memory_is_shared),
        cmocka_unit_test(overflow_is_that_of_one_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
