/* Tests the picker's automatic thresholds on drawn scores: two heaps, one heap of noise with a few particles, and faint
 * particles whose scores overlap with those of noise. Searches are not under test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stages/lowpass-picker/faint.h"
#include "stages/lowpass-picker/noise_peaks.h"
#include "stages/lowpass-picker/rough.h"
#include "stages/lowpass-picker/threshold.h"

static uint64_t seed = 4711;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static float gauss(void) {
    double u = uniform(), v = uniform();
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

static void thresholds_split_two_heaps(void **state) {
    (void)state;
    float scores[200];
    for (int i = 0; i < 100; i++) {
        scores[i] = 2.0f - 0.005f * (float)i;
        scores[100 + i] = 0.5f - 0.005f * (float)i;
    }
    scores[0] = 90; /* an outlier, as a gold bead gives */
    float split = threshold_split(scores, 200, 0.1f);
    assert_true(split > 0.5f && split < 1.51f);
    assert_float_equal(threshold_split(scores, 200, 1.7f), 1.7, 0);
    assert_true(isinf(threshold_split(scores + 100, 100, 0.6f)));
    assert_true(isinf(threshold_split(scores, 0, 0)));
    assert_float_equal(threshold_split(scores, 5, 0.1f), 0.1, 1e-6);
}

static int falling(const void *a, const void *b) {
    float p = *(const float *)a, q = *(const float *)b;
    return (p < q) - (p > q);
}

static void one_heap_is_noise(void **state) {
    (void)state;
    /* Noise scores have a mean of 3 and a deviation of 0.5, in units of 0.01. Some particles with higher scores are
     * among them. */
    enum { COUNT = 400, FEW = 5, MANY = 100 };
    const float noise = 0.01f;
    float scores[COUNT];
    for (int particles = 0; particles <= MANY; particles += particles < FEW ? FEW : MANY - FEW) {
        for (int i = 0; i < COUNT; i++)
            scores[i] = i < particles ? noise * (10 + gauss()) : noise * (3 + 0.5f * gauss());
        qsort(scores, COUNT, sizeof *scores, falling);
        for (float scale = 1; scale < 200; scale *= 100) {
            float threshold = threshold_over_noise(scores, COUNT, scale * noise);
            int above = 0;
            for (int i = 0; i < COUNT; i++)
                above += scores[i] >= threshold;
            /* One in two thousand of a heap is taken for more. */
            assert_in_range(above, particles - 1 < 0 ? 0 : particles - 1, particles + 1);
            /* The threshold must not depend on the scale of the scores. */
            for (int i = 0; i < COUNT; i++)
                scores[i] *= 100;
        }
    }
    assert_true(isinf(threshold_over_noise(scores, 0, noise)));
}

/* Draws a height of a peak of noise: two halves of normal distributions. */
static float noise_height(const struct noise_peaks *peaks) {
    bool above = uniform() * (peaks->above + peaks->below) < peaks->above;
    return (float)(peaks->mode + (above ? peaks->above : -peaks->below) * fabs(gauss()));
}

struct height {
    float score;
    bool particle;
};

static int height_falling(const void *a, const void *b) {
    return falling(&((const struct height *)a)->score, &((const struct height *)b)->score);
}

enum { HEIGHTS = 600 };

/* Draws peaks, of which the first `particles` are particles, and sorts them. Returns F1 at the threshold, and the best
 * F1 of all. */
static double f1_of_faint(int particles, float mean, const struct noise_peaks *peaks, double *ret_best,
                          int *ret_picks) {
    const float noise = 0.03f;
    struct height heights[HEIGHTS];
    float scores[HEIGHTS];
    for (int i = 0; i < HEIGHTS; i++)
        heights[i] =
            (struct height){noise * (i < particles ? mean + 0.8f * gauss() : noise_height(peaks)), i < particles};
    qsort(heights, HEIGHTS, sizeof *heights, height_falling);
    for (int i = 0; i < HEIGHTS; i++)
        scores[i] = heights[i].score;
    float threshold = faint_threshold(scores, HEIGHTS, noise, 1, peaks);
    double f1 = 0;
    int right = 0;
    *ret_best = *ret_picks = 0;
    for (int i = 0; i < HEIGHTS; i++) {
        right += heights[i].particle;
        double here = 2.0 * right / (i + 1 + particles);
        *ret_best = fmax(*ret_best, here);
        if (scores[i] < threshold) continue;
        f1 = here;
        *ret_picks = i + 1;
    }
    return f1;
}

static void faint_particles_are_found(void **state) {
    (void)state;
    const struct noise_peaks peaks = {.mode = 2.6, .below = 1.2, .above = 0.7};
    const int particles[] = {5, 40, 200};
    double best = 0;
    int picks = 0, of_noise = 0;
    enum { RUNS = 5 };
    for (float mean = 4.5f; mean < 13; mean += 2)
        for (size_t i = 0; i < sizeof particles / sizeof *particles; i++) {
            double lost = 0;
            for (int run = 0; run < RUNS; run++) {
                double f1 = f1_of_faint(particles[i], mean, &peaks, &best, &picks);
                lost += (best - f1) / RUNS;
            }
            print_message("%d particles at %.1f: %.3f of F1 lost\n", particles[i], (double)mean, lost);
            /* The best F1 is of each draw in hindsight: the fewer particles, the more of it is chance. Five so faint
             * ones among hundreds of noise peaks cannot be told from them. */
            if (particles[i] > 10 || mean > 5) assert_true(lost < (particles[i] < 100 ? 0.1 : 0.05));
        }
    for (int run = 0; run < 3 * RUNS; run++) {
        f1_of_faint(0, 0, &peaks, &best, &picks);
        of_noise += picks;
    }
    assert_true(of_noise <= RUNS);
}

static void faint_particles_are_found_by_templates(void **state) {
    (void)state;
    /* The best of many draws of unit variance; particles score higher. The noise is not known by 4 %. */
    enum { DRAWS = 2000, COUNT = 400 };
    const float noise = 0.03f;
    const int particles[] = {0, 100};
    for (size_t i = 0; i < sizeof particles / sizeof *particles; i++) {
        struct height heights[COUNT];
        float scores[COUNT], threshold = 0;
        for (int j = 0; j < COUNT; j++) {
            float best = 0;
            for (int k = 0; k < DRAWS; k++)
                best = fmaxf(best, gauss());
            if (j < particles[i]) best = fmaxf(best, 5.5f + 0.9f * gauss());
            heights[j] = (struct height){1.04f * noise * best, j < particles[i]};
        }
        qsort(heights, COUNT, sizeof *heights, height_falling);
        for (int j = 0; j < COUNT; j++)
            scores[j] = heights[j].score;
        assert_true(faint_threshold_of_best(scores, COUNT, noise, &threshold));
        int right = 0, picks = 0;
        for (; picks < COUNT && scores[picks] >= threshold; picks++)
            right += heights[picks].particle;
        print_message("%d particles: %d picks, %d right\n", particles[i], picks, right);
        assert_true(particles[i] ? 2.0 * right / (picks + particles[i]) > 0.85 : picks <= 1);
        /* Heights far from those of noise are not taken for noise. */
        assert_false(faint_threshold_of_best(scores, COUNT, 3 * noise, &threshold));
        assert_false(faint_threshold_of_best(scores, COUNT, noise / 3, &threshold));
    }
}

/* Draws peaks in noise, of which the first `particles` are particles. Returns what their threshold by known noise loses
 * of the best F1. */
static double lost_by_templates(int particles, float mean, double factor, const struct noise_peaks *peaks) {
    const float noise = 0.03f;
    struct height heights[HEIGHTS];
    float scores[HEIGHTS], threshold = 0;
    for (int i = 0; i < HEIGHTS; i++) {
        float height = i < particles ? mean + gauss() : (float)factor * noise_height(peaks);
        heights[i] = (struct height){noise * height, i < particles};
    }
    qsort(heights, HEIGHTS, sizeof *heights, height_falling);
    for (int i = 0; i < HEIGHTS; i++)
        scores[i] = heights[i].score;
    assert_true(faint_threshold_of_templates(scores, HEIGHTS, noise, peaks, &threshold));
    double f1 = 0, best = 0;
    int right = 0;
    for (int i = 0; i < HEIGHTS; i++) {
        right += heights[i].particle;
        best = fmax(best, 2.0 * right / (i + 1 + particles));
        if (scores[i] >= threshold) f1 = 2.0 * right / (i + 1 + particles);
    }
    return particles > 0 ? best - f1 : scores[0] >= threshold;
}

static void noise_of_templates_is_known(void **state) {
    (void)state;
    /* Of 140 Å and of 400 Å, near focus, and of rods; the factor is what whitening and fringes leave. */
    const struct noise_peaks kinds[] = {{4.48, 1, 0.45}, {3.67, 1.37, 0.63}, {4.16, 1.38, 0.56}, {5.05, 0.68, 0.47}};
    const double factors[] = {0.93, 1, 1.08};
    enum { RUNS = 6, KINDS = sizeof kinds / sizeof *kinds, FACTORS = sizeof factors / sizeof *factors };
    int of_noise = 0;
    for (int k = 0; k < KINDS; k++)
        for (int f = 0; f < FACTORS; f++) {
            double lost = 0, few = 0;
            float mean = (float)(factors[f] * (kinds[k].mode + 3 * kinds[k].above + 0.5));
            for (int run = 0; run < RUNS; run++) {
                lost += lost_by_templates(100, mean, factors[f], &kinds[k]) / RUNS;
                few += lost_by_templates(20, mean + 1, factors[f], &kinds[k]) / RUNS;
                of_noise += lost_by_templates(0, 0, factors[f], &kinds[k]) > 0;
            }
            print_message("mode %.2f, factor %.2f: %.3f and %.3f of F1 lost\n", kinds[k].mode, factors[f], lost, few);
            assert_true(lost < 0.05 && few < 0.1);
        }
    print_message("%d of %d noise micrographs have picks\n", of_noise, KINDS * FACTORS * RUNS);
    assert_true(3 * of_noise <= KINDS * FACTORS * RUNS);
    /* Gold is no noise. */
    float scores[HEIGHTS], threshold = 0;
    for (int i = 0; i < HEIGHTS; i++)
        scores[i] = 1.9f * noise_height(&kinds[0]);
    qsort(scores, HEIGHTS, sizeof *scores, falling);
    assert_false(faint_threshold_of_templates(scores, HEIGHTS, 1, &kinds[0], &threshold));
}

static void heights_of_noise_are_fitted(void **state) {
    (void)state;
    const struct noise_peaks peaks = {.mode = 2.8, .below = 0.9, .above = 0.6};
    enum { COUNT = 4000 };
    float heights[COUNT];
    for (int i = 0; i < COUNT; i++)
        heights[i] = noise_height(&peaks);
    qsort(heights, COUNT, sizeof *heights, falling);
    struct noise_peaks fit = noise_peaks_fit(heights, COUNT);
    assert_float_equal(fit.mode, peaks.mode, 0.15);
    assert_float_equal(fit.below, peaks.below, 0.1);
    assert_float_equal(fit.above, peaks.above, 0.1);
    for (int i = COUNT / 100; i < COUNT; i += 200)
        assert_float_equal(noise_peaks_share(&fit, 0, heights[i]), (double)i / COUNT, 0.03);
    assert_float_equal(noise_peaks_scale(&peaks, heights, COUNT), 1, 0.03);
    /* A tenth of the peaks are halos of ice. */
    for (int i = 0; i < COUNT / 10; i++)
        heights[i] *= 3;
    assert_float_equal(noise_peaks_scale(&peaks, heights, COUNT), 1, 0.1);
    assert_false(noise_peaks_known(&(struct noise_peaks){0}));
    fit = noise_peaks_fit(heights, 3);
    assert_false(noise_peaks_known(&fit));
}

/* Returns how many of 100 peaks stay if so many lie where the background is rough. The rough ones come first. */
static size_t kept_of(int rough, float how) {
    enum { WORK = 40, PEAKS = 100 };
    static float sigma[WORK * WORK], values[PEAKS];
    struct peak items[PEAKS] = {{0}};
    struct peak_list peaks = {.items = items, .count = PEAKS, .capacity = PEAKS};
    for (int i = 0; i < WORK * WORK; i++)
        sigma[i] = 0.8f + 0.01f * (float)(i % 7);
    for (int i = 0; i < PEAKS; i++) {
        /* Tops of parabolas lie up to half a pixel beyond the last one. */
        items[i] =
            (struct peak){.x = i == 0 ? WORK - 0.5f : (float)(i % 10) * 4, .y = (float)(i / 10) * 4, .template = i};
        if (i < rough) sigma[(int)items[i].y * WORK + (i == 0 ? WORK - 1 : (int)items[i].x)] = how;
    }
    rough_drop(&peaks, sigma, WORK, values);
    for (size_t k = 0; k < peaks.count; k++)
        assert_int_equal(items[k].template, PEAKS - peaks.count + k);
    return peaks.count;
}

static void picks_on_edges_are_left_out(void **state) {
    (void)state;
    assert_int_equal(kept_of(5, 2.0f), 95);
    assert_int_equal(kept_of(5, 1.5f), 100);
    assert_int_equal(kept_of(6, 2.0f), 100); /* what is frequent is no edge */
    assert_int_equal(kept_of(0, 0), 100);
    struct peak_list none = {0};
    rough_drop(&none, NULL, 40, NULL);
    assert_int_equal(none.count, 0);
}

int main(void) {
    print_message("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(picks_on_edges_are_left_out),
        cmocka_unit_test(thresholds_split_two_heaps),
        cmocka_unit_test(one_heap_is_noise),
        cmocka_unit_test(faint_particles_are_found),
        cmocka_unit_test(faint_particles_are_found_by_templates),
        cmocka_unit_test(noise_of_templates_is_known),
        cmocka_unit_test(heights_of_noise_are_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
