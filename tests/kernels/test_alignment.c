/* kernels/alignment: compares the E-step of a device with the same in double, pose by pose (alignment_reference):
 * poses, probabilities, noise, and back-projected sums. References are blobs in random places; particles are noisy
 * projections of them. On the CPU, and on a CUDA device if there is one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kernels/alignment_plain.h"
#include "tests/kernels/seed.h"

static void one_reference_on_the_whole_grid(void **state) {
    (void)state;
    check(plain_setting());
}

static void several_references_with_priors(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.references = REFERENCES;
    s.priors = true;
    check(s);
}

static void coarse_samples_themselves(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.oversampled = false;
    s.references = 2;
    s.noise = 1.8;
    check(s);
}

/* Thousands of samples matter; only the best few are kept. */
static void more_samples_than_are_taken(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.noise = 6;
    s.offset_range = 4;
    s.max_significant = FEW;
    check(s);
    s.oversampled = false;
    check(s);
    s.oversampled = s.local = true;
    check(s);
}

static void near_the_last_pose(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.local = true;
    check(s);
    s.references = 2;
    s.priors = true;
    check(s);
}

static void check_given_pose(const struct data *d, int i) {
    const struct alignment_particle *p = &d->particles[i];
    const struct alignment_result *r = &d->results[i];
    double offset2 = 0;
    for (int j = 0; j < 9; j++)
        near("the given pose", i, r->pose[j], p->pose[j], 0);
    for (int j = 0; j < 2; j++) {
        near("the given shift", i, r->shift[j], p->shift[j] + p->rest[j], 0);
        offset2 += r->shift[j] * r->shift[j];
    }
    near("offset² of the given shift", i, r->offset2, offset2, 2e-3 * offset2);
}

static void at_given_poses(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.local = s.given = true;
    s.oversampled = false;
    check(s);
    s.references = 2;
    s.priors = true;
    s.threads = 2;
    check(s);
    struct data *d = make_data(s);
    poison(d);
    align(d, 0);
    for (int i = 0; i < PARTICLES; i++)
        check_given_pose(d, i);
    struct alignment *a = NULL;
    OK(alignment_create(&d->options, &a, &failure));
    OK(alignment_begin(a, &d->iteration, &failure));
    d->particles[0].orientation = PARTICLES;
    assert_int_equal(alignment_add(a, d->particles, 1, d->results, &failure), STATUS_BAD_ARGUMENT);
    d->iteration.oversampled = true;
    assert_int_equal(alignment_begin(a, &d->iteration, &failure), STATUS_BAD_ARGUMENT);
    alignment_destroy(&a);
    destroy_data(d);
}

/* A wider prior lists more poses, and each device the same. */
static void within_a_range_of_the_last_pose(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.local = true;
    s.near_sigma = 40;
    check(s);
    s.near_range = 50, s.references = 2, s.priors = true;
    check(s);
    s.oversampled = false;
    check(s);
}

/* A grid of order 8 has 1.2e9 orientations, 9.7e9 children of them, 3.5e10 samples at 29 shifts; only those near a pose
 * are ever listed. Poses are so close that thousands of weights lie near the thresholds. */
static void near_a_pose_of_the_finest_grids(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.local = true;
    s.noise = 0.2;
    s.offset_range = 6;
    s.rounding = 30; /* images differ fifty times as much as with the noise of the others */
    for (s.order = 6; s.order <= 8; s.order += 2) {
        struct data *d = make_data(s);
        assert_true(d->sampling.shift_count == 29);
        destroy_data(d);
        check(s);
    }
}

static void with_fewer_pixels_compared(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.reference_size = 14, s.reliability = ALIGNMENT_NORM_L2;
    check(s);
    s.screen_size = 6, s.references = 2, s.priors = true, s.max_significant = 3, s.threads = 3, s.summed = 0.9;
    check(s);
    s.screen_size = 0, s.local = true, s.summed = 0.8;
    check(s);
}

static void weighed_by_reliability(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.reliability = ALIGNMENT_NORM_L2;
    s.local = true;
    check(s);
    s.reliability = ALIGNMENT_NORM_L2SQ;
    check(s);
}

/* 3/4 + exp(e)/(2 (exp(e) + 1)) with e = (before − now)/now, computed by hand; for the square e = (before² −
 * now²)/now². */
static void reliability_by_hand(void **state) {
    (void)state;
    static const struct {
        enum alignment_norm norm;
        double before, now, weight;
    } KNOWN[] = {
        {ALIGNMENT_NORM_L2, 3, 3, 1},                /* no change */
        {ALIGNMENT_NORM_L2, 1.1, 1, 1.0124895943},   /* e = 0.1: a tenth better */
        {ALIGNMENT_NORM_L2SQ, 1.1, 1, 1.0261539548}, /* e = 0.21 */
        {ALIGNMENT_NORM_L2, 0.5, 1, 0.9387703344},   /* e = −1/2: twice as bad */
        {ALIGNMENT_NORM_L2SQ, 0.5, 1, 0.9104106504}, /* e = −3/4 */
        {ALIGNMENT_NORM_L2, 2, 1, 1.1155292893},     /* e = 1: half of the residual is gone */
        {ALIGNMENT_NORM_L2SQ, 2, 1, 1.2262870634},   /* e = 3 */
        {ALIGNMENT_NORM_L2, 0, 1, 0.8844707107},     /* e = −1: the smallest value */
        {ALIGNMENT_NORM_L2, 1e9, 1, 1.25},           /* the largest value */
        {ALIGNMENT_NORM_L2, -1, 1, 1},               /* seen for the first time */
        {ALIGNMENT_NORM_L2SQ, -1, 1, 1},
        {ALIGNMENT_NORM_L2, 1, 0, 1},
        {ALIGNMENT_NORM_NONE, 2, 1, 1},
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (!(fabs(alignment_reliability(KNOWN[i].norm, KNOWN[i].before, KNOWN[i].now) - KNOWN[i].weight) < 1e-9))
            fail_msg("case %zu: %.10f, %.10f was expected", i,
                     alignment_reliability(KNOWN[i].norm, KNOWN[i].before, KNOWN[i].now), KNOWN[i].weight);
}

static void with_symmetry(void **state) {
    (void)state;
    static const char *const GROUPS[] = {"C2", "C5", "D2", "D3", "T", "O", "I"};
    struct setting s = plain_setting();
    s.references = 2;
    for (size_t i = 0; i < sizeof GROUPS / sizeof *GROUPS; i++) {
        s.symmetry = GROUPS[i];
        check(s);
    }
}

static void in_the_plane(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.dimensions = 2;
    s.references = REFERENCES, s.priors = true;
    check(s);
    s.oversampled = s.priors = false, s.references = 1;
    check(s);
}

/* The sum of priors, computed by hand: 18 angles and their 2 children, 4 children at 1 or 5 shifts. */
static void the_sum_of_priors(const struct data *d) {
    for (int i = 0; i < PARTICLES; i++) {
        double sum = 0, step = 2, moved = 0.3 * step;
        const int *own = d->particles[i].shift;
        for (int k = 0; k < 5; k++) {
            double x = own[0] + moved + step * (k == 1) - step * (k == 2),
                   y = own[1] + moved + step * (k == 3) - step * (k == 4);
            sum += 18 * 2 * 4 * exp(-(x * x + y * y) / (2 * 2.5 * 2.5));
        }
        near("the sum of priors", i, alignment_log_poses(&d->iteration, own), log(sum), 1e-9);
    }
    const int far[2] = {400, 0}; /* exp of it is 0 */
    assert_true(alignment_log_poses(&d->iteration, far) < -1e4);
}

static void images_that_may_show_nothing(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.dimensions = 2;
    s.references = REFERENCES;
    s.priors = s.doubtful = true;
    check(s);
    struct data *d = make_data(s);
    the_sum_of_priors(d);
    poison(d);
    align(d, 0);
    int doubtful = 0;
    for (int i = 0; i < PARTICLES; i++)
        doubtful += d->results[i].nothing > 0.01 && d->results[i].nothing < 0.99;
    print_message("%d particles between something and nothing\n", doubtful);
    assert_true(d->results[0].nothing < 0.5 && d->results[PARTICLES - 1].nothing > 0.5);
    assert_true(d->results[3].left_out && d->results[5].left_out && d->results[3].weight_sum == 0);
    destroy_data(d);
    s.dimensions = 3;
    s.references = 1;
    check(s);
}

static void one_shift_and_no_ctf(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.offset_range = 0;
    s.no_ctf = true;
    check(s);
}

/* Images are masked up to a shell and beyond it separately; the comparison reaches to shell 9, its coarse pass to 6. */
static void masked_in_two_bands(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.shared_shell = 4;
    check(s);
    s.local = true;
    check(s);
    s.local = false;
    s.dimensions = 2;
    s.references = 2;
    check(s);
}

static void same_result(const struct data *a, const struct data *b, double tolerance) {
    for (int i = 0; i < PARTICLES; i++) {
        assert_int_equal(a->results[i].significant, b->results[i].significant);
        near("the log-likelihood", i, a->results[i].log_likelihood, b->results[i].log_likelihood, tolerance);
        near("pmax", i, a->results[i].pmax, b->results[i].pmax, tolerance);
        near("the norm", i, a->results[i].norm_sum, b->results[i].norm_sum, tolerance);
        assert_memory_equal(a->results[i].pose, b->results[i].pose, sizeof a->results[i].pose);
    }
    for (int k = 0; k < a->setting.references; k++) {
        size_t voxels = (size_t)a->sums[k]->nx * (size_t)a->sums[k]->ny * (size_t)a->sums[k]->nz;
        double error = 0, power = 0;
        for (size_t v = 0; v < voxels; v++)
            for (int c = 0; c < 3; c++) {
                double difference = a->sums[k]->voxels[v][c] - b->sums[k]->voxels[v][c];
                error += difference * difference;
                power += b->sums[k]->voxels[v][c] * b->sums[k]->voxels[v][c];
            }
        assert_true(error <= tolerance * tolerance * power);
    }
}

/* Bit for bit; poses and sums in the order of particles, for any number of threads. */
static void it_repeats(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.references = 2;
    struct data *a = make_data(s);
    s.threads = 1;
    struct data *b = make_data(s);
    poison(a);
    poison(b);
    align(a, 0);
    align(b, 0);
    same_result(a, b, 0);
    align(b, 0);
    same_result(a, b, 0);
    destroy_data(a);
    destroy_data(b);
}

/* By default a device uses its free memory, less a reserve for libraries. */
static void memory_is_found(struct data *d, const struct data *expected) {
    struct alignment *alignment = NULL;
    size_t unused = 0;
    OK(device_memory_free(&device, &unused, &failure));
    d->options.memory = 0;
    OK(alignment_create(&d->options, &alignment, &failure));
    double found = alignment_memory(alignment);
    if (device.kind == DEVICE_CPU)
        assert_true(found == 0x1p32);
    else
        assert_true(found > (double)unused / 4 && found < (double)unused);
    alignment_destroy(&alignment);
    align(d, 0);
    same_result(expected, d, 1e-5);
    d->options.memory = -1;
    assert_int_equal(alignment_create(&d->options, &alignment, &failure), STATUS_BAD_ARGUMENT);
    assert_null(alignment);
}

/* Less memory makes smaller batches and slices in parts; too little is an error that says how much is needed. */
static void memory_changes_nothing_but_the_time(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.references = REFERENCES;
    struct data *a = make_data(s), *b = make_data(s);
    poison(a);
    poison(b);
    align(a, 0);
    b->options.memory = device.kind == DEVICE_CPU ? 1.5e6 : 16e6;
    align(b, 0);
    same_result(a, b, 1e-5); /* sums of other lengths round differently */
    memory_is_found(b, a);
    struct alignment *alignment = NULL;
    b->options.memory = 1e4;
    enum status status = alignment_create(&b->options, &alignment, &failure);
    if (status == STATUS_OK) status = alignment_begin(alignment, &b->iteration, &failure);
    assert_int_equal(status, STATUS_NO_MEMORY);
    assert_non_null(strstr(failure.message, device.kind == DEVICE_CPU ? "MiB" : "memory"));
    alignment_destroy(&alignment);
    destroy_data(a);
    destroy_data(b);
}

/* Particles of half the reference's contrast: finds the scale that fits. */
static void the_grey_scale_is_found(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.noise = 0.2;
    s.no_ctf = true;
    struct data *d = make_data(s);
    struct alignment *a = NULL;
    double mean = -1, again = -1, dots = 0, norms = 0;
    for (int i = 0; i < PARTICLES; i++)
        /* The scale of a projection: images do not include the depth of the blobs */
        d->particles[i].scale = 0.5 * sqrt(3 * M_PI);
    OK(alignment_create(&d->options, &a, &failure));
    OK(alignment_begin(a, &d->iteration, &failure));
    OK(alignment_scale(a, d->particles, PARTICLES, &mean, NULL, NULL, &failure));
    OK(alignment_scale(a, d->particles, PARTICLES, &again, &dots, &norms, &failure));
    assert_true(mean > 0 && mean == again);
    /* Less than 0.5: the coarse grid misses the best poses by up to 15° */
    near("the scale", 0, dots / norms, 0.42, 0.1);
    alignment_destroy(&a);
    destroy_data(d);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    struct data *d = make_data(plain_setting());
    struct alignment *a = NULL;
    poison(d);
    d->options.box = 15;
    assert_int_equal(alignment_create(&d->options, &a, &failure), STATUS_BAD_ARGUMENT);
    assert_null(a);
    d->options.box = BOX;
    OK(alignment_create(&d->options, &a, &failure));
    assert_int_equal(alignment_add(a, d->particles, 1, d->results, &failure), STATUS_BAD_STATE);
    assert_int_equal(alignment_finish(a, &failure), STATUS_BAD_STATE);
    OK(alignment_begin(a, &d->iteration, &failure));
    d->particles[0].optics = OPTICS;
    assert_int_equal(alignment_add(a, d->particles, 1, d->results, &failure), STATUS_BAD_ARGUMENT);
    OK(alignment_add(a, d->particles, 0, d->results, &failure));
    OK(alignment_finish(a, &failure));
    alignment_destroy(&a);
    destroy_data(d);
}

int main(int argc, char **argv) {
    seed = (unsigned)chosen_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_reference_on_the_whole_grid),
        cmocka_unit_test(several_references_with_priors),
        cmocka_unit_test(coarse_samples_themselves),
        cmocka_unit_test(more_samples_than_are_taken),
        cmocka_unit_test(near_the_last_pose),
        cmocka_unit_test(at_given_poses),
        cmocka_unit_test(within_a_range_of_the_last_pose),
        cmocka_unit_test(near_a_pose_of_the_finest_grids),
        cmocka_unit_test(with_fewer_pixels_compared),
        cmocka_unit_test(weighed_by_reliability),
        cmocka_unit_test(reliability_by_hand),
        cmocka_unit_test(with_symmetry),
        cmocka_unit_test(in_the_plane),
        cmocka_unit_test(images_that_may_show_nothing),
        cmocka_unit_test(one_shift_and_no_ctf),
        cmocka_unit_test(masked_in_two_bands),
        cmocka_unit_test(it_repeats),
        cmocka_unit_test(memory_changes_nothing_but_the_time),
        cmocka_unit_test(the_grey_scale_is_found),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    int failed = cmocka_run_group_tests_name("alignment on the CPU", tests, NULL, NULL), devices = 0;
    if (device_count(&devices, NULL) != STATUS_OK || devices == 0) {
        printf("no CUDA device: its half was skipped\n");
        return failed;
    }
    device.kind = DEVICE_CUDA;
    return failed + cmocka_run_group_tests_name("alignment on a CUDA device", tests, NULL, NULL);
}
