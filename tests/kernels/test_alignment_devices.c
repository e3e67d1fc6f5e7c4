/* Compares the whole E-step on a CUDA device with the CPU's, twice bit for bit, and with little memory. Simulated
 * particles of one or two phantoms, new from a printed seed: test_alignment_devices [SEED]. `time [PARTICLES]` prints
 * how long iterations take. */
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "tests/kernels/alignment_trials.h"

/* Memory that holds references and sums. */
enum place { HOST, SUMS_THERE, ALL_THERE };

static void place_all(const struct data *d, enum place place, struct workspace *w, struct outcome *o) {
    struct err err = {0};
    for (int k = 0; k < d->trial.references; k++) {
        if (place >= SUMS_THERE) must(accumulator_clear_on(o->sums[k], w, d->trial.size, &err), &err);
        if (place >= ALL_THERE)
            must(projector_set_map_on(d->projectors[k], w, d->maps[k], reference_size(&d->trial), &err), &err);
    }
}

/* Copies sums back to the host, where they are compared. */
static void fetch_all(const struct data *d, enum place place, struct outcome *o) {
    struct err err = {0};
    const struct device device = {DEVICE_CUDA, 0};
    for (int k = 0; k < d->trial.references; k++) {
        struct accumulator_grid there = accumulator_grid(o->sums[k]);
        if (place >= SUMS_THERE) {
            void *values = new (1, there.bytes);
            must(device_get(&device, values, there.values, there.bytes, &err), &err);
            must(accumulator_clear(o->sums[k], d->trial.size, &err), &err);
            memcpy(o->sums[k]->voxels, values, there.bytes);
            free(values);
        }
        if (place >= ALL_THERE)
            must(projector_set_map(d->projectors[k], d->maps[k], reference_size(&d->trial), &err), &err);
    }
}

/* Does the M-step with symmetry, where the sums lie. */
static enum status make_maps(const struct data *d, struct outcome *o, struct err *err) {
    const struct reconstruct_options options = {.tau_fudge = 1, .threads = threads};
    size_t box = (size_t)d->trial.box;
    for (int k = 0; d->trial.symmetry != NULL && k < d->trial.references; k++) {
        o->maps[k] = new (box * box * box, sizeof(float));
        TRY(accumulator_finish(o->sums[k], &d->symmetry, threads, err));
        TRY(reconstruct_map(o->sums[k], &options, o->maps[k], NULL, NULL, err));
    }
    return STATUS_OK;
}

static enum status run(const struct data *d, enum device_kind kind, enum place place, double memory, struct outcome *o,
                       struct err *err) {
    static const float priors[REFERENCES] = {-0.5f, -0.9f};
    const struct alignment_options options = options_of(d, kind, memory);
    struct alignment *alignment = NULL;
    make_outcome(d, o);
    TRY(alignment_create(&options, &alignment, err));
    struct alignment_iteration iteration = iteration_of(d, o, priors);
    if (place != HOST) place_all(d, place, alignment_workspace(alignment), o);
    double began = clock_monotonic();
    enum status status = alignment_begin(alignment, &iteration, err);
    if (status == STATUS_OK) status = add_all(d, alignment, o, err);
    if (status == STATUS_OK) status = alignment_finish(alignment, err);
    o->seconds = clock_monotonic() - began;
    if (status == STATUS_OK) status = make_maps(d, o, err);
    if (place != HOST) fetch_all(d, place, o);
    alignment_destroy(&alignment);
    return status;
}

/* If rounding moves a pose across the edge of what is kept, a thousandth of a particle's weight moves with it. */
static void check_alike(const struct data *d, const struct outcome *a, const struct outcome *b) {
    int n = d->trial.particles, moved = 0, shells = d->trial.box / 2 + 1;
    for (int i = 0; i < n; i++) {
        const struct alignment_result *x = &a->results[i], *y = &b->results[i];
        bool same = memcmp(x->pose, y->pose, sizeof x->pose) == 0 && x->reference == y->reference;
        moved += !same;
        if (fabs(x->pmax - y->pmax) > 0.02 * x->pmax + 1e-4)
            fail_msg("particle %d: pmax %g and %g (poses %s)", i, x->pmax, y->pmax, same ? "alike" : "different");
        if (fabs(x->log_likelihood - y->log_likelihood) > 1e-4 * fabs(x->log_likelihood))
            fail_msg("particle %d: log-likelihood %.8g and %.8g", i, x->log_likelihood, y->log_likelihood);
        if (fabs(x->norm_sum - y->norm_sum) > 1e-3 * x->norm_sum)
            fail_msg("particle %d: norm %g and %g", i, x->norm_sum, y->norm_sum);
        if (fabs(x->weight_sum - y->weight_sum) > 2e-3 || fabs(x->offset2 - y->offset2) > 1e-2 * x->offset2 + 1e-3)
            fail_msg("particle %d: weights %g and %g, shifts %g and %g", i, x->weight_sum, y->weight_sum, x->offset2,
                     y->offset2);
        if (abs(x->significant - y->significant) > 1 + x->significant / 50)
            fail_msg("particle %d: %d and %d samples", i, x->significant, y->significant);
        for (int s = 1; s < shells; s++)
            if (fabsf(x->power[s] - y->power[s]) > 2e-3f * x->power[s])
                fail_msg("particle %d, shell %d: power %g and %g", i, s, (double)x->power[s], (double)y->power[s]);
        if (same &&
            (fabs(x->residual - y->residual) > 1e-3 * x->residual || fabs(x->reliability - y->reliability) > 1e-3))
            fail_msg("particle %d: residual %g and %g, reliability %g and %g", i, x->residual, y->residual,
                     x->reliability, y->reliability);
        for (int k = 0; k < d->trial.references; k++)
            if (fabsf(x->reference_weights[k] - y->reference_weights[k]) > 0.02f)
                fail_msg("particle %d: reference %d weighs %g and %g", i, k, (double)x->reference_weights[k],
                         (double)y->reference_weights[k]);
    }
    if (moved > 1 + n / 20) fail_msg("%d of %d particles have another best pose", moved, n);
    for (int k = 0; k < d->trial.references; k++) {
        double differ = sums_differ(a->sums[k], b->sums[k]);
        if (differ > 3e-3) fail_msg("sums of reference %d differ by %g", k, differ);
    }
}

/* Compares maps: |a − b| / |a|. */
static void check_maps(const struct data *d, const struct outcome *a, const struct outcome *b) {
    size_t voxels = (size_t)d->trial.box * (size_t)d->trial.box * (size_t)d->trial.box;
    for (int k = 0; d->trial.symmetry != NULL && k < d->trial.references; k++) {
        double error = 0, norm = 0;
        for (size_t i = 0; i < voxels; i++) {
            double difference = a->maps[k][i] - b->maps[k][i];
            error += difference * difference, norm += a->maps[k][i] * a->maps[k][i];
        }
        if (!(norm > 0) || !(error < 1e-5 * norm)) fail_msg("maps of reference %d differ by %g", k, sqrt(error / norm));
    }
}

/* Samples are not limited: which of several nearly equal ones comes last within a limit depends on rounding. */
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
    {.box = 32,
     .size = 32,
     .coarse_size = 14,
     .order = 1,
     .references = 2,
     .particles = 33,
     .offset_range = 3,
     .offset_step = 2,
     .oversampled = true,
     .max_significant = 100000},
    {.box = 48,
     .size = 40,
     .coarse_size = 40,
     .order = 4,
     .references = 1,
     .particles = 20,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = true,
     .local = true,
     .max_significant = 100000},
    {.box = 32,
     .size = 20,
     .coarse_size = 20,
     .order = 2,
     .references = 2,
     .particles = 9,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = false,
     .max_significant = 100000},
    {.box = 32,
     .size = 28,
     .coarse_size = 14,
     .order = 1,
     .references = 2,
     .particles = 21,
     .offset_range = 3,
     .offset_step = 2,
     .oversampled = true,
     .max_significant = 100000,
     .shared_shell = 5},
    {.box = 48,
     .size = 40,
     .coarse_size = 30,
     .order = 4,
     .references = 1,
     .particles = 12,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = true,
     .local = true,
     .max_significant = 100000,
     .shared_shell = 8},
    {.box = 48,
     .size = 48,
     .coarse_size = 30,
     .order = 4,
     .references = 1,
     .particles = 24,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = true,
     .local = true,
     .max_significant = 100000,
     .summed = 0.98,
     .reference_size = 30},
    {.box = 32,
     .size = 32,
     .coarse_size = 14,
     .order = 1,
     .references = 2,
     .particles = 20,
     .offset_range = 3,
     .offset_step = 2,
     .oversampled = true,
     .max_significant = 100000,
     .reference_size = 22},
    {.box = 32,
     .size = 28,
     .coarse_size = 20,
     .order = 1,
     .references = 2,
     .particles = 30,
     .offset_range = 3,
     .offset_step = 2,
     .oversampled = true,
     .max_significant = 100000,
     .rounded = true},
    {.box = 32,
     .size = 28,
     .coarse_size = 20,
     .order = 1,
     .references = 2,
     .particles = 30,
     .offset_range = 3,
     .offset_step = 2,
     .oversampled = true,
     .max_significant = 100000,
     .summed = 0.9,
     .screen_size = 10},
    {.box = 32,
     .size = 24,
     .coarse_size = 16,
     .order = 2,
     .references = 1,
     .particles = 12,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = false,
     .max_significant = 100000,
     .screen_size = 12},
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
    {.box = 34,
     .size = 30,
     .coarse_size = 30,
     .order = 1,
     .references = 1,
     .particles = 40,
     .local = true,
     .given = true,
     .offset_step = 1,
     .max_significant = 100000},
    {.box = 32,
     .size = 32,
     .coarse_size = 20,
     .order = 2,
     .references = 1,
     .particles = 12,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = true,
     .local = true,
     .near_sigma = 20,
     .max_significant = 100000},
    {.box = 32,
     .size = 32,
     .coarse_size = 20,
     .order = 2,
     .references = 2,
     .particles = 40,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = true,
     .local = true,
     .near_sigma = 10,
     .near_range = 16,
     .max_significant = 100000},
};

/* Directions of the asymmetric unit only, or of the whole sphere near the last pose, as in the refiner. */
static const struct trial SYMMETRIC[] = {
    {.box = 32,
     .size = 24,
     .coarse_size = 14,
     .order = 1,
     .references = 1,
     .particles = 24,
     .offset_range = 3,
     .offset_step = 1.5,
     .oversampled = true,
     .max_significant = 100000,
     .symmetry = "C4"},
    {.box = 32,
     .size = 28,
     .coarse_size = 14,
     .order = 1,
     .references = 2,
     .particles = 24,
     .offset_range = 3,
     .offset_step = 1.5,
     .oversampled = true,
     .max_significant = 100000,
     .symmetry = "D2"},
    {.box = 32,
     .size = 24,
     .coarse_size = 16,
     .order = 2,
     .references = 1,
     .particles = 24,
     .offset_range = 3,
     .offset_step = 1.5,
     .oversampled = true,
     .max_significant = 100000,
     .symmetry = "O"},
    {.box = 32,
     .size = 24,
     .coarse_size = 16,
     .order = 2,
     .references = 2,
     .particles = 24,
     .offset_range = 3,
     .offset_step = 1.5,
     .oversampled = true,
     .max_significant = 100000,
     .symmetry = "I"},
    {.box = 48,
     .size = 40,
     .coarse_size = 40,
     .order = 4,
     .references = 1,
     .particles = 12,
     .offset_range = 2,
     .offset_step = 1,
     .oversampled = true,
     .local = true,
     .max_significant = 100000,
     .symmetry = "O"},
};

/* Returns whether the best pose of any particle has another probability, on the CPU, if its image is multiplied by
 * numbers that deviate from 1 by so much. other: a part of that probability. */
static bool changes(struct data *d, const struct outcome *cpu, float deviation, double other) {
    const size_t pixels = (size_t)d->trial.box * (size_t)d->trial.box, count = (size_t)d->trial.particles;
    float *images = new (count * pixels, sizeof *images);
    const float **before = new (count, sizeof *before);
    struct outcome changed;
    struct err err = {0};
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        before[i] = d->particles[i].image;
        for (size_t x = 0; x < pixels; x++)
            images[i * pixels + x] = before[i][x] * (1 + deviation * (float)phantom_normal(&seed));
        d->particles[i].image = images + i * pixels;
    }
    must(run(d, DEVICE_CPU, HOST, 2e9, &changed, &err), &err);
    for (size_t i = 0; i < count; i++) {
        found = found || fabs(changed.results[i].pmax - cpu->results[i].pmax) > other * cpu->results[i].pmax;
        d->particles[i].image = before[i];
    }
    discard_outcome(&changed);
    free(before);
    free(images);
    return found;
}

/* Returns whether rounding decides which poses are kept of a particle. Where a device multiplies rounded values, images
 * that differ in the third digit tell. */
static bool on_an_edge(struct data *d, const struct outcome *cpu) {
    if (!d->trial.rounded && d->trial.screen_size == 0) return changes(d, cpu, 1e-5f, 0.01);
    bool edge = false;
    for (int i = 0; i < 3 && !edge; i++)
        edge = changes(d, cpu, 4e-3f, 0.04);
    return edge;
}

/* Makes particles and compares them on the CPU. Others take their place where rounding decides. */
static void make_clear(const struct trial *trial, struct data *d, struct outcome *cpu) {
    enum { TRIES = 12 };
    struct err err = {0};
    for (int i = 0; i < TRIES; i++) {
        make(trial, d);
        must(run(d, DEVICE_CPU, HOST, 2e9, cpu, &err), &err);
        if (!on_an_edge(d, cpu)) return;
        print_message("of these particles rounding decides: others are made\n");
        discard_outcome(cpu);
        discard(d);
    }
    fail_msg("of %d sets of particles none is clear of rounding", TRIES);
}

static void check_trial(const struct trial *trial) {
    struct data d;
    struct outcome cpu, cuda, again;
    struct err err = {0};
    make_clear(trial, &d, &cpu);
    print_message("box %d, order %d, %d orientations, %s, seed %llu\n", trial->box, trial->order,
                  sampling_orientation_count(&d.sampling), d.symmetry.name, (unsigned long long)seed);
    must(run(&d, DEVICE_CUDA, HOST, 2e9, &cuda, &err), &err);
    must(run(&d, DEVICE_CUDA, HOST, 2e9, &again, &err), &err);
    check_same(&d, &cuda, &again);
    check_alike(&d, &cpu, &cuda);
    check_maps(&d, &cpu, &cuda);
    /* Sums that stay on the device are the same, and so are poses from references prepared there. Work on sums there
     * rounds differently. */
    discard_outcome(&again);
    must(run(&d, DEVICE_CUDA, SUMS_THERE, 2e9, &again, &err), &err);
    if (trial->symmetry == NULL) check_same(&d, &cuda, &again);
    check_alike(&d, &cpu, &again);
    check_maps(&d, &cuda, &again);
    discard_outcome(&again);
    must(run(&d, DEVICE_CUDA, ALL_THERE, 2e9, &again, &err), &err);
    check_alike(&d, &cpu, &again);
    check_maps(&d, &cpu, &again);
    discard_outcome(&cpu);
    discard_outcome(&cuda);
    discard_outcome(&again);
    discard(&d);
}

static void agrees_with_the_cpu(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof TRIALS / sizeof *TRIALS; i++)
        check_trial(&TRIALS[i]);
}

static void symmetric_particles(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof SYMMETRIC / sizeof *SYMMETRIC; i++)
        check_trial(&SYMMETRIC[i]);
}

/* Fills ret[3]: mean, D, N. */
static void find_scale(const struct data *d, enum device_kind kind, double ret[3]) {
    struct alignment_options options = {.device = {kind, 0},
                                        .threads = 2,
                                        .memory = 2e9,
                                        .box = d->trial.box,
                                        .pixel_size = 1.5,
                                        .mask_radius = 0.42 * d->trial.box,
                                        .max_significant = d->trial.max_significant};
    struct alignment *alignment = NULL;
    struct outcome o;
    struct err err = {0};
    int count = d->trial.particles;
    make_outcome(d, &o);
    must(alignment_create(&options, &alignment, &err), &err);
    struct alignment_iteration iteration = iteration_of(d, &o, NULL);
    iteration.reference_count = 1;
    must(alignment_begin(alignment, &iteration, &err), &err);
    if (count > alignment_batch(alignment)) count = alignment_batch(alignment);
    ret[1] = ret[2] = 0;
    must(alignment_scale(alignment, d->particles, count, &ret[0], &ret[1], &ret[2], &err), &err);
    double mean = 0;
    must(alignment_scale(alignment, d->particles, count, &mean, NULL, NULL, &err), &err);
    assert_true(fabs(mean / ret[0] - 1) < 1e-5);
    alignment_destroy(&alignment);
    discard_outcome(&o);
}

/* If two poses fit equally well within rounding, either is accepted. */
static void the_scale_is_that_of_the_cpu(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof TRIALS / sizeof *TRIALS; i++) {
        struct data d;
        double cpu[3], cuda[3];
        if (TRIALS[i].local || TRIALS[i].screen_size > 0 || TRIALS[i].rounded)
            continue; /* no scale is measured in these */
        make(&TRIALS[i], &d);
        find_scale(&d, DEVICE_CPU, cpu);
        find_scale(&d, DEVICE_CUDA, cuda);
        print_message("trial %zu: mean %.8g %.8g, D %.8g %.8g, N %.8g %.8g\n", i, cpu[0], cuda[0], cpu[1], cuda[1],
                      cpu[2], cuda[2]);
        assert_true(fabs(cuda[0] / cpu[0] - 1) < 1e-4);
        assert_true(cpu[1] > 0 && fabs(cuda[1] / cuda[2] / (cpu[1] / cpu[2]) - 1) < 1e-3);
        discard(&d);
    }
}

static void little_memory_is_enough_or_refused(void **state) {
    (void)state;
    struct data d;
    struct outcome plenty, little;
    struct err err = {0};
    make(&TRIALS[0], &d);
    must(run(&d, DEVICE_CUDA, HOST, 2e9, &plenty, &err), &err);
    double memory = 4e6;
    for (; run(&d, DEVICE_CUDA, HOST, memory, &little, &err) != STATUS_OK; memory *= 1.2) {
        if (memory > 1e9 || !strstr(err.message, "memory")) fail_msg("%s", err.message);
        discard_outcome(&little);
        err = (struct err){0};
    }
    print_message("%.1f MB are enough\n", memory / 1e6);
    check_alike(&d, &plenty, &little);
    discard_outcome(&little);
    discard_outcome(&plenty);
    discard(&d);
}

/* Times iterations like those of a refinement of 128² particles. */
static void time_all(int particles) {
    static const struct trial trials[] = {
        {.box = 128,
         .size = 40,
         .coarse_size = 26,
         .order = 2,
         .references = 1,
         .offset_range = 5,
         .offset_step = 2,
         .oversampled = true,
         .max_significant = 2000},
        {.box = 128,
         .size = 60,
         .coarse_size = 40,
         .order = 3,
         .references = 1,
         .offset_range = 5,
         .offset_step = 2,
         .oversampled = true,
         .max_significant = 2000},
        {.box = 128,
         .size = 90,
         .coarse_size = 90,
         .order = 5,
         .references = 1,
         .offset_range = 2.5,
         .offset_step = 1,
         .oversampled = true,
         .local = true,
         .max_significant = 2000},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        struct trial t = trials[i];
        struct data d;
        struct outcome o;
        struct err err = {0};
        t.particles = particles;
        make(&t, &d);
        enum status status = run(&d, DEVICE_CUDA, ALL_THERE, 16e9, &o, &err);
        double significant = 0;
        for (int p = 0; p < particles; p++)
            significant += o.results[p].significant / (double)particles;
        print_message("order %d, size %d of %d, %d particles, %.0f samples each: %.3f s%s%s\n", t.order, t.size, t.box,
                      particles, significant, o.seconds, status == STATUS_OK ? "" : ": ", err.message);
        discard_outcome(&o);
        discard(&d);
    }
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    bool timed = argc > 1 && strcmp(argv[1], "time") == 0;
    choose_seed(argc > 1 && !timed ? argv[1] : NULL);
    if (timed) {
        time_all(argc > 2 ? atoi(argv[2]) : 2048);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_cpu),
        cmocka_unit_test(symmetric_particles),
        cmocka_unit_test(the_scale_is_that_of_the_cpu),
        cmocka_unit_test(little_memory_is_enough_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
