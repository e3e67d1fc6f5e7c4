/* Tests the search of one micrograph. Planted templates have the best scores, at their positions and rotations. The
 * maps of single templates and the best map fit together. Neither the way of keeping rotations nor the number of
 * threads changes a bit. The search measures the noise, and refuses what it cannot search. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/local_stats/local_stats.h"
#include "kernels/search/search.h"

enum { BOX = 40, COUNT = 2, NX = 200, NY = 150, SIZE = 200 };
static const double RADIUS = 15;

static uint64_t seed = 909090;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static float gauss(void) {
    double u = uniform(), v = uniform();
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

/* Makes two asymmetric shapes. No rotation turns one into the other. */
static float shape(int t, double x, double y) {
    double bx = t == 0 ? 7 : -9, by = t == 0 ? 6 : 2;
    return (float)(1.5 * exp(-(x * x + (2 + 4 * t) * y * y) / 70) +
                   2.5 * exp(-((x - bx) * (x - bx) + (y - by) * (y - by)) / 12));
}

static float *make_templates(void) {
    float *templates = mem_aligned(COUNT * BOX * BOX, sizeof *templates);
    for (int t = 0; t < COUNT; t++)
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++)
                templates[(t * BOX + y) * BOX + x] = shape(t, x - BOX / 2, y - BOX / 2);
    return templates;
}

struct planted {
    int x, y, template;
    double psi;
};
static const struct planted PLANTED[] = {{50, 40, 0, 0}, {140, 60, 1, 45}, {60, 110, 1, 200}, {150, 104, 0, 310}};
enum { PARTICLES = sizeof PLANTED / sizeof *PLANTED };

static float *make_micrograph(float noise) {
    float *micrograph = mem_aligned(NX * NY, sizeof *micrograph);
    for (int i = 0; i < NX * NY; i++)
        micrograph[i] = noise * gauss();
    for (int p = 0; p < PARTICLES; p++)
        for (int j = -BOX / 2; j < BOX / 2; j++)
            for (int i = -BOX / 2; i < BOX / 2; i++) {
                double c = cos(PLANTED[p].psi * M_PI / 180), s = sin(PLANTED[p].psi * M_PI / 180);
                micrograph[(PLANTED[p].y + j) * NX + PLANTED[p].x + i] -=
                    i * i + j * j < RADIUS * RADIUS ? shape(PLANTED[p].template, c * i - s * j, s * i + c * j) : 0;
            }
    for (int i = 0; i < NX * NY; i++)
        micrograph[i] = 300 + 20 * micrograph[i];
    return micrograph;
}

static struct search_options usual(void) {
    return (struct search_options){.nx = NX,
                                   .ny = NY,
                                   .size = SIZE,
                                   .work = 100,
                                   .pixel_size = 2,
                                   .box = BOX,
                                   .radius = RADIUS,
                                   .count = COUNT,
                                   .rotations = 72,
                                   .invert = true,
                                   .clip = 50, /* these particles are bright */
                                   .memory_limit = SIZE_MAX,
                                   .threads = 1};
}

static void search_into(const struct search_options *options, const float *micrograph, const struct ctf *ctf,
                        struct search_maps *maps) {
    float *templates = make_templates();
    struct search *search = NULL;
    struct err err = {0};
    struct search_input input = {.host = micrograph};
    if (search_create(options, templates, &search, &err) != STATUS_OK) fail_msg("%s", err.message);
    if (search_run(search, &input, ctf, 7, maps, &err) != STATUS_OK) fail_msg("%s", err.message);
    search_destroy(&search);
    free(templates);
}

static void planted_templates_score_best(void **state) {
    (void)state;
    float *micrograph = make_micrograph(0.4f);
    const int works[] = {SIZE, 100};
    for (int w = 0; w < 2; w++) {
        struct search_options options = usual();
        struct search_maps maps = {0};
        options.work = works[w];
        search_into(&options, micrograph, NULL, &maps);
        for (int p = 0; p < PARTICLES; p++) {
            int scale = SIZE / options.work, cx = PLANTED[p].x / scale, cy = (PLANTED[p].y + (SIZE - NY) / 2) / scale;
            size_t best = (size_t)(cy * options.work + cx);
            for (int y = cy - 12 / scale; y <= cy + 12 / scale; y++)
                for (int x = cx - 12 / scale; x <= cx + 12 / scale; x++)
                    if (maps.score[y * options.work + x] > maps.score[best]) best = (size_t)(y * options.work + x);
            /* The deviation of a background of 900 pixels varies by 2 %. This moves a peak by a pixel or two. */
            assert_true(abs((int)best % options.work - cx) <= 2 / scale &&
                        abs((int)best / options.work - cy) <= 2 / scale);
            assert_int_equal(maps.best_template[best], PLANTED[p].template);
            assert_true(fabs(remainder(maps.best_rotation[best] * 5.0 - PLANTED[p].psi, 360)) <= 15);
            /* The particle is 20 times the template. The tails of its neighbours and the low-pass filter reduce its
             * strength a little. */
            double strength = maps.score[best] * maps.sigma[best] / sqrt(maps.terms[PLANTED[p].template].power);
            assert_true(fabs(strength * maps.deviation / 20 - 1) < 0.25);
        }
        search_maps_clear(&maps);
    }
    free(micrograph);
}

/* Blurs a micrograph by a running mean of 5 × 5 px, as denoising does. With whitening the search finds the particles as
 * in the sharp micrograph, and scores are those of white noise again. */
static void whitened_searches_undo_colour(void **state) {
    (void)state;
    float *sharp = make_micrograph(0.8f), *micrograph = mem_aligned(NX * NY, sizeof *micrograph);
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++) {
            float sum = 0;
            for (int k = 0; k < 25; k++)
                sum += sharp[(y + k / 5 - 2 + NY) % NY * NX + (x + k % 5 - 2 + NX) % NX];
            micrograph[y * NX + x] = sum / 25;
        }
    struct search_options options = usual();
    options.whiten = true;
    struct search_maps maps = {0};
    search_into(&options, micrograph, NULL, &maps);
    for (int p = 0; p < PARTICLES; p++) {
        int cx = PLANTED[p].x / 2, cy = (PLANTED[p].y + (SIZE - NY) / 2) / 2;
        size_t best = (size_t)(cy * options.work + cx);
        for (int y = cy - 6; y <= cy + 6; y++)
            for (int x = cx - 6; x <= cx + 6; x++)
                if (maps.score[y * options.work + x] > maps.score[best]) best = (size_t)(y * options.work + x);
        assert_true(abs((int)best % options.work - cx) <= 1 && abs((int)best / options.work - cy) <= 1);
        assert_int_equal(maps.best_template[best], PLANTED[p].template);
        assert_true(fabs(remainder(maps.best_rotation[best] * 5.0 - PLANTED[p].psi, 360)) <= 15);
    }
    search_maps_clear(&maps);
    free(sharp);
    free(micrograph);
}

static void maps_belong_together(void **state) {
    (void)state;
    float *micrograph = make_micrograph(1.5f);
    struct ctf ctf = {.defocus_u = 12000,
                      .defocus_v = 11500,
                      .voltage = 300,
                      .spherical_aberration = 2.7,
                      .amplitude_contrast = 0.1,
                      .scale = 1};
    struct search_options options = usual();
    struct search_maps maps = {0}, other = {0};
    size_t pixels = (size_t)options.work * options.work;
    options.per_template = true;
    search_into(&options, micrograph, &ctf, &maps);
    for (size_t i = 0; i < pixels; i++) {
        int t = maps.scores[i] >= maps.scores[pixels + i] ? 0 : 1;
        assert_true(isfinite(maps.score[i]) && maps.score[i] == maps.scores[t * pixels + i]);
        assert_int_equal(maps.best_template[i], t);
        assert_int_equal(maps.best_rotation[i], maps.rotations[t * pixels + i]);
    }
    /* The results have the same bits with more threads, without kept rotations, and without maps of
     * single templates. */
    const struct search_options same[] = {[0] = usual(), [1] = usual(), [2] = usual()};
    for (int variant = 0; variant < 3; variant++) {
        struct search_options varied = same[variant];
        if (variant == 1) varied.threads = 3;
        if (variant == 2) varied.memory_limit = 0;
        search_into(&varied, micrograph, &ctf, &other);
        assert_memory_equal(other.score, maps.score, pixels * sizeof *maps.score);
        assert_memory_equal(other.best_rotation, maps.best_rotation, pixels * sizeof *maps.best_rotation);
        assert_memory_equal(other.best_template, maps.best_template, pixels * sizeof *maps.best_template);
        assert_null(other.scores);
    }
    search_maps_clear(&maps);
    search_maps_clear(&other);
    free(micrograph);
}

static void noise_is_measured(void **state) {
    (void)state;
    struct search_options options = usual();
    struct search_maps maps = {0};
    float *micrograph = mem_aligned(NX * NY, sizeof *micrograph);
    for (int i = 0; i < NX * NY; i++)
        micrograph[i] = 5 + 3 * gauss();
    search_into(&options, micrograph, NULL, &maps);
    double expected = 1 / sqrt(circle_count(BOX, RADIUS));
    /* The noise is the smallest value of about twenty rings, each with 100 coefficients or more. */
    assert_true(maps.noise > 0.75 * expected && maps.noise < 1.05 * expected);
    assert_float_equal(maps.deviation, 3, 0.05);
    /* A constant micrograph with one NaN pixel. */
    for (int i = 0; i < NX * NY; i++)
        micrograph[i] = i == 777 ? NAN : 5;
    search_into(&options, micrograph, NULL, &maps);
    assert_true(maps.deviation == 0);
    search_maps_clear(&maps);
    free(micrograph);
}

static void what_cannot_be_searched_is_said(void **state) {
    (void)state;
    float *templates = make_templates();
    struct search_options options = usual();
    struct search *search = NULL;
    struct err err = {0};
    memset(templates + BOX * BOX, 0, BOX * BOX * sizeof *templates);
    assert_int_equal(search_create(&options, templates, &search, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "template 2"));
    assert_null(search);
    options.count = 1;
    options.radius = BOX;
    assert_int_equal(search_create(&options, templates, &search, &err), STATUS_BAD_ARGUMENT);
    options = usual();
    options.work = SIZE + 2;
    assert_int_equal(search_create(&options, templates, &search, &err), STATUS_BAD_ARGUMENT);
    free(templates);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_templates_score_best),
        cmocka_unit_test(whitened_searches_undo_colour),
        cmocka_unit_test(maps_belong_together),
        cmocka_unit_test(noise_is_measured),
        cmocka_unit_test(what_cannot_be_searched_is_said),
    };
    print_message("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
