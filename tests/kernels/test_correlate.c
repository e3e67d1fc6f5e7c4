/* Compares local statistics, correlation and figure of merit with sums in real space. A planted template must be found
 * in its place, with its rotation, with a merit of about 1. */
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
#include "kernels/correlate/correlate.h"
#include "kernels/ctf/ctf.h"
#include "kernels/fourier/window.h"
#include "kernels/local_stats/local_stats.h"

enum { SIZE = 160, BOX = 48, RADIUS = 18 };

static uint64_t seed = 20240817;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static float gauss(void) {
    double u = uniform(), v = uniform();
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

/* Makes the half-plane transform with factor 1/SIZE², cut to `work`. */
static void transform(const float *image, int work, float *out) {
    struct fft_plan *plan = NULL;
    struct err err = {0};
    struct fft_options options = {.rank = 2, .shape = {SIZE, SIZE}, .direction = FFT_FORWARD};
    assert_int_equal(fft_create(&options, &plan, &err), STATUS_OK);
    float *half = mem_aligned(SIZE * (SIZE + 2), sizeof *half), *in = mem_aligned(SIZE * SIZE, sizeof *in);
    memcpy(in, image, SIZE * SIZE * sizeof *in);
    fft_run(plan, in, half);
    fourier_window_crop(half, SIZE, work, 1.0f / (SIZE * SIZE), out);
    fft_destroy(&plan);
    free(half);
    free(in);
}

static float lopsided(double x, double y) {
    return (float)(3 * exp(-(x * x + 3 * y * y) / 60) - 2 * exp(-((x - 7) * (x - 7) + (y + 6) * (y + 6)) / 30) + 0.25);
}

static void fill_template(float *image, double psi) {
    double c = cos(psi * M_PI / 180), s = sin(psi * M_PI / 180);
    for (int j = -BOX / 2; j < BOX / 2; j++)
        for (int i = -BOX / 2; i < BOX / 2; i++)
            image[(j + BOX / 2) * BOX + i + BOX / 2] =
                i * i + j * j < RADIUS * RADIUS ? lopsided(c * i - s * j, s * i + c * j) : 0;
}

static void plant(float *image, const float *template, int x, int y, float height) {
    for (int j = 0; j < BOX; j++)
        for (int i = 0; i < BOX; i++) {
            int at = (y + j - BOX / 2 + SIZE) % SIZE * SIZE + (x + i - BOX / 2 + SIZE) % SIZE;
            image[at] += height * template[j * BOX + i];
        }
}

static struct template_spectra *make_spectra(const float *template, int work, int rotations) {
    struct template_spectra_options options = {.size = SIZE,
                                               .work = work,
                                               .box = BOX,
                                               .radius = RADIUS,
                                               .count = 1,
                                               .rotations = rotations,
                                               .memory_limit = SIZE_MAX,
                                               .threads = 2};
    struct template_spectra *spectra = NULL;
    struct err err = {0};
    if (template_spectra_create(&options, template, &spectra, &err) != STATUS_OK) fail_msg("%s", err.message);
    return spectra;
}

static void statistics_are_those_of_the_background(void **state) {
    (void)state;
    float *image = mem_aligned(SIZE * SIZE, sizeof *image), *square = mem_aligned(SIZE * SIZE, sizeof *square);
    float *mu = mem_aligned(SIZE * SIZE, sizeof *mu), *sigma = mem_aligned(SIZE * SIZE, sizeof *sigma);
    float *a = mem_aligned(SIZE * (SIZE + 2), sizeof *a), *b = mem_aligned(SIZE * (SIZE + 2), sizeof *b);
    for (int i = 0; i < SIZE * SIZE; i++) {
        image[i] = 0.3f + gauss() * (i % SIZE < 40 ? 2 : 1);
        square[i] = image[i] * image[i];
    }
    transform(image, SIZE, a);
    transform(square, SIZE, b);
    struct local_stats *stats = NULL;
    struct err err = {0};
    assert_int_equal(local_stats_create(SIZE, SIZE, BOX, RADIUS, 1, &stats, &err), STATUS_OK);
    local_stats_run(stats, a, b, mu, sigma);
    const int at[][2] = {{0, 0}, {80, 80}, {159, 3}, {30, 100}, {41, 77}};
    for (size_t c = 0; c < sizeof at / sizeof *at; c++) {
        double sum = 0, squares = 0;
        int count = 0;
        for (int j = -BOX / 2; j < BOX / 2; j++)
            for (int i = -BOX / 2; i < BOX / 2; i++) {
                if (i * i + j * j < RADIUS * RADIUS) continue;
                double v = image[(at[c][1] + j + SIZE) % SIZE * SIZE + (at[c][0] + i + SIZE) % SIZE];
                sum += v;
                squares += v * v;
                count++;
            }
        assert_int_equal(count, BOX * BOX - circle_count(BOX, RADIUS));
        double mean = sum / count;
        assert_float_equal(mu[at[c][1] * SIZE + at[c][0]], mean, 1e-4);
        assert_float_equal(sigma[at[c][1] * SIZE + at[c][0]], sqrt(squares / count - mean * mean), 1e-4);
    }
    /* A constant image has no deviation; the kernel returns 1 instead. */
    memset(b, 0, SIZE * (SIZE + 2) * sizeof *b);
    memset(a, 0, SIZE * (SIZE + 2) * sizeof *a);
    local_stats_run(stats, a, b, mu, sigma);
    for (int i = 0; i < SIZE * SIZE; i++)
        assert_float_equal(sigma[i], 1, 0);
    local_stats_destroy(&stats);
    assert_int_equal(local_stats_create(SIZE, SIZE, BOX, BOX, 1, &stats, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "diameter"));
    void *all[] = {image, square, mu, sigma, a, b};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Truth: the maximum over rotations of the mean of A(y) I(x + y), each correlation computed as a sum. */
static void correlation_is_the_mean_over_the_circle(void **state) {
    (void)state;
    enum { ROTATIONS = 4 };
    float template[BOX * BOX];
    fill_template(template, 0);
    float *image = mem_aligned(SIZE * SIZE, sizeof *image), *half = mem_aligned(SIZE * (SIZE + 2), sizeof *half);
    for (int i = 0; i < SIZE * SIZE; i++)
        image[i] = gauss();
    transform(image, SIZE, half);
    int inside = circle_count(BOX, RADIUS);
    for (int i = 0; i < SIZE * (SIZE + 2); i++)
        half[i] /= (float)inside;
    /* The circle of radius SIZE/2 in Fourier space cuts the corners of white noise. The smooth template has no power in
     * the corners. */
    float *best = mem_aligned(SIZE * SIZE, sizeof *best);
    uint16_t *rotation = mem_aligned(SIZE * SIZE, sizeof *rotation), *again = mem_aligned(SIZE * SIZE, sizeof *again);
    struct template_spectra *spectra = make_spectra(template, SIZE, ROTATIONS);
    struct correlate *correlate = NULL;
    struct err err = {0};
    assert_int_equal(correlate_create(SIZE, 1, &correlate, &err), STATUS_OK);
    correlate_best(correlate, spectra, 0, ROTATIONS, half, best, rotation);
    for (int trial = 0; trial < 20; trial++) {
        int x = (int)(uniform() * SIZE), y = (int)(uniform() * SIZE), which = 0;
        double most = -1e9;
        for (int r = 0; r < ROTATIONS; r++) {
            float turned[BOX * BOX];
            fill_template(turned, r * 360.0 / ROTATIONS);
            double sum = 0;
            for (int j = 0; j < BOX; j++)
                for (int i = 0; i < BOX; i++)
                    sum += turned[j * BOX + i] *
                           image[(y + j - BOX / 2 + SIZE) % SIZE * SIZE + (x + i - BOX / 2 + SIZE) % SIZE];
            if (sum / inside > most) {
                most = sum / inside;
                which = r;
            }
        }
        assert_float_equal(best[y * SIZE + x], most, 2e-3);
        assert_int_equal(rotation[y * SIZE + x], which);
    }
    correlate_destroy(&correlate);
    assert_int_equal(correlate_create(SIZE, 3, &correlate, &err), STATUS_OK);
    float *best3 = mem_aligned(SIZE * SIZE, sizeof *best3);
    correlate_best(correlate, spectra, 0, ROTATIONS, half, best3, again);
    assert_memory_equal(best, best3, SIZE * SIZE * sizeof *best);
    assert_memory_equal(rotation, again, SIZE * SIZE * sizeof *rotation);
    correlate_destroy(&correlate);
    template_spectra_destroy(&spectra);
    void *all[] = {image, half, best, best3, rotation, again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Truth: A1 and A2 as sums over the circle in real space, for the plain template and at a small work size. */
static void terms_are_sums_over_the_circle(void **state) {
    (void)state;
    float template[BOX * BOX], scratch[SIZE * (SIZE + 2)];
    fill_template(template, 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < BOX * BOX; i++) {
        sum += template[i];
        squares += (double)template[i] * template[i];
    }
    int count = circle_count(BOX, RADIUS) + 1;
    struct err err = {0};
    const int works[] = {SIZE, 96, 60};
    for (size_t w = 0; w < sizeof works / sizeof *works; w++) {
        struct template_spectra *spectra = make_spectra(template, works[w], 4);
        struct merit_window *window = NULL;
        struct merit_terms terms = {0}, negative = {0};
        assert_int_equal(merit_window_create(SIZE, works[w], BOX, RADIUS, 1, &window, &err), STATUS_OK);
        template_spectra_rotate(spectra, 0, 0, scratch);
        merit_window_terms(window, scratch, NULL, &terms);
        /* Smaller sizes lose the mask's hard edge, and with it a little of the rim. */
        assert_float_equal(terms.mean, sum / count, 0.02);
        assert_float_equal(terms.power, squares / count, 0.02 * squares / count);
        float *minus = mem_aligned(SIZE * (SIZE / 2 + 1), sizeof *minus);
        for (int i = 0; i < SIZE * (SIZE / 2 + 1); i++)
            minus[i] = -1;
        merit_window_terms(window, scratch, minus, &negative);
        assert_float_equal(negative.mean, -terms.mean, 1e-6);
        assert_float_equal(negative.power, terms.power, 1e-6);
        free(minus);
        merit_window_destroy(&window);
        template_spectra_destroy(&spectra);
    }
}

struct found {
    int x, y, rotation;
    float merit;
};

/* Runs all steps on one image and returns the best place. */
static struct found search(const float *image, const float *template, int work, int rotations, const struct ctf *ctf) {
    size_t pixels = (size_t)work * work, floats = (size_t)work * (work + 2);
    float *square = mem_aligned(SIZE * SIZE, sizeof *square), *a = mem_aligned(floats, sizeof *a);
    float *b = mem_aligned(floats, sizeof *b), *mu = mem_aligned(pixels, sizeof *mu);
    float *sigma = mem_aligned(pixels, sizeof *sigma), *best = mem_aligned(pixels, sizeof *best);
    float *merit = mem_aligned(pixels, sizeof *merit), *transfer = mem_aligned(floats, sizeof *transfer);
    uint16_t *rotation = mem_aligned(pixels, sizeof *rotation);
    struct local_stats *stats = NULL;
    struct correlate *correlate = NULL;
    struct merit_window *window = NULL;
    struct merit_terms terms = {0};
    struct err err = {0};
    for (int i = 0; i < SIZE * SIZE; i++)
        square[i] = image[i] * image[i];
    transform(image, work, a);
    transform(square, work, b);
    assert_int_equal(local_stats_create(SIZE, work, BOX, RADIUS, 1, &stats, &err), STATUS_OK);
    assert_int_equal(correlate_create(work, 2, &correlate, &err), STATUS_OK);
    assert_int_equal(merit_window_create(SIZE, work, BOX, RADIUS, 1, &window, &err), STATUS_OK);
    local_stats_run(stats, a, b, mu, sigma);
    struct template_spectra *spectra = make_spectra(template, work, rotations);
    for (size_t i = 0; i < floats / 2; i++)
        transfer[i] = 1;
    if (ctf) ctf_half_plane(ctf, SIZE, 3, work, 1, transfer);
    template_spectra_rotate(spectra, 0, 0, b);
    merit_window_terms(window, b, transfer, &terms);
    for (size_t i = 0; i < floats; i++)
        a[i] *= transfer[i / 2] / (float)circle_count(BOX, RADIUS);
    correlate_best(correlate, spectra, 0, rotations, a, best, rotation);
    merit_scores(&terms, best, mu, sigma, pixels, merit);
    for (size_t i = 0; i < pixels; i++)
        merit[i] = (float)merit_from_score(&terms, 1, merit[i]);
    size_t top = 0;
    for (size_t i = 0; i < pixels; i++) {
        assert_true(isfinite(merit[i]));
        if (merit[i] > merit[top]) top = i;
    }
    struct found found = {(int)(top % work), (int)(top / work), rotation[top], merit[top]};
    template_spectra_destroy(&spectra);
    local_stats_destroy(&stats);
    correlate_destroy(&correlate);
    merit_window_destroy(&window);
    void *all[] = {square, a, b, mu, sigma, best, merit, transfer, rotation};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return found;
}

static void a_planted_template_is_found(void **state) {
    (void)state;
    float template[BOX * BOX], turned[BOX * BOX];
    float *image = mem_aligned(SIZE * SIZE, sizeof *image);
    fill_template(template, 0);
    const double angles[] = {0, 22, 137, 301};
    for (size_t a = 0; a < sizeof angles / sizeof *angles; a++)
        for (int w = 0; w < 2; w++) {
            int work = w ? 80 : SIZE, x = 40 + 2 * (int)(30 * uniform()), y = 60 + 2 * (int)(10 * uniform());
            for (int i = 0; i < SIZE * SIZE; i++)
                image[i] = gauss();
            fill_template(turned, angles[a]);
            plant(image, turned, x, y, 1);
            struct found found = search(image, template, work, 72, NULL);
            double psi = found.rotation * 5.0, off = fabs(remainder(psi - angles[a], 360));
            print_message("angle %g: psi %g, merit %.3f\n", angles[a], psi, found.merit);
            /* Half a step, plus scatter because noise shifts the peak. */
            assert_true(off <= 7.5);
            assert_true(abs(found.x * SIZE / work - x) <= 2 && abs(found.y * SIZE / work - y) <= 2);
            /* A² is 0.5 over 1,000 pixels of noise. The exponent scatters by √(A²/n) ≈ 0.02 in d; taking the best of 72
             * rotations and of the neighbouring pixels adds to it. */
            assert_in_range((int)(1000 * found.merit), 750, 1400);
        }
    free(image);
}

/* A pure CTF of one sign leaves a white template white; the opposite sign makes it dark. */
static void the_ctf_keeps_its_sign(void **state) {
    (void)state;
    float template[BOX * BOX];
    float *image = mem_aligned(SIZE * SIZE, sizeof *image);
    fill_template(template, 0);
    for (int i = 0; i < SIZE * SIZE; i++)
        image[i] = 0.5f * gauss();
    plant(image, template, 90, 70, 1);
    struct ctf ctf = {.voltage = 300, .amplitude_contrast = 0.999, .scale = 1};
    struct found white = search(image, template, SIZE, 8, &ctf);
    assert_true(abs(white.x - 90) <= 1 && abs(white.y - 70) <= 1 && white.rotation == 0);
    ctf.scale = -1;
    for (int i = 0; i < SIZE * SIZE; i++)
        image[i] = -image[i];
    struct found dark = search(image, template, SIZE, 8, &ctf);
    assert_true(abs(dark.x - 90) <= 1 && abs(dark.y - 70) <= 1 && dark.rotation == 0);
    assert_float_equal(dark.merit, white.merit, 0.01);
    free(image);
}

static void merits_and_scores_are_inverse(void **state) {
    (void)state;
    const struct merit_terms terms = {.mean = 0.1, .power = 0.4}, none = {0};
    /* By hand: d = A2 − 2 s √A2. */
    double score = 0.5, d = 0.4 - 2 * score * sqrt(0.4), merit = (exp(-d / 2) - 1) / (exp(0.2) - 1);
    assert_true(fabs(merit_from_score(&terms, 1, score) - merit) < 1e-12);
    for (double scale = 0.5; scale < 3; scale += 0.5)
        for (double m = 0; m < 3; m += 0.25)
            assert_true(fabs(merit_from_score(&terms, scale, merit_to_score(&terms, scale, m)) - m) < 1e-9);
    /* A particle of the expected contrast has amplitude 1. */
    assert_true(fabs(merit_from_score(&terms, 1, sqrt(0.4)) - 1) < 1e-12);
    assert_true(isinf(merit_to_score(&terms, 1, -1e9)));
    assert_true(merit_from_score(&none, 1, 3) == 0 && isinf(merit_to_score(&none, 1, 1)));
    assert_true(isfinite(merit_from_score(&terms, 1e6, 1e6)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_those_of_the_background),
        cmocka_unit_test(correlation_is_the_mean_over_the_circle),
        cmocka_unit_test(terms_are_sums_over_the_circle),
        cmocka_unit_test(a_planted_template_is_found),
        cmocka_unit_test(the_ctf_keeps_its_sign),
        cmocka_unit_test(merits_and_scores_are_inverse),
    };
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
