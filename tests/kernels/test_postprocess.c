/* Post-processing of maps whose answer is known: a given B-factor, masked noise, equal halves, the automatic mask, and
 * the files. compare_relion.py compares numbers with RELION's program. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/formats/mrc.h"
#include "common/formats/star.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/postprocess/postprocess.h"
#include "stages/refiner/files/postprocess_write.h"
#include "stages/refiner/resample.h"
#include "tests/kernels/filter.h"
#include "tests/kernels/phantom.h"

enum { BOX = 32, MAP = BOX * BOX * BOX, SHELLS = BOX / 2 + 1 };
static const double PIXEL = 1.5;

static uint64_t seed = 1729;

static float *new_map(void) {
    float *map = mem_aligned(MAP, sizeof *map);
    assert_non_null(map);
    return map;
}

static struct postprocess_options options(void) {
    return (struct postprocess_options){
        .box = BOX, .pixel_size = PIXEL, .randomise_at_fsc = 0.8, .bfactor_low = 10, .adhoc_bfactor = NAN, .seed = 3};
}

static void sphere(float *mask, double radius) {
    for (int i = 0; i < MAP; i++)
        mask[i] = 1;
    mask_sphere(3, BOX, mask, radius, 4, 0);
}

/* exp(−B/4 s²), B in Å². */
static double damping(double r, const void *b_factor) {
    const double s = r / (BOX * PIXEL);
    return exp(-*(const double *)b_factor / 4 * s * s);
}

/* Makes white noise within a sphere, with amplitudes that fall with exp(−B/4 s²), then adds independent noise to each
 * half. */
static void damped_halves(double b_factor, double noise, float *half1, float *half2) {
    sphere(half1, 8);
    for (int i = 0; i < MAP; i++)
        half1[i] *= (float)phantom_normal(&seed);
    filter_map(BOX, half1, damping, &b_factor);
    for (int i = 0; i < MAP; i++) {
        half2[i] = half1[i] + (float)(noise * phantom_normal(&seed));
        half1[i] += (float)(noise * phantom_normal(&seed));
    }
}

static void b_factor_comes_back(void **state) {
    (void)state;
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *b = new_map();
    damped_halves(100, 0, a, b);
    struct postprocess_options o = options();
    struct postprocess_result r;
    assert_int_equal(postprocess_run(&o, a, b, &r, NULL), STATUS_OK);
    printf("B %.1f for -100\n", r.bfactor);
    assert_true(fabs(r.bfactor + 100) < 5);
    assert_true(r.guinier_correlation > 0.95);
    assert_true(fabs(r.resolution - 2 * PIXEL) < 1e-9);
    /* Sharpened amplitudes no longer fall: the last shells equal the first shells of the fit. */
    assert_true(fabsf(r.guinier_sharpened[BOX / 2 - 1] - r.guinier_sharpened[6]) < 0.3f);
    assert_null(r.mask);
    assert_null(r.map_masked);
    float *first = r.map;
    r.map = NULL;
    postprocess_result_destroy(&r);
    /* A given B-factor is applied unchanged. */
    o.adhoc_bfactor = -60;
    assert_int_equal(postprocess_run(&o, a, b, &r, NULL), STATUS_OK);
    assert_true(r.bfactor == -60);
    float rise = r.guinier_sharpened[14] - r.guinier_weighted[14], expected = 60 / 4.0f * powf(14 / (BOX * 1.5f), 2);
    assert_true(fabsf(rise - expected) < 0.05f);
    postprocess_result_destroy(&r);
    free(first);
}

/* Beyond the resolution amplitudes are those of noise: the fit leaves them out, so that it depends little on the noise.
 * To Nyquist, it is a draw of lots. */
static void b_factor_is_fitted_within_what_is_resolved(void **state) {
    (void)state;
    enum { TRIALS = 4 };
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *b = new_map();
    double least = 0, most = -1e9;
    for (int i = 0; i < TRIALS; i++) {
        struct postprocess_options o = options();
        struct postprocess_result r;
        damped_halves(250, 0.05, a, b);
        assert_int_equal(postprocess_run(&o, a, b, &r, NULL), STATUS_OK);
        printf("B %.0f for -250, %.2f Å\n", r.bfactor, r.resolution);
        assert_true(r.resolution > 2.3 * PIXEL && r.resolution < 6);
        /* The line through the shells from 10 Å to the resolution, by hand. */
        double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
        for (int shell = 5; shell <= (int)lround(BOX * PIXEL / r.resolution); shell++) {
            double x = pow(shell / (BOX * PIXEL), 2), y = (double)r.guinier_weighted[shell];
            n++, sx += x, sy += y, sxx += x * x, sxy += x * y;
        }
        assert_true(fabs(r.bfactor - 4 * (n * sxy - sx * sy) / (n * sxx - sx * sx)) < 1e-6);
        least = fmin(least, r.bfactor), most = fmax(most, r.bfactor);
        postprocess_result_destroy(&r);
    }
    assert_true(least > -300 && most < -200);
}

/* A map that ends before 10 Å is filtered and not sharpened, unless the user gives a B-factor. */
static void coarse_maps_are_not_sharpened(void **state) {
    (void)state;
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *b = new_map();
    damped_halves(2500, 0.01, a, b);
    struct postprocess_options o = options();
    struct postprocess_result r;
    assert_int_equal(postprocess_run(&o, a, b, &r, NULL), STATUS_OK);
    printf("coarse: %.2f Å\n", r.resolution);
    assert_true(r.resolution > 10 && r.resolution < 30);
    assert_true(r.bfactor == 0 && isnan(r.guinier_slope));
    assert_memory_equal(r.guinier_sharpened, r.guinier_weighted, SHELLS * sizeof *r.guinier_weighted);
    assert_true(r.guinier_weighted[SHELLS - 1] == POSTPROCESS_NO_AMPLITUDE || r.fsc[SHELLS - 1] > 1e-4f);
    postprocess_result_destroy(&r);
    o.adhoc_bfactor = -100;
    assert_int_equal(postprocess_run(&o, a, b, &r, NULL), STATUS_OK);
    assert_true(r.bfactor == -100);
    postprocess_result_destroy(&r);
}

static void mtf_is_undone(void **state) {
    (void)state;
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *b = new_map();
    float mtf[SHELLS];
    damped_halves(100, 0.01, a, b);
    for (int i = 0; i < SHELLS; i++)
        mtf[i] = 1 - 0.04f * (float)i;
    struct postprocess_options o = options();
    struct postprocess_result with, without;
    struct err err = {0};
    o.adhoc_bfactor = 0;
    assert_int_equal(postprocess_run(&o, a, b, &without, NULL), STATUS_OK);
    o.mtf = mtf;
    assert_int_equal(postprocess_run(&o, a, b, &with, NULL), STATUS_OK);
    assert_memory_equal(with.fsc, without.fsc, SHELLS * sizeof *with.fsc);
    assert_memory_equal(without.guinier_mtf, without.guinier_original, SHELLS * sizeof *with.fsc);
    for (int i = 1; i < SHELLS - 1; i++) {
        assert_true(fabsf(with.guinier_mtf[i] - without.guinier_original[i] + logf(mtf[i])) < 0.03f);
        assert_true(fabsf(with.guinier_weighted[i] - without.guinier_weighted[i] + logf(mtf[i])) < 0.03f);
    }
    postprocess_result_destroy(&with);
    postprocess_result_destroy(&without);
    mtf[3] = 0;
    assert_int_equal(postprocess_run(&o, a, b, &with, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "shell 3"));
}

/* A mask of halves that agree at low resolution and are noise beyond. A wide one with a soft edge: the curve is corrected by that
 * of random phases, and is about 0 where the maps have nothing in common. */
static void mask_is_corrected_for(void **state) {
    (void)state;
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *b = new_map();
    _cleanup_(mem_free) float *mask = new_map();
    damped_halves(300, 0.03, a, b);
    sphere(mask, 9);
    struct postprocess_options o = options();
    o.mask = mask;
    struct postprocess_result r, again;
    assert_int_equal(postprocess_run(&o, a, b, &r, NULL), STATUS_OK);
    int first = (int)lround(BOX * PIXEL / r.randomise_from);
    printf("from shell %d, claimed %.2f Å, told %.2f Å, chance %.3f\n", first, r.claimed, r.resolution, r.chance);
    assert_true(first >= 2 && first < 12);
    assert_true(r.fsc_unmasked[first] < 0.8f && r.fsc_unmasked[first - 1] >= 0.8f);
    double corrected = 0, n = 0;
    for (int i = 13; i < SHELLS; i++)
        corrected += (double)r.fsc[i], n++;
    assert_true(fabs(corrected / n) < 0.1);
    assert_int_equal(r.doubts, 0);
    assert_false(r.unmasked_curve);
    assert_true(r.claimed == r.resolution);
    for (int i = 0; i < SHELLS; i++) {
        float masked = r.fsc_masked[i], chance = r.fsc_randomised[i];
        float expected = i < first + 2 ? masked : (masked - chance) / (1 - chance);
        assert_true(fabsf(r.fsc[i] - expected) < 1e-5f);
    }
    assert_true(r.resolution > BOX * PIXEL / 13 && r.resolution < 30);
    for (int i = 1; i < SHELLS && r.fsc[i] >= 1e-4f; i++) {
        float weight = sqrtf(2 * r.fsc[i] / (1 + r.fsc[i]));
        assert_true(fabsf(r.guinier_weighted[i] - r.guinier_original[i] - logf(weight)) < 1e-3f);
    }
    for (int i = 0; i < MAP; i++)
        assert_true(r.map_masked[i] == r.map[i] * mask[i]);
    assert_int_equal(postprocess_run(&o, a, b, &again, NULL), STATUS_OK);
    assert_memory_equal(r.fsc, again.fsc, SHELLS * sizeof *r.fsc); /* the seed decides the result */
    postprocess_result_destroy(&again);
    o.seed = 4;
    assert_int_equal(postprocess_run(&o, a, b, &again, NULL), STATUS_OK);
    assert_memory_not_equal(r.fsc_randomised, again.fsc_randomised, SHELLS * sizeof *r.fsc);
    postprocess_result_destroy(&again);
    postprocess_result_destroy(&r);
}

/* The halves of noise with a common part at low resolution: what a mask carries from there is not told. */
static void doubted_masks_tell_nothing(void **state) {
    (void)state;
    static const struct {
        double radius, edge;
        int doubts; /* at least */
    } masks[] = {{5, 4, POSTPROCESS_TIGHT}, {4, 2, POSTPROCESS_TIGHT | POSTPROCESS_HARD}, {7, 0, POSTPROCESS_HARD}};
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *b = new_map();
    _cleanup_(mem_free) float *mask = new_map();
    damped_halves(1500, 0.002, a, b);
    struct postprocess_options o = options();
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct postprocess_result bare, r;
        o.mask = NULL;
        assert_int_equal(postprocess_run(&o, a, b, &bare, NULL), STATUS_OK);
        for (int at = 0; at < MAP; at++)
            mask[at] = 1;
        mask_sphere(3, BOX, mask, masks[i].radius, masks[i].edge, 0);
        o.mask = mask;
        assert_int_equal(postprocess_run(&o, a, b, &r, NULL), STATUS_OK);
        printf("radius %g px, edge %g px (found %.2f): doubts %d, chance %.2f, claimed %.2f Å, told %.2f Å\n",
               masks[i].radius, masks[i].edge, r.mask_edge, r.doubts, r.chance, r.claimed, r.resolution);
        assert_int_equal(r.doubts & masks[i].doubts, masks[i].doubts);
        assert_true(r.resolution == bare.resolution && r.unmasked_curve);
        assert_memory_equal(r.fsc, bare.fsc_unmasked, SHELLS * sizeof *r.fsc);
        assert_memory_equal(r.map, bare.map, MAP * sizeof *r.map); /* nor weighted by it */
        postprocess_result_destroy(&bare);
        postprocess_result_destroy(&r);
    }
}

/* A curve in a mask that goes on where the unmasked maps hold nothing at all is doubted; not where they hold a little,
 * which the mask brings out. */
static void claims_far_beyond_are_doubted(void **state) {
    (void)state;
    _cleanup_(mem_free) float *mask = new_map();
    float unmasked[SHELLS] = {0}, claimed[SHELLS] = {0}, chance[SHELLS] = {0};
    const struct postprocess_options o = options();
    struct postprocess_result r = {
        .fsc = claimed, .fsc_unmasked = unmasked, .fsc_randomised = chance, .mask = mask, .randomise_from = 9};
    sphere(mask, 11);
    for (int i = 0; i < SHELLS; i++) {
        unmasked[i] = i < 6 ? 1 : 0;
        claimed[i] = i < 15 ? 0.9f : 0;
    }
    postprocess_doubt_mask(&o, &r);
    assert_int_equal(r.doubts, POSTPROCESS_BEYOND);
    assert_true(fabs(r.claimed - BOX * PIXEL / 14) < 1e-9);
    for (int i = 6; i < SHELLS; i++)
        unmasked[i] = 0.1f;
    postprocess_doubt_mask(&o, &r);
    assert_int_equal(r.doubts, 0);
    chance[14] = 0.11f;
    postprocess_doubt_mask(&o, &r);
    assert_int_equal(r.doubts, POSTPROCESS_TIGHT);
    for (int i = 6; i < SHELLS; i++)
        unmasked[i] = i < 15 ? 0.2f : 0;
    postprocess_doubt_mask(&o, &r);
    assert_int_equal(r.doubts, 0); /* the unmasked maps say the same */
}

static void widths_of_edges_are_found(void **state) {
    (void)state;
    _cleanup_(mem_free) float *mask = new_map();
    static const double widths[] = {0, 1, 2, 3, 5, 6};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        for (int at = 0; at < MAP; at++)
            mask[at] = 1;
        mask_sphere(3, BOX, mask, 7.3, widths[i], 0);
        double found = postprocess_mask_edge(BOX, mask);
        printf("edge of %g px: %.2f px found\n", widths[i], found);
        assert_true(found > 0.75 * widths[i] - 0.1 && found < 1.1 * widths[i] + 0.1);
    }
    for (int at = 0; at < MAP; at++)
        mask[at] = 1;
    assert_true(isinf(postprocess_mask_edge(BOX, mask))); /* there is no edge */
}

/* Halves that share their low shells and nothing else: the mask carries these into the next ones. Bounded, nothing
 * beyond counts. Shells that hold a part of the signal count for less. */
static void only_what_halves_have_is_told(void **state) {
    (void)state;
    enum { SHARED = 4 };
    _cleanup_(mem_free) float *low = new_map(), *mask = new_map();
    float *halves[2] = {new_map(), new_map()};
    double held[SHELLS];
    sphere(mask, 6);
    for (int i = 0; i < MAP; i++)
        low[i] = (float)phantom_normal(&seed);
    assert_int_equal(lowpass_map(low, BOX, SHARED + 0.5, 0, NULL), STATUS_OK);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < MAP; i++)
            halves[h][i] = 10 * low[i] + 0.1f * (float)phantom_normal(&seed);
    struct postprocess_options o = options();
    struct postprocess_result result;
    const double extent = BOX * PIXEL;
    o.mask = mask;
    o.randomise_at_fsc = 0.1;
    assert_int_equal(postprocess_run(&o, halves[0], halves[1], &result, NULL), STATUS_OK);
    assert_true(result.claimed < extent / SHARED - 0.1); /* what the bound is for */
    postprocess_result_destroy(&result);
    o.last_shell = SHARED;
    assert_int_equal(postprocess_run(&o, halves[0], halves[1], &result, NULL), STATUS_OK);
    assert_true(fabs(result.resolution - extent / SHARED) < 1e-6);
    for (int s = SHARED + 1; s < SHELLS; s++)
        assert_true(result.fsc[s] == 0);
    postprocess_result_destroy(&result);
    o.mask = NULL; /* the bound holds without a mask, too */
    o.automatic_mask = false;
    o.last_shell = SHARED - 1;
    assert_int_equal(postprocess_run(&o, halves[0], halves[1], &result, NULL), STATUS_OK);
    assert_true(fabs(result.resolution - extent / (SHARED - 1)) < 1e-6);
    assert_true(result.fsc[SHARED] == 0 && result.fsc_unmasked[SHARED] > 0.9f);
    postprocess_result_destroy(&result);
    o.mask = mask;
    o.last_shell = SHARED;
    for (int s = 0; s < SHELLS; s++)
        held[s] = s < 3 ? 1 : 0.4;
    o.held = held;
    assert_int_equal(postprocess_run(&o, halves[0], halves[1], &result, NULL), STATUS_OK);
    assert_true(fabs(result.resolution - extent / 2) < 1e-6);
    postprocess_result_destroy(&result);
    /* Noise about a small molecule, to which a mask makes the halves agree better: not of what they lack. */
    for (int i = 0; i < MAP; i++)
        for (int h = 0; h < 2; h++)
            halves[h][i] = mask[i] * low[i] + 0.06f * (float)phantom_normal(&seed);
    o.last_shell = 0;
    for (int s = 0; s < SHELLS; s++)
        held[s] = s < 3 ? 1 : 0.55;
    assert_int_equal(postprocess_run(&o, halves[0], halves[1], &result, NULL), STATUS_OK);
    assert_true(result.fsc[6] > 0.85f && result.fsc_unmasked[6] > 0.143f); /* by themselves they would tell shell 6 */
    assert_true(fabs(result.resolution - extent / 5) < 1e-6);
    postprocess_result_destroy(&result);
    mem_free(&halves[0]);
    mem_free(&halves[1]);
}

static void equal_halves_are_no_error(void **state) {
    (void)state;
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *mask = new_map();
    phantom_map(BOX, a);
    sphere(mask, 10);
    struct postprocess_options o = options();
    o.mask = mask;
    struct postprocess_result r;
    assert_int_equal(postprocess_run(&o, a, a, &r, NULL), STATUS_OK);
    assert_true(fabs(r.resolution - 2 * PIXEL) < 1e-9);
    assert_true(r.randomise_from == 0 && r.unmasked_curve);
    postprocess_result_destroy(&r);
}

static void automatic_mask_holds_the_density(void **state) {
    (void)state;
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *b = new_map();
    _cleanup_(mem_free) float *truth = new_map();
    phantom_map(BOX, truth);
    for (int i = 0; i < MAP; i++) {
        a[i] = truth[i] + 0.3f * (float)phantom_normal(&seed);
        b[i] = truth[i] + 0.3f * (float)phantom_normal(&seed);
    }
    struct postprocess_options o = options();
    o.automatic_mask = true;
    struct postprocess_result r;
    assert_int_equal(postprocess_run(&o, a, b, &r, NULL), STATUS_OK);
    int missed = 0;
    for (int i = 0; i < MAP; i++) {
        assert_true(r.mask[i] >= 0 && r.mask[i] <= 1);
        missed += truth[i] > 0.3f && r.mask[i] < 0.999f;
    }
    printf("mask: %.1f %% of the box\n", 100 * r.mask_fraction);
    assert_int_equal(missed, 0);
    assert_true(r.mask_fraction > 0.05 && r.mask_fraction < 0.5);
    assert_true(r.mask[0] == 0);
    postprocess_result_destroy(&r);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *mask = new_map();
    struct postprocess_options o = options();
    struct postprocess_result r;
    struct err err = {0};
    o.mask = mask;
    assert_int_equal(postprocess_run(&o, a, a, &r, &err), STATUS_BAD_ARGUMENT); /* an empty mask */
    mask[77] = 1.5f;
    assert_int_equal(postprocess_run(&o, a, a, &r, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "1.5"));
    o.mask = NULL, o.automatic_mask = true;
    assert_int_equal(postprocess_run(&o, a, a, &r, &err), STATUS_BAD_ARGUMENT); /* empty maps */
    o.automatic_mask = false;
    assert_int_equal(postprocess_run(&o, a, a, &r, &err), STATUS_OK);
    assert_true(r.bfactor == 0 && r.resolution == 999);
    postprocess_result_destroy(&r);
    o.box = 31;
    assert_int_equal(postprocess_run(&o, a, a, &r, &err), STATUS_BAD_ARGUMENT);
    /* A box that is too large is refused before anything is read or written: there is one voxel here. */
    enum { LARGE = POSTPROCESS_BOX_MOST + 2 };
    const float voxel = 1;
    float none = 0;
    o.box = LARGE;
    assert_int_equal(postprocess_run(&o, &voxel, &voxel, &r, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "2048"));
    assert_int_equal(postprocess_make_mask(LARGE, PIXEL, &voxel, &none, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "2048"));
    assert_true(isinf(postprocess_mask_edge(LARGE, &voxel)));
    struct postprocess_mask_shape shape = {.threshold = NAN, .extend = POSTPROCESS_MASK_MOST + 1, .edge = 3};
    assert_int_equal(postprocess_shape_mask(BOX, PIXEL, &shape, a, mask, &err), STATUS_BAD_ARGUMENT);
    shape.extend = 3, shape.edge = NAN;
    assert_int_equal(postprocess_shape_mask(BOX, PIXEL, &shape, a, mask, &err), STATUS_BAD_ARGUMENT);
    shape.extend = shape.edge = POSTPROCESS_MASK_MOST; /* beyond the box on all sides */
    assert_int_equal(postprocess_shape_mask(BOX, PIXEL, &shape, a, mask, &err), STATUS_OK);
}

static void files_can_be_read(void **state) {
    (void)state;
    char folder[] = "/tmp/icestream-postprocess-XXXXXX", path[256];
    assert_non_null(mkdtemp(folder));
    _cleanup_(mem_free) float *a = new_map();
    _cleanup_(mem_free) float *b = new_map();
    damped_halves(200, 0.05, a, b);
    struct postprocess_options o = options();
    o.automatic_mask = true;
    struct postprocess_result r;
    struct err err = {0};
    const struct postprocess_names names = {
        .half1 = "refiner/run_half1.mrc", .half2 = "refiner/run_half2.mrc", .folder = "refiner"};
    assert_int_equal(postprocess_run(&o, a, b, &r, &err), STATUS_OK);
    if (postprocess_write(&r, &o, folder, &names, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
    static const char *maps[] = {"postprocess.mrc", "postprocess_masked.mrc", "postprocess_mask.mrc"};
    const float *held[] = {r.map, r.map_masked, r.mask};
    for (int i = 0; i < 3; i++) {
        struct image image = {0};
        snprintf(path, sizeof path, "%s/%s", folder, maps[i]);
        assert_int_equal(mrc_read(path, &image, &err), STATUS_OK);
        assert_true(image.nx == BOX && image.nz == BOX && fabsf(image.pixel_size - 1.5f) < 1e-5f);
        assert_memory_equal(image.data, held[i], MAP * sizeof(float));
        image_destroy(&image);
        unlink(path);
    }
    struct star_file *file = NULL;
    snprintf(path, sizeof path, "%s/postprocess.star", folder);
    assert_int_equal(star_read(path, &file, &err), STATUS_OK);
    struct star_table *general = star_table_find(file, "general"), *fsc = star_table_find(file, "fsc");
    struct star_table *guinier = star_table_find(file, "guinier");
    assert_true(general != NULL && fsc != NULL && guinier != NULL);
    assert_int_equal(star_row_count(fsc), SHELLS);
    assert_int_equal(star_row_count(guinier), SHELLS);
    double value = 0;
    assert_int_equal(star_get_number(general, 0, star_column_find(general, "rlnFinalResolution"), &value, NULL),
                     STATUS_OK);
    assert_true(fabs(value - r.resolution) < 1e-4);
    assert_string_equal(star_get(general, 0, star_column_find(general, "rlnPostprocessedMap")),
                        "refiner/postprocess.mrc");
    assert_int_equal(
        star_get_number(fsc, 3, star_column_find(fsc, "rlnFourierShellCorrelationCorrected"), &value, NULL), STATUS_OK);
    assert_true(fabs(value - (double)r.fsc[3]) < 1e-4);
    star_destroy(&file);
    unlink(path);
    rmdir(folder);
    postprocess_result_destroy(&r);
    postprocess_result_destroy(&r);
}

int main(void) {
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b_factor_comes_back),
        cmocka_unit_test(b_factor_is_fitted_within_what_is_resolved),
        cmocka_unit_test(coarse_maps_are_not_sharpened),
        cmocka_unit_test(mtf_is_undone),
        cmocka_unit_test(mask_is_corrected_for),
        cmocka_unit_test(doubted_masks_tell_nothing),
        cmocka_unit_test(claims_far_beyond_are_doubted),
        cmocka_unit_test(widths_of_edges_are_found),
        cmocka_unit_test(only_what_halves_have_is_told),
        cmocka_unit_test(equal_halves_are_no_error),
        cmocka_unit_test(automatic_mask_holds_the_density),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(files_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
