/* Tests images that stay on a CUDA device from iteration to iteration, and compares accuracies of poses there with the
 * CPU's. Simulated particles, new from a printed seed: gpu_alignment_kept [SEED]. */
#include <stdio.h>
#include <time.h>

#include "kernels/accuracy/accuracy.h"
#include "tests/kernels/alignment_trials.h"

static const struct trial TRIALS[] = {
    {.box = 32,
     .size = 24,
     .coarse_size = 12,
     .order = 1,
     .references = 1,
     .particles = 40,
     .offset_range = 3,
     .offset_step = 1.5,
     .oversampled = true,
     .max_significant = 100000},
    {.box = 44,
     .size = 40,
     .coarse_size = 40,
     .order = 4,
     .references = 2,
     .particles = 20,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = true,
     .local = true,
     .max_significant = 100000},
    /* This size does not fit one block: it goes through cuFFT. */
    {.box = 34,
     .size = 30,
     .coarse_size = 20,
     .order = 1,
     .references = 1,
     .particles = 30,
     .offset_range = 2,
     .offset_step = 2,
     .oversampled = true,
     .max_significant = 100000},
};

static void iterate(const struct data *d, struct alignment *alignment, struct outcome *o) {
    static const float priors[REFERENCES] = {-0.5f, -0.9f};
    struct err err = {0};
    make_outcome(d, o);
    struct alignment_iteration iteration = iteration_of(d, o, priors);
    must(alignment_begin(alignment, &iteration, &err), &err);
    must(add_all(d, alignment, o, &err), &err);
    must(alignment_finish(alignment, &err), &err);
}

/* Numbers images in another order than that of particles, as members of a half are. */
static void number(struct data *d, int count) {
    for (int i = 0; i < count; i++)
        d->particles[i].number = 1 + (i * 7 + 3) % count;
}

/* keep: number of images that there is room for. Runs twice: the second run has no images of those that are on the
 * device. An image that is on neither side is an error. */
static void check_kept(const struct trial *trial, int keep) {
    struct data d;
    struct outcome plain, first, second, third;
    struct err err = {0};
    struct alignment *alignment = NULL;
    size_t pixels = (size_t)trial->box * (size_t)trial->box;
    make(trial, &d);
    const struct alignment_options options = options_of(&d, DEVICE_CUDA, 2e9);
    must(alignment_create(&options, &alignment, &err), &err);
    iterate(&d, alignment, &plain);
    int count = trial->particles % 7 != 0 ? trial->particles : trial->particles - 1;
    number(&d, count);
    must(alignment_keep_images(alignment, trial->particles, (size_t)keep * pixels * sizeof(float) + 1, &err), &err);
    iterate(&d, alignment, &first);
    check_same(&d, &plain, &first);
    for (int i = 0, kept = 0; i < trial->particles; i++) {
        if (!alignment_keeps_image(alignment, d.particles[i].number, 0)) continue;
        d.particles[i].image = NULL;
        if (++kept == count || kept == keep) break;
    }
    iterate(&d, alignment, &second);
    check_same(&d, &plain, &second);
    /* Makes more room; a part of the kept images lies in the middle of the others. */
    must(alignment_keep_images(alignment, trial->particles, (size_t)trial->particles * pixels * sizeof(float), &err),
         &err);
    iterate(&d, alignment, &third);
    check_same(&d, &plain, &third);
    alignment_forget_images(alignment);
    for (int i = 0; i < trial->particles; i++)
        assert_false(alignment_keeps_image(alignment, d.particles[i].number, 0));
    d.particles[count - 1].number = 0;
    d.particles[count - 1].image = NULL;
    struct outcome none;
    static const float priors[REFERENCES] = {-0.5f, -0.9f};
    make_outcome(&d, &none);
    struct alignment_iteration iteration = iteration_of(&d, &none, priors);
    must(alignment_begin(alignment, &iteration, &err), &err);
    assert_int_equal(add_all(&d, alignment, &none, &err), STATUS_BAD_STATE);
    discard_outcome(&none);
    alignment_destroy(&alignment);
    discard_outcome(&plain);
    discard_outcome(&first);
    discard_outcome(&second);
    discard_outcome(&third);
    discard(&d);
}

static void images_stay_as_they_were(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof TRIALS / sizeof *TRIALS; i++) {
        print_message("trial %zu, seed %llu\n", i, (unsigned long long)seed);
        check_kept(&TRIALS[i], TRIALS[i].particles);
        check_kept(&TRIALS[i], TRIALS[i].particles / 3);
    }
}

/* More images than pass through the page-locked memory at a time. */
static const struct trial LARGE = {.box = 256,
                                   .size = 24,
                                   .coarse_size = 12,
                                   .order = 1,
                                   .references = 1,
                                   .particles = 160,
                                   .offset_range = 3,
                                   .offset_step = 1.5,
                                   .oversampled = true,
                                   .max_significant = 100000};

/* Brings images of an iteration that has begun before any is compared. keep: number of images that there is room for.
 * */
static void check_brought(const struct trial *trial, int keep) {
    static const float priors[REFERENCES] = {-0.5f, -0.9f};
    const int count = trial->particles;
    struct data d;
    struct outcome plain, o;
    struct err err = {0};
    struct alignment *alignment = NULL;
    make(trial, &d);
    const struct alignment_options options = options_of(&d, DEVICE_CUDA, 4e9);
    must(alignment_create(&options, &alignment, &err), &err);
    for (int i = 0; i < count; i++)
        d.particles[i].number = 0;
    iterate(&d, alignment, &plain);
    for (int i = 0; i < count; i++)
        d.particles[i].number = count - i;
    assert_int_equal(alignment_bring(alignment, d.particles, count, &err), STATUS_BAD_STATE);
    const size_t bytes = (size_t)keep * (size_t)trial->box * (size_t)trial->box * sizeof(float);
    must(alignment_keep_images(alignment, count, bytes, &err), &err);
    assert_int_equal(alignment_image_room(alignment, 0), keep);
    make_outcome(&d, &o);
    struct alignment_iteration iteration = iteration_of(&d, &o, priors);
    must(alignment_begin(alignment, &iteration, &err), &err);
    must(alignment_bring(alignment, d.particles, count, &err), &err);
    assert_int_equal(alignment_image_room(alignment, 0), 0);
    for (int i = 0; i < count; i++) {
        assert_int_equal(alignment_keeps_image(alignment, d.particles[i].number, 0), i < keep);
        if (i < keep) d.particles[i].image = NULL;
    }
    must(add_all(&d, alignment, &o, &err), &err);
    must(alignment_finish(alignment, &err), &err);
    check_same(&d, &plain, &o);
    alignment_destroy(&alignment);
    discard_outcome(&plain);
    discard_outcome(&o);
    discard(&d);
}

/* Room that cannot grow serves images that were numbered later, too. */
static void later_images_find_room(void **state) {
    (void)state;
    enum { ROOM = 10 };
    const size_t bytes = ROOM * (size_t)TRIALS[0].box * (size_t)TRIALS[0].box * sizeof(float);
    static const float priors[REFERENCES] = {0};
    struct data d;
    struct outcome o;
    struct err err = {0};
    struct alignment *alignment = NULL;
    make(&TRIALS[0], &d);
    const struct alignment_options options = options_of(&d, DEVICE_CUDA, 2e9);
    must(alignment_create(&options, &alignment, &err), &err);
    must(alignment_keep_images(alignment, ROOM + 1, bytes, &err), &err);
    must(alignment_keep_images(alignment, TRIALS[0].particles, bytes, &err), &err);
    make_outcome(&d, &o);
    struct alignment_iteration iteration = iteration_of(&d, &o, priors);
    must(alignment_begin(alignment, &iteration, &err), &err);
    struct alignment_particle *last = &d.particles[TRIALS[0].particles - 1];
    last->number = TRIALS[0].particles;
    must(alignment_bring(alignment, last, 1, &err), &err);
    assert_true(alignment_keeps_image(alignment, last->number, 0));
    assert_int_equal(alignment_image_room(alignment, 0), ROOM - 1);
    last->image = NULL;
    assert_int_equal(alignment_bring(alignment, last, 1, &err), STATUS_BAD_ARGUMENT);
    alignment_destroy(&alignment);
    discard_outcome(&o);
    discard(&d);
}

static void images_come_before_they_are_compared(void **state) {
    (void)state;
    check_brought(&TRIALS[0], TRIALS[0].particles);
    check_brought(&TRIALS[0], TRIALS[0].particles / 3);
    check_brought(&LARGE, LARGE.particles);
    check_brought(&LARGE, LARGE.particles / 2 + 1);
    check_kept(&LARGE, LARGE.particles / 2);
}

static void describe(const struct data *d, struct accuracy_particle *particles, int count) {
    for (int i = 0; i < count; i++)
        particles[i] = (struct accuracy_particle){.angles = {37.0 * i, 11.0 * i + 3, 91.0 * i},
                                                  .ctf = i % 3 > 0 ? d->particles[i].ctf : NULL,
                                                  .turned = i % 3,
                                                  .along_x = i % 2 == 0};
}

/* Both find the same step, unless the difference is next to the threshold. */
static void accuracies_are_those_of_the_cpu(void **state) {
    enum { COUNT = 40 };
    (void)state;
    struct data d;
    struct outcome o;
    struct err err = {0};
    struct alignment *alignment = NULL;
    struct accuracy_particle particles[COUNT];
    double angles[2][COUNT], offsets[2][COUNT], sum = 0;
    int other = 0;
    make(&TRIALS[0], &d);
    make_outcome(&d, &o);
    const struct alignment_options options = options_of(&d, DEVICE_CUDA, 2e9);
    must(alignment_create(&options, &alignment, &err), &err);
    describe(&d, particles, COUNT);
    const struct accuracy_input input = {.pixels = &d.pixels,
                                         .pixel_size = options.pixel_size,
                                         .projector = d.projectors[0],
                                         .sigma2 = d.sigma2,
                                         .optics_count = 1,
                                         .particles = particles,
                                         .count = COUNT,
                                         .threads = threads};
    must(accuracy_estimate(&input, NULL, angles[0], offsets[0], &err), &err);
    must(projector_set_map_on(d.projectors[0], alignment_workspace(alignment), d.maps[0], d.trial.size, &err), &err);
    must(accuracy_estimate(&input, alignment_workspace(alignment), angles[1], offsets[1], &err), &err);
    for (int i = 0; i < COUNT; i++) {
        other += angles[0][i] != angles[1][i] || offsets[0][i] != offsets[1][i];
        sum += angles[0][i] + offsets[0][i];
        if (fabs(angles[0][i] - angles[1][i]) > 0.5 * angles[0][i] || fabs(offsets[0][i] - offsets[1][i]) > 1)
            fail_msg("particle %d: %g° and %g°, %g px and %g px", i, angles[0][i], angles[1][i], offsets[0][i],
                     offsets[1][i]);
    }
    print_message("mean of angle and offset %g, %d of %d another step on the device\n", sum / COUNT, other, COUNT);
    assert_true(other <= 1 && sum < 39 * COUNT);
    must(projector_set_map(d.projectors[0], d.maps[0], d.trial.size, &err), &err);
    alignment_destroy(&alignment);
    discard_outcome(&o);
    discard(&d);
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_stay_as_they_were),
        cmocka_unit_test(images_come_before_they_are_compared),
        cmocka_unit_test(later_images_find_room),
        cmocka_unit_test(accuracies_are_those_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
