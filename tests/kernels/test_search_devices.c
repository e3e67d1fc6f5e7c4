/* Compares a search on each CUDA device with the same search on the CPU, with random micrographs and templates from a
 * seed that the test prints: test_search_devices [SEED]. Maps agree to 1e-4 of their standard deviation, as
 * kernels/search/search.h promises. This is ten times the difference that single precision causes through other orders
 * of summation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/search/search_private.h"
#include "tests/kernels/seed.h"

enum { RANDOM_CASES = 12 };

static const double TOLERANCE = 1e-4;
/* Share of the pixels whose two best rotations differ by less than the tolerance. */
static const double TIES = 0.01;

static uint64_t seed = 20261121;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static float gauss(void) {
    double u = uniform(), v = uniform();
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

struct trial {
    int nx, ny, work, count, box, rotations;
    bool ctf, per_template, kept, constant;
};

static struct search_options options_of(const struct trial *t) {
    return (struct search_options){.nx = t->nx,
                                   .ny = t->ny,
                                   .size = fft_good_size(t->nx > t->ny ? t->nx : t->ny),
                                   .work = t->work,
                                   /* The band ends inside the maps, beyond their edge, or (0) at their edge. */
                                   .band = t->count % 3 == 0 ? 0 : t->work / 2 + (t->count % 3 == 1 ? 2 : -3),
                                   .pixel_size = 1.5,
                                   .box = t->box,
                                   .radius = 0.4 * t->box,
                                   .count = t->count,
                                   .rotations = t->rotations,
                                   .invert = t->count % 2,
                                   .whiten = t->rotations % 3 != 0,
                                   .per_template = t->per_template,
                                   .clip = 8,
                                   .memory_limit = t->kept ? SIZE_MAX / 2 : 0,
                                   .threads = 4};
}

/* Makes asymmetric blobs, so that every rotation differs, with noise in all frequencies. */
static float *make_templates(const struct trial *t) {
    float *data = mem_aligned((size_t)t->count * t->box * t->box, sizeof *data);
    assert_non_null(data);
    for (int k = 0; k < t->count; k++) {
        double a = (uniform() - 0.5) * t->box / 2, b = (uniform() - 0.5) * t->box / 2;
        for (int i = 0; i < t->box * t->box; i++) {
            double x = i % t->box - t->box / 2, y = i / t->box - t->box / 2, r = 2.0 * t->box;
            data[(size_t)k * t->box * t->box + i] =
                (float)(exp(-(x * x + 3 * y * y) / r) - exp(-((x - a) * (x - a) + (y - b) * (y - b)) / r)) +
                0.05f * gauss() + 0.02f;
        }
    }
    return data;
}

/* Makes noise over a slope, with a hot row, a dead row, a NaN pixel and some templates. The hot row hides the
 * dead row. */
static float *make_micrograph(const struct trial *t, const float *templates) {
    size_t count = (size_t)t->nx * t->ny;
    float *data = mem_aligned(count, sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = t->constant ? 7 : 100 + 3 * gauss() + 2 * (float)(i % (size_t)t->nx) / (float)t->nx;
    if (t->constant) return data;
    for (int x = 0; x < t->nx; x++) {
        data[x] = 5000;
        data[(size_t)(t->ny - 1) * t->nx + x] = 0;
    }
    data[count / 2] = NAN;
    for (int k = 0; k < 6; k++) {
        int x0 = (int)(uniform() * (t->nx - t->box)), y0 = (int)(uniform() * (t->ny - t->box));
        const float *template = templates + (size_t)(k % t->count) * t->box * t->box;
        for (int i = 0; i < t->box * t->box; i++)
            data[(size_t)(y0 + i / t->box) * t->nx + x0 + i % t->box] -= 4 * template[i];
    }
    return data;
}

static void poison(struct search_maps *maps) {
    size_t pixels = (size_t)maps->work * maps->work, count = (size_t)maps->count;
    float *reals[] = {maps->image, maps->mu, maps->sigma, maps->score};
    for (size_t m = 0; m < 4; m++)
        memset(reals[m], 0xff, pixels * sizeof(float));
    memset(maps->best_template, 0xff, pixels * sizeof(uint16_t));
    memset(maps->best_rotation, 0xff, pixels * sizeof(uint16_t));
    memset(maps->terms, 0xff, count * sizeof *maps->terms);
    if (!maps->per_template) return;
    memset(maps->scores, 0xff, count * pixels * sizeof(float));
    memset(maps->rotations, 0xff, count * pixels * sizeof(uint16_t));
}

/* Returns the greatest difference over the standard deviation of the first array. NaN in the input gives NaN. */
static double difference(const float *a, const float *b, size_t count) {
    double sum = 0, squares = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        sum += a[i];
        squares += (double)a[i] * a[i];
        double d = fabs((double)a[i] - b[i]);
        if (!(d <= most)) most = d;
    }
    double mean = sum / (double)count, deviation = sqrt(fmax(squares / (double)count - mean * mean, 0));
    return most == 0 ? 0 : most / fmax(deviation, 1e-9 * fabs(mean));
}

static double share_that_differs(const uint16_t *a, const uint16_t *b, size_t count) {
    size_t differ = 0;
    for (size_t i = 0; i < count; i++)
        differ += a[i] != b[i];
    return (double)differ / (double)count;
}

static void agree(const char *what, double value, double limit) {
    if (!(value <= limit)) fail_msg("%s differ by %.3g; at most %.3g is right", what, value, limit);
}

static void compare(const struct search_maps *a, const struct search_maps *b, bool valid) {
    size_t pixels = (size_t)a->work * a->work, maps = a->per_template ? (size_t)a->count : 0;
    double image = difference(a->image, b->image, pixels);
    if (!valid) {
        assert_true(a->deviation == 0 && b->deviation == 0);
        return;
    }
    double mu = difference(a->mu, b->mu, pixels), sigma = difference(a->sigma, b->sigma, pixels);
    double score = difference(a->score, b->score, pixels), scores = difference(a->scores, b->scores, maps * pixels);
    double template = share_that_differs(a->best_template, b->best_template, pixels);
    double rotation = share_that_differs(a->best_rotation, b->best_rotation, pixels);
    double rotations = maps ? share_that_differs(a->rotations, b->rotations, maps * pixels) : 0;
    printf("    image %.1e mu %.1e sigma %.1e score %.1e %.1e, other template %.1e rotation %.1e %.1e\n", image, mu,
           sigma, score, maps ? scores : 0, template, rotation, rotations);
    agree("deviations", fabs(a->deviation / b->deviation - 1), 1e-5);
    agree("noise levels", fabs(a->noise / b->noise - 1), 1e-4);
    for (int t = 0; t < a->count; t++) {
        agree("A1", fabs(a->terms[t].mean - b->terms[t].mean), 1e-5 * sqrt(a->terms[t].power));
        agree("A2", fabs(a->terms[t].power / b->terms[t].power - 1), 1e-5);
    }
    agree("images", image, TOLERANCE);
    agree("means", mu, TOLERANCE);
    agree("deviations", sigma, TOLERANCE);
    agree("scores", score, TOLERANCE);
    agree("scores of a template", maps ? scores : 0, TOLERANCE);
    agree("templates", template, TIES);
    agree("rotations", rotation, TIES);
    agree("rotations of a template", rotations, TIES);
}

static void succeed(enum status status, const struct err *err) {
    if (status != STATUS_OK) fail_msg("%s", err->message);
}

/* Searches through cuFFT, in small batches whose size does not divide the number of rotations. */
static void through_cufft(const struct search_options *o, const float *templates, const struct search_input *input,
                          const struct ctf *ctf, struct search_maps *maps) {
    const struct search_tuning tuning = {.cufft = true, .pairs = 3};
    struct err err = {0};
    struct search *search = NULL;
    succeed(search_create_as(o, templates, &tuning, &search, &err), &err);
    poison(maps);
    succeed(search_run(search, input, ctf, 77, maps, &err), &err);
    search_destroy(&search);
}

static void on_device(struct search_options o, const struct device *device, const float *templates,
                      const float *micrograph, const struct ctf *ctf, const struct search_maps *expected, bool valid) {
    struct err err = {0};
    struct search *search = NULL;
    struct search_maps maps = {0};
    struct device_copy *copy = NULL;
    o.device = *device;
    succeed(search_create(&o, templates, &search, &err), &err);
    succeed(search_maps_fit(search, &maps, &err), &err);
    succeed(device_upload(device, micrograph, (size_t)o.nx * o.ny, &copy, &err), &err);
    const struct search_input inputs[] = {{.host = micrograph}, {.device = device_copy_data(copy)}};
    for (int k = 0; k < 2; k++) {
        poison(&maps);
        succeed(search_run(search, &inputs[k], ctf, 77, &maps, &err), &err);
        compare(expected, &maps, valid);
    }
    search_destroy(&search);
    through_cufft(&o, templates, &inputs[0], ctf, &maps);
    compare(expected, &maps, valid);
    device_copy_destroy(&copy);
    search_maps_clear(&maps);
}

static void run_trial(const struct trial *t) {
    struct err err = {0};
    struct search *search = NULL;
    struct search_maps maps = {0};
    struct search_options o = options_of(t);
    struct ctf ctf = {.defocus_u = 15000,
                      .defocus_v = 14000,
                      .defocus_angle = 30,
                      .voltage = 300,
                      .spherical_aberration = 2.7,
                      .amplitude_contrast = 0.1,
                      .b_factor = 20,
                      .scale = 0.9};
    printf("  %d x %d px in %d, work %d, %d templates of %d px, %d rotations%s%s%s%s%s\n", o.nx, o.ny, o.size, o.work,
           o.count, o.box, o.rotations, o.whiten ? ", whitened" : "", t->ctf ? ", CTF" : "",
           t->per_template ? ", per template" : "", t->kept ? ", kept" : "", t->constant ? ", constant" : "");
    float *templates = make_templates(t), *micrograph = make_micrograph(t, templates);
    succeed(search_create(&o, templates, &search, &err), &err);
    struct search_input input = {.host = micrograph};
    succeed(search_run(search, &input, t->ctf ? &ctf : NULL, 77, &maps, &err), &err);
    search_destroy(&search);
    int devices = 0;
    succeed(device_count(&devices, &err), &err);
    for (int i = 0; i < devices; i++) {
        struct device device = {DEVICE_CUDA, i};
        on_device(o, &device, templates, micrograph, t->ctf ? &ctf : NULL, &maps, !t->constant);
    }
    search_maps_clear(&maps);
    free(templates);
    free(micrograph);
}

static void fixed_trials_agree(void **state) {
    (void)state;
    const struct trial trials[] = {
        {256, 256, 96, 2, 48, 12, true, false, true, false},  {200, 150, 200, 2, 40, 7, false, true, false, false},
        {180, 240, 168, 3, 48, 10, true, true, true, false},  {300, 300, 150, 1, 50, 1, true, false, false, false},
        {256, 200, 170, 2, 40, 6, false, false, true, false}, {250, 256, 250, 1, 36, 9, true, false, true, false},
        {500, 512, 512, 1, 60, 4, true, false, false, false}, {700, 700, 672, 2, 80, 36, true, false, true, false},
        {128, 128, 64, 1, 24, 2, false, false, true, true},   {200, 128, 16, 2, 32, 8, true, false, false, false},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        run_trial(&trials[i]);
}

static void random_trials_agree(void **state) {
    (void)state;
    for (int i = 0; i < RANDOM_CASES; i++) {
        int nx = 100 + (int)(uniform() * 300), ny = 100 + (int)(uniform() * 300);
        int size = fft_good_size(nx > ny ? nx : ny), work = fft_good_size(20 + (int)(uniform() * size));
        struct trial trial = {.nx = nx,
                              .ny = ny,
                              .work = work < size ? work : size,
                              .count = 1 + (int)(uniform() * 3),
                              .box = 2 * (int)(12 + uniform() * 20),
                              .rotations = 1 + (int)(uniform() * 20),
                              .ctf = uniform() < 0.6,
                              .per_template = uniform() < 0.5,
                              .kept = uniform() < 0.5};
        run_trial(&trial);
    }
}

int main(int argc, char **argv) {
    int count = 0;
    struct err err = {0};
    if (device_count(&count, &err) != STATUS_OK) return fprintf(stderr, "%s\n", err.message), 1;
    if (count == 0) return puts("skipped: no CUDA device"), 77;
    seed = chosen_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(fixed_trials_agree), cmocka_unit_test(random_trials_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
