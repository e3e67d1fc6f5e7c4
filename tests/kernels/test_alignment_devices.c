/* The whole E-step on a CUDA device against the CPU's, twice bit for bit, and with little memory; simulated particles of
 * one or two phantoms, fresh from a printed seed: test_alignment_devices [SEED]. `time [PARTICLES]` prints how long
 * iterations take. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/alignment/alignment.h"
#include "kernels/reconstruct/accumulator.h"
#include "kernels/symmetry/symmetry.h"
#include "tests/kernels/phantom.h"

enum { REFERENCES = 2, THREADS = 2 };
static uint64_t seed;

struct trial {
    int box, size, coarse_size, order, references, particles;
    double offset_range, offset_step;
    bool local, oversampled;
    int max_significant;
};

struct data {
    struct trial trial;
    float *maps[REFERENCES], *images, *sigma2;
    struct projector *projectors[REFERENCES];
    struct fourier_pixels pixels;
    struct sampling sampling;
    struct ctf *ctfs;
    struct alignment_particle *particles;
};

struct outcome {
    struct alignment_result *results;
    float *power, *weights;
    struct accumulator *sums[REFERENCES];
    double seconds;
};

static void must(enum status status, const struct err *err) {
    if (status != STATUS_OK) fail_msg("%s", err->message);
}

static void *new(size_t count, size_t size) {
    void *memory = calloc(count, size);
    assert_non_null(memory);
    return memory;
}

/* A phantom's projection, its centre moved by (x, y), with noise of deviation 1. The second phantom is the mirror image
 * of the first. */
static void project(const struct trial *t, const double pose[9], int reference, double x, double y, float *image) {
    int box = t->box;
    for (int i = 0; i < box * box; i++)
        image[i] = (float)phantom_normal(&seed);
    for (int b = 0; b < PHANTOM_BLOBS; b++) {
        const struct phantom_blob *p = &phantom_blobs[b];
        double at[3] = {reference ? -p->x : p->x, p->y, p->z}, centre[2];
        for (int axis = 0; axis < 2; axis++)
            centre[axis] = box / 2 + box * (pose[3 * axis] * at[0] + pose[3 * axis + 1] * at[1] + pose[3 * axis + 2] * at[2]);
        centre[0] -= x, centre[1] -= y;
        double variance = p->sigma * p->sigma, height = 0.4 * p->height * sqrt(2 * M_PI * variance);
        for (int j = 0; j < box; j++)
            for (int i = 0; i < box; i++) {
                double dx = i - centre[0], dy = j - centre[1];
                image[j * box + i] += (float)(height * exp(-(dx * dx + dy * dy) / (2 * variance)));
            }
    }
}

static void make_map(int box, int reference, float *map) {
    phantom_map(box, map);
    for (int zy = 0; reference && zy < box * box; zy++)
        for (int x = 1; x < box / 2; x++) {
            float *row = map + (size_t)zy * (size_t)box, value = row[x];
            row[x] = row[box - x];
            row[box - x] = value;
        }
    for (size_t i = 0; i < (size_t)box * (size_t)box * (size_t)box; i++)
        map[i] *= 0.4f;
}

static void make_particles(struct data *d) {
    const struct trial *t = &d->trial;
    size_t pixels = (size_t)t->box * (size_t)t->box;
    for (int i = 0; i < t->particles; i++) {
        double pose[9], x = 4 * (phantom_uniform(&seed) - 0.5), y = 4 * (phantom_uniform(&seed) - 0.5);
        struct alignment_particle *p = &d->particles[i];
        euler_to_matrix(360 * phantom_uniform(&seed), acos(2 * phantom_uniform(&seed) - 1) * 180 / M_PI,
                        360 * phantom_uniform(&seed), pose);
        *p = (struct alignment_particle){.image = d->images + (size_t)i * pixels, .shift = {i % 3 - 1, 0}, .scale = 1};
        p->optics = i % 2;
        p->residual = i % 3 == 0 ? -1 : 0.5 + phantom_uniform(&seed);
        p->known_shell = t->size / 3;
        memcpy(p->pose, pose, sizeof pose);
        d->ctfs[i] = (struct ctf){.defocus_u = 1e4 + 1e4 * phantom_uniform(&seed), .defocus_v = 1.2e4, .defocus_angle = 30,
                                  .voltage = 300, .spherical_aberration = 2.7, .amplitude_contrast = 0.1, .scale = 1};
        if (i % 4 != 0) p->ctf = &d->ctfs[i];
        project(t, pose, i % t->references, x, y, d->images + (size_t)i * pixels);
    }
}

static void make(const struct trial *t, struct data *d) {
    struct err err = {0};
    size_t box = (size_t)t->box, n = (size_t)t->particles;
    *d = (struct data){.trial = *t};
    d->images = new(n * box * box, sizeof(float));
    d->ctfs = new(n, sizeof *d->ctfs);
    d->particles = new(n, sizeof *d->particles);
    d->sigma2 = new(2 * (box / 2 + 1), sizeof(float));
    for (size_t s = 0; s < 2 * (box / 2 + 1); s++)
        d->sigma2[s] = (float)((s < box / 2 + 1 ? 1 : 1.3) / (2.0 * (double)(box * box)));
    must(fourier_pixels_create(t->box, t->size, &d->pixels, &err), &err);
    must(sampling_create(t->order, NULL, t->offset_range, t->offset_step, &d->sampling, &err), &err);
    sampling_perturb(&d->sampling, 0.21);
    for (int k = 0; k < t->references; k++) {
        d->maps[k] = new(box * box * box, sizeof(float));
        make_map(t->box, k, d->maps[k]);
        must(projector_create(3, t->box, THREADS, &d->projectors[k], &err), &err);
        must(projector_set_map(d->projectors[k], d->maps[k], t->size, &err), &err);
    }
    make_particles(d);
}

static void discard(struct data *d) {
    for (int k = 0; k < REFERENCES; k++) {
        free(d->maps[k]);
        projector_destroy(&d->projectors[k]);
    }
    fourier_pixels_destroy(&d->pixels);
    sampling_destroy(&d->sampling);
    free(d->images);
    free(d->ctfs);
    free(d->particles);
    free(d->sigma2);
}

static void make_outcome(const struct data *d, struct outcome *o) {
    struct err err = {0};
    size_t n = (size_t)d->trial.particles, shells = (size_t)d->trial.box / 2 + 1, references = (size_t)d->trial.references;
    *o = (struct outcome){.results = new(n, sizeof *o->results)};
    o->power = new(n * shells, sizeof(float));
    o->weights = new(n * references, sizeof(float));
    memset(o->power, 0xff, n * shells * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        o->results[i].power = o->power + i * shells;
        o->results[i].reference_weights = o->weights + i * references;
    }
    for (size_t k = 0; k < references; k++)
        must(accumulator_create(3, d->trial.box, d->trial.size, &o->sums[k], &err), &err);
}

static void discard_outcome(struct outcome *o) {
    for (int k = 0; k < REFERENCES; k++)
        accumulator_destroy(&o->sums[k]);
    free(o->results);
    free(o->power);
    free(o->weights);
}

static struct alignment_iteration iteration_of(const struct data *d, const struct outcome *o, const float *priors) {
    return (struct alignment_iteration){.pixels = &d->pixels,
                                        .coarse_pixels = fourier_pixels_within(&d->pixels, d->trial.coarse_size),
                                        .sampling = &d->sampling,
                                        .local = d->trial.local,
                                        .oversampled = d->trial.oversampled,
                                        .reference_count = d->trial.references,
                                        .references = d->projectors,
                                        .sums = o->sums,
                                        .reference_log_prior = d->trial.references > 1 ? priors : NULL,
                                        .sigma_offset = 3,
                                        .sigma2 = d->sigma2,
                                        .optics_count = 2};
}

/* Where references and sums are. */
enum place { HOST, SUMS_THERE, ALL_THERE };

static void place_all(const struct data *d, enum place place, struct workspace *w, struct outcome *o) {
    struct err err = {0};
    for (int k = 0; k < d->trial.references; k++) {
        if (place >= SUMS_THERE) must(accumulator_clear_on(o->sums[k], w, d->trial.size, &err), &err);
        if (place >= ALL_THERE) must(projector_set_map_on(d->projectors[k], w, d->maps[k], d->trial.size, &err), &err);
    }
}

/* Back to the host, where they are compared. */
static void fetch_all(const struct data *d, enum place place, struct outcome *o) {
    struct err err = {0};
    const struct device device = {DEVICE_CUDA, 0};
    for (int k = 0; k < d->trial.references; k++) {
        struct accumulator_grid there = accumulator_grid(o->sums[k]);
        if (place >= SUMS_THERE) {
            void *values = new(1, there.bytes);
            must(device_get(&device, values, there.values, there.bytes, &err), &err);
            must(accumulator_clear(o->sums[k], d->trial.size, &err), &err);
            memcpy(o->sums[k]->voxels, values, there.bytes);
            free(values);
        }
        if (place >= ALL_THERE) must(projector_set_map(d->projectors[k], d->maps[k], d->trial.size, &err), &err);
    }
}

static enum status run(const struct data *d, enum device_kind kind, enum place place, double memory, struct outcome *o,
                       struct err *err) {
    static const float priors[REFERENCES] = {-0.5f, -0.9f};
    struct alignment_options options = {.device = {kind, 0},
                                        .threads = THREADS,
                                        .memory = memory,
                                        .box = d->trial.box,
                                        .pixel_size = 1.5,
                                        .mask_radius = 0.42 * d->trial.box,
                                        .max_significant = d->trial.max_significant,
                                        .reliability = ALIGNMENT_NORM_L2};
    struct alignment *alignment = NULL;
    make_outcome(d, o);
    TRY(alignment_create(&options, &alignment, err));
    struct alignment_iteration iteration = iteration_of(d, o, priors);
    if (place != HOST) place_all(d, place, alignment_workspace(alignment), o);
    double began = clock_monotonic();
    enum status status = alignment_begin(alignment, &iteration, err);
    for (int first = 0, count; status == STATUS_OK && first < d->trial.particles; first += count) {
        count = alignment_batch(alignment);
        if (count > d->trial.particles - first) count = d->trial.particles - first;
        status = alignment_add(alignment, d->particles + first, count, o->results + first, err);
    }
    if (status == STATUS_OK) status = alignment_finish(alignment, err);
    o->seconds = clock_monotonic() - began;
    if (place != HOST) fetch_all(d, place, o);
    alignment_destroy(&alignment);
    return status;
}

static size_t voxels_of(const struct accumulator *a) {
    return (size_t)a->nx * (size_t)a->ny * (size_t)a->nz;
}

/* |a − b| over |a|, of the sums of a reference. */
static double sums_differ(const struct accumulator *a, const struct accumulator *b) {
    double difference = 0, norm = 0;
    assert_int_equal(voxels_of(a), voxels_of(b));
    for (size_t i = 0; i < voxels_of(a); i++)
        for (int c = 0; c < 2; c++) {
            double e = a->voxels[i][c] - b->voxels[i][c];
            difference += e * e;
            norm += a->voxels[i][c] * a->voxels[i][c];
        }
    return sqrt(difference / norm);
}

/* Where rounding moves a pose across the edge of what is kept, a thousandth of a particle's weight moves with it. */
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
        if (same && (fabs(x->residual - y->residual) > 1e-3 * x->residual ||
                     fabs(x->reliability - y->reliability) > 1e-3))
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

static void check_same(const struct data *d, const struct outcome *a, const struct outcome *b) {
    size_t n = (size_t)d->trial.particles, shells = (size_t)d->trial.box / 2 + 1;
    for (size_t i = 0; i < n; i++)
        assert_memory_equal(a->results[i].pose, b->results[i].pose, offsetof(struct alignment_result, power));
    assert_memory_equal(a->power, b->power, n * shells * sizeof(float));
    for (int k = 0; k < d->trial.references; k++)
        assert_memory_equal(a->sums[k]->voxels, b->sums[k]->voxels, voxels_of(a->sums[k]) * sizeof(accumulator_voxel));
}

/* Without a bound on samples: beyond it the CPU and the device choose a few others. */
static const struct trial TRIALS[] = {
    {.box = 32, .size = 24, .coarse_size = 12, .order = 1, .references = 1, .particles = 40, .offset_range = 3,
     .offset_step = 1.5, .oversampled = true, .max_significant = 100000},
    {.box = 32, .size = 32, .coarse_size = 14, .order = 1, .references = 2, .particles = 33, .offset_range = 3,
     .offset_step = 2, .oversampled = true, .max_significant = 100000},
    {.box = 48, .size = 40, .coarse_size = 40, .order = 4, .references = 1, .particles = 20, .offset_range = 2,
     .offset_step = 1, .oversampled = true, .local = true, .max_significant = 100000},
    {.box = 32, .size = 20, .coarse_size = 20, .order = 2, .references = 2, .particles = 9, .offset_range = 2,
     .offset_step = 1, .oversampled = false, .max_significant = 100000},
};

static void agrees_with_the_cpu(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof TRIALS / sizeof *TRIALS; i++) {
        struct data d;
        struct outcome cpu, cuda, again;
        struct err err = {0};
        print_message("trial %zu, seed %llu\n", i, (unsigned long long)seed);
        make(&TRIALS[i], &d);
        must(run(&d, DEVICE_CPU, HOST, 2e9, &cpu, &err), &err);
        must(run(&d, DEVICE_CUDA, HOST, 2e9, &cuda, &err), &err);
        must(run(&d, DEVICE_CUDA, HOST, 2e9, &again, &err), &err);
        check_same(&d, &cuda, &again);
        check_alike(&d, &cpu, &cuda);
        /* The same sums where they stay on the device, and poses from references that were prepared there. */
        discard_outcome(&again);
        must(run(&d, DEVICE_CUDA, SUMS_THERE, 2e9, &again, &err), &err);
        check_same(&d, &cuda, &again);
        discard_outcome(&again);
        must(run(&d, DEVICE_CUDA, ALL_THERE, 2e9, &again, &err), &err);
        check_alike(&d, &cpu, &again);
        discard_outcome(&cpu);
        discard_outcome(&cuda);
        discard_outcome(&again);
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

/* As iterations of a refinement of 128² particles are. */
static void time_all(int particles) {
    static const struct trial trials[] = {
        {.box = 128, .size = 40, .coarse_size = 26, .order = 2, .references = 1, .offset_range = 5, .offset_step = 2,
         .oversampled = true, .max_significant = 2000},
        {.box = 128, .size = 60, .coarse_size = 40, .order = 3, .references = 1, .offset_range = 5, .offset_step = 2,
         .oversampled = true, .max_significant = 2000},
        {.box = 128, .size = 90, .coarse_size = 90, .order = 5, .references = 1, .offset_range = 2.5, .offset_step = 1,
         .oversampled = true, .local = true, .max_significant = 2000},
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
    int devices = 0;
    if (device_count(&devices, NULL) != STATUS_OK || devices < 1) {
        puts("skipped: no CUDA device");
        return 77;
    }
    seed = (uint64_t)time(NULL);
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        time_all(argc > 2 ? atoi(argv[2]) : 2048);
        return 0;
    }
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_cpu),
        cmocka_unit_test(little_memory_is_enough_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
