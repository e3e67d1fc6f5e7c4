/* Compares the preparation of particles on a CUDA device with kernels/prepare, kernels/ctf and plain sums. New random
 * input from a printed seed: test_alignment_prepare_devices [SEED], or `time` for the time of each size and its lower
 * bound. */
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "kernels/alignment/cuda/alignment.h"
#include "kernels/ctf/ctf.h"
#include "kernels/prepare/prepare.h"
#include "tests/kernels/devices.h"

/* Bytes per second that an H200 copies, reading and writing together. */
static const double COPIED = 4.0e12;
static const double PIXEL_SIZE = 1.37;
enum { GROUPS = 3, SHIFTS = 13 };
static bool timed;

struct trial {
    int box, size, count, most;
    double mask_radius;
    int shared_shell;
    size_t stride, n, shells, area;
    struct fourier_pixels pixels;
    float *images, *sigma2, shifts[SHIFTS][2];
    struct prepare_particle_cuda *which;
    struct ctf *ctfs;
    struct aberration *evens;
};

/* Results of a preparation. */
struct prepared {
    float *masked, *unmasked, *ctf, *weight, *prior, *power;
    double *constant;
};

/* All even Zernike polynomials there can be, a radian or so of each power at the last shell. */
static const struct aberration *make_even(struct aberration *even) {
    double coefficients[ABERRATION_EVEN_MOST];
    for (int k = 0, i = 0; k < 5; k++)
        for (; i < (k + 1) * (k + 1); i++)
            coefficients[i] = 0.3 * normal() * pow(2 * PIXEL_SIZE, 2 * k);
    *even = aberration_none();
    aberration_add_even(even, coefficients, ABERRATION_EVEN_MOST);
    return even;
}

static void make_particle(struct trial *t, int i) {
    struct prepare_particle_cuda *p = &t->which[i];
    p->shift_x = (int)(9 * normal()), p->shift_y = (int)(9 * normal());
    if (i == 1) p->shift_x = t->box + 1; /* shifts everything out of the box */
    if (i == 2) p->shift_x = -t->box / 2, p->shift_y = t->box / 2;
    p->optics = (int)(uniform() * GROUPS);
    p->has_ctf = uniform() < 0.8;
    p->scale = (float)(0.5 + uniform());
    t->ctfs[i] = (struct ctf){.defocus_u = 3000 + 30000 * uniform(),
                              .defocus_angle = 360 * uniform(),
                              .voltage = 300,
                              .spherical_aberration = 2.7,
                              .amplitude_contrast = 0.1,
                              .scale = 0.5 + uniform(),
                              .phase_shift = i % 3 == 0 ? 90 * uniform() : 0,
                              .b_factor = i % 2 ? 80 * uniform() : 0};
    t->ctfs[i].defocus_v = t->ctfs[i].defocus_u + 1500 * normal();
    if (i % 4 == 1) t->ctfs[i].even = make_even(&t->evens[i]);
    if (i % 5 == 2) t->ctfs[i].limit = (0.3 + 0.3 * uniform()) / PIXEL_SIZE;
    struct ctf_terms terms = ctf_prepare(&t->ctfs[i]);
    memcpy(p->ctf, &terms, sizeof terms);
}

static void make_trial(struct trial *t) {
    struct err err = {0};
    must(fourier_pixels_create(t->box, t->size, &t->pixels, &err), &err);
    t->n = (size_t)t->pixels.count, t->shells = (size_t)t->box / 2 + 1, t->area = (size_t)t->box * (size_t)t->box;
    t->stride = t->n + 7;
    t->images = host_new(t->area * (size_t)t->count, sizeof(float));
    t->sigma2 = host_new(GROUPS * t->shells, sizeof(float));
    t->which = host_new((size_t)t->count, sizeof *t->which);
    t->ctfs = host_new((size_t)t->count, sizeof *t->ctfs);
    t->evens = host_new((size_t)t->count, sizeof *t->evens);
    for (size_t i = 0; i < t->area * (size_t)t->count; i++)
        t->images[i] = (float)(0.3 + (i % 5 == 0 ? 4 : 1) * (uniform() - 0.5));
    for (size_t i = 0; i < GROUPS * t->shells; i++)
        t->sigma2[i] = (float)(1e-5 * exp(normal()));
    for (int i = 0; i < SHIFTS; i++)
        for (int j = 0; j < 2; j++)
            t->shifts[i][j] = (float)normal();
    for (int i = 0; i < t->count; i++)
        make_particle(t, i);
}

static void free_trial(struct trial *t) {
    fourier_pixels_destroy(&t->pixels);
    free(t->images);
    free(t->sigma2);
    free(t->which);
    free(t->ctfs);
    free(t->evens);
}

static struct prepared new_prepared(const struct trial *t) {
    size_t count = (size_t)t->count;
    size_t values = count * t->stride;
    return (struct prepared){host_new(2 * values, sizeof(float)),     host_new(2 * values, sizeof(float)),
                             host_new(values, sizeof(float)),         host_new(values, sizeof(float)),
                             host_new(count * SHIFTS, sizeof(float)), host_new(count * t->shells, sizeof(float)),
                             host_new(count, sizeof(double))};
}

static void free_prepared(struct prepared *p) {
    float *floats[] = {p->masked, p->unmasked, p->ctf, p->weight, p->prior, p->power};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        free(floats[i]);
    free(p->constant);
}

/* Returns the seconds of a run, averaged over `repeats`, or the result. */
static double run(const struct trial *t, struct prepared *ret, int repeats) {
    struct err err = {0};
    struct prepare_cuda *prepare = NULL, *smaller = NULL;
    size_t count = (size_t)t->count;
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    must(prepare_cuda_create(t->box, t->most, &prepare, &err), &err);
    must(prepare_cuda_create(16, 1, &smaller, &err), &err); /* it must leave the other its shared memory */
    struct references_cuda references = {.pixels = {.kx = on_device(t->pixels.kx, t->n, sizeof(short)),
                                                    .ky = on_device(t->pixels.ky, t->n, sizeof(short)),
                                                    .box = t->box,
                                                    .count = t->pixels.count},
                                         .shell = on_device(t->pixels.shell, t->n, sizeof(short))};
    struct sampling_cuda sampling = {.shift_count = SHIFTS, .shifts = on_device(t->shifts, 2 * SHIFTS, sizeof(float))};
    struct particles_cuda p = {.count = t->count,
                               .stride = t->stride,
                               .masked = on_device(NULL, 2 * count * t->stride, sizeof(float)),
                               .unmasked = on_device(NULL, 2 * count * t->stride, sizeof(float)),
                               .ctf = on_device(NULL, count * t->stride, sizeof(float)),
                               .weight = on_device(NULL, count * t->stride, sizeof(float)),
                               .shift_log_prior = on_device(NULL, count * SHIFTS, sizeof(float)),
                               .power = on_device(NULL, count * t->shells, sizeof(float)),
                               .constant = on_device(NULL, count, sizeof(double))};
    const float *images = on_device(t->images, count * t->area, sizeof(float));
    const float *sigma2 = on_device(t->sigma2, GROUPS * t->shells, sizeof(float));
    const struct prepare_particle_cuda *which = on_device(t->which, count, sizeof *which);
    void *scratch = on_device(NULL, 1, prepare_cuda_scratch(prepare, t->count, t->shared_shell));
    double start = 0;
    for (int i = 0; i <= repeats; i++) {
        must(prepare_cuda_run(prepare, &references, &sampling, images, which, PIXEL_SIZE, t->mask_radius,
                              t->shared_shell, sigma2, 2.5, scratch, &p, NULL, &err),
             &err);
        if (i > 0) continue;
        from_device(ret->constant, p.constant, count * sizeof(double));
        start = clock_monotonic();
    }
    from_device(ret->constant, p.constant, count * sizeof(double));
    double seconds = clock_monotonic() - start;
    from_device(ret->masked, p.masked, 2 * count * t->stride * sizeof(float));
    from_device(ret->unmasked, p.unmasked, 2 * count * t->stride * sizeof(float));
    from_device(ret->ctf, p.ctf, count * t->stride * sizeof(float));
    from_device(ret->weight, p.weight, count * t->stride * sizeof(float));
    from_device(ret->prior, p.shift_log_prior, count * SHIFTS * sizeof(float));
    from_device(ret->power, p.power, count * t->shells * sizeof(float));
    prepare_cuda_destroy(&smaller);
    prepare_cuda_destroy(&prepare);
    assert_null(prepare);
    arena_close(arena, ARENA_ITERATION);
    return repeats > 0 ? seconds / repeats : 0;
}

/* Checks |found − expected| ≤ bound; NaN fails. */
static void near(const char *what, int particle, size_t at, double found, double expected, double bound) {
    if (!(fabs(found - expected) <= bound))
        fail_msg("%s of particle %d, %zu: %.9g, expected %.9g (bound %.2g)", what, particle, at, found, expected,
                 bound);
}

static void untouched(const char *what, int particle, const float *values, size_t count) {
    uint32_t word;
    for (size_t i = 0; i < count; i++) {
        memcpy(&word, values + i, sizeof word);
        if (word != 0xffffffffu) fail_msg("%s of particle %d: %zu beyond its end was written", what, particle, i);
    }
}

/* Transforms have an error of 1e-7 of the whole spectrum's mean, a few times that at the worst of many pixels; near the
 * origin the error grows with the values there. */
static void check_particle(const struct trial *t, const struct prepared *p, int i, struct prepare *prepare,
                           float *masked, float *unmasked, float *ctf) {
    const struct prepare_particle_cuda *w = &t->which[i];
    const struct prepare_options options = {w->shift_x, w->shift_y, (double)w->scale, t->mask_radius, t->shared_shell};
    const float *image = t->images + (size_t)i * t->area, *sigma2 = t->sigma2 + (size_t)w->optics * t->shells;
    float power[4097];
    double rms = 0, mean = 0, constant = 0, terms = 0;
    prepare_image(prepare, image, &options, &t->pixels, masked, unmasked, power);
    ctf_at(&t->ctfs[i], t->box, PIXEL_SIZE, t->pixels.count, t->pixels.kx, t->pixels.ky, ctf);
    for (size_t k = 0; k < t->area; k++)
        rms += (double)image[k] * image[k], mean += image[k];
    rms = sqrt(rms / (double)t->area) / t->box * w->scale;
    double bound = 4e-6 * rms + 3e-7 * fabs(mean / (double)t->area * w->scale);
    size_t at = (size_t)i * t->stride;
    for (size_t k = 0; k < 2 * t->n; k++) {
        near("masked", i, k, p->masked[2 * at + k], masked[k], bound);
        near("unmasked", i, k, p->unmasked[2 * at + k], unmasked[k], bound);
    }
    for (size_t k = 0; k < t->n; k++) {
        double weight = 1 / sigma2[t->pixels.shell[k]];
        near("ctf", i, k, p->ctf[at + k], w->has_ctf ? ctf[k] : 1, w->has_ctf ? 4e-7 * t->ctfs[i].scale : 0);
        near("weight", i, k, p->weight[at + k], 1 / sigma2[t->pixels.shell[k]], 0);
        double re = masked[2 * k], im = masked[2 * k + 1], term = 0.5 * weight * (re * re + im * im);
        double logarithm = log(2 * M_PI * (double)sigma2[t->pixels.shell[k]]);
        constant += term + logarithm;
        terms += term + fabs(logarithm);
    }
    untouched("masked", i, p->masked + 2 * (at + t->n), 2 * (t->stride - t->n));
    untouched("unmasked", i, p->unmasked + 2 * (at + t->n), 2 * (t->stride - t->n));
    untouched("ctf", i, p->ctf + at + t->n, t->stride - t->n);
    untouched("weight", i, p->weight + at + t->n, t->stride - t->n);
    for (size_t s = 0; s < t->shells; s++)
        near("power", i, s, p->power[(size_t)i * t->shells + s], power[s],
             1e-5 * power[s] + bound * (bound + sqrt(power[s])));
    near("constant", i, 0, p->constant[i], constant, 1e-6 * terms);
    for (int s = 0; s < SHIFTS; s++) {
        double x = w->shift_x + (double)t->shifts[s][0], y = w->shift_y + (double)t->shifts[s][1];
        double prior = -(x * x + y * y) / (2 * 2.5 * 2.5);
        near("prior", i, (size_t)s, p->prior[(size_t)i * SHIFTS + (size_t)s], prior, -1e-6 * prior);
    }
}

static void same(const char *what, const void *a, const void *b, size_t bytes) {
    if (memcmp(a, b, bytes) != 0) fail_msg("%s: a second run gave something else", what);
}

static void prepare_trial(int box, int size, int count, int most, double mask_radius, int shared_shell) {
    struct err err = {0};
    struct trial t = {.box = box,
                      .size = size,
                      .count = count,
                      .most = most,
                      .mask_radius = mask_radius,
                      .shared_shell = shared_shell};
    struct prepare *prepare = NULL;
    make_trial(&t);
    struct prepared first = new_prepared(&t), second = new_prepared(&t);
    run(&t, &first, 0);
    run(&t, &second, 0);
    must(prepare_create(box, &prepare, &err), &err);
    float *masked = host_new(2 * t.n, sizeof(float)), *unmasked = host_new(2 * t.n, sizeof(float));
    float *ctf = host_new(t.n, sizeof(float));
    for (int i = 0; i < count; i++)
        check_particle(&t, &first, i, prepare, masked, unmasked, ctf);
    size_t values = (size_t)count * t.stride * sizeof(float);
    same("masked", first.masked, second.masked, 2 * values);
    same("unmasked", first.unmasked, second.unmasked, 2 * values);
    same("ctf", first.ctf, second.ctf, values);
    same("power", first.power, second.power, (size_t)count * t.shells * sizeof(float));
    same("constant", first.constant, second.constant, (size_t)count * sizeof(double));
    prepare_destroy(&prepare);
    free(masked);
    free(unmasked);
    free(ctf);
    free_prepared(&first);
    free_prepared(&second);
    free_trial(&t);
}

static void particles_are_prepared_as_on_the_cpu(void **state) {
    (void)state;
    prepare_trial(4, 4, 1, 1, 1, 0);
    prepare_trial(24, 16, 5, 9, 6, 0);
    prepare_trial(34, 34, 9, 4, 11.5, 0);
    prepare_trial(64, 40, 33, 64, 25, 0);
    prepare_trial(128, 128, 7, 7, 50, 0);
    prepare_trial(128, 80, 3, 3, 200, 0); /* no background */
    prepare_trial(360, 360, 5, 2, 140, 0);
    prepare_trial(1000, 300, 3, 9, 400, 0);
    prepare_trial(154, 100, 4, 4, 50, 0); /* a factor that the library's own transforms do not have */
    prepare_trial(154 * 2, 100, 4, 3, 90, 0);
}

static void two_bands_are_masked_as_on_the_cpu(void **state) {
    (void)state;
    prepare_trial(24, 16, 5, 9, 6, 1);
    prepare_trial(34, 34, 9, 4, 11.5, 15); /* nearly all background */
    prepare_trial(64, 40, 33, 64, 25, 4);
    prepare_trial(128, 20, 5, 5, 50, 15); /* more shared shells than requested pixels */
    prepare_trial(128, 80, 3, 3, 200, 7); /* no background */
    prepare_trial(360, 300, 3, 2, 140, 9);
    prepare_trial(154, 100, 4, 4, 50, 6);
}

static void no_particles_are_nothing(void **state) {
    (void)state;
    struct err err = {0};
    struct prepare_cuda *prepare = NULL;
    assert_int_equal(prepare_cuda_create(33, 1, &prepare, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(prepare_cuda_create(32, 0, &prepare, &err), STATUS_BAD_ARGUMENT);
    must(prepare_cuda_create(32, 10, &prepare, &err), &err);
    struct references_cuda references = {.pixels = {.box = 32, .count = 10}};
    struct sampling_cuda sampling = {.shift_count = 1};
    struct particles_cuda none = {.count = 0, .stride = 10};
    must(prepare_cuda_run(prepare, &references, &sampling, NULL, NULL, 1, 10, 0, NULL, 1, NULL, &none, NULL, &err),
         &err);
    references.pixels.box = 34;
    assert_int_equal(
        prepare_cuda_run(prepare, &references, &sampling, NULL, NULL, 1, 10, 0, NULL, 1, NULL, &none, NULL, &err),
        STATUS_BAD_ARGUMENT);
    prepare_cuda_destroy(&prepare);
    prepare_cuda_destroy(&prepare);
}

static void time_of_real_sizes(void **state) {
    (void)state;
    if (!timed) skip();
    const int sizes[][3] = {{128, 40, 192},  {128, 80, 192}, {128, 128, 192}, {128, 128, 512},
                            {128, 80, 2048}, {254, 200, 64}, {360, 200, 64},  {360, 360, 64}};
    printf("%5s %5s %9s %9s %9s %6s\n", "box", "size", "particles", "ms", "floor", "ratio");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct trial t = {.box = sizes[i][0],
                          .size = sizes[i][1],
                          .count = sizes[i][2],
                          .most = sizes[i][2],
                          .mask_radius = 0.4 * sizes[i][0]};
        make_trial(&t);
        struct prepared p = new_prepared(&t);
        double seconds = run(&t, &p, 50);
        double floor = (double)t.count * sizeof(float) * (double)(t.area + 6 * t.n) / COPIED;
        printf("%5d %5d %9d %9.3f %9.3f %6.1f\n", t.box, t.size, t.count, 1e3 * seconds, 1e3 * floor, seconds / floor);
        free_prepared(&p);
        free_trial(&t);
    }
}

int main(int argc, char **argv) {
    timed = argc > 1 && strcmp(argv[argc - 1], "time") == 0;
    int missing = no_device();
    if (missing != 0) return missing;
    choose_seed(argc > 1 && argv[1][0] != 't' ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(particles_are_prepared_as_on_the_cpu),
        cmocka_unit_test(two_bands_are_masked_as_on_the_cpu),
        cmocka_unit_test(no_particles_are_nothing),
        cmocka_unit_test(time_of_real_sizes),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
