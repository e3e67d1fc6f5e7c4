/* Tests rules of a refinement's M-step and of its grids against values computed by hand: the prior from the FSC,
 * noise and norms from residuals of images, how far the coarse pass compares, how long two bands are kept apart. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "kernels/fsc/fsc.h"
#include "kernels/reconstruct/accumulator_private.h"
#include "stages/refiner/estep.h"
#include "stages/refiner/mstep.h"
#include "stages/refiner/setup.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"

static struct err failure;

#define OK(call)                                                                                                       \
    do                                                                                                                 \
        if ((call) != STATUS_OK) fail_msg("%s", failure.message);                                                      \
    while (0)

static void near(const char *what, int at, double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance * fabs(expected)))
        fail_msg("%s %d is %.9g, %.9g was expected", what, at, value, expected);
}

enum { SMALL = 24, SMALL_SHELLS = SMALL / 2 + 1, SMALL_SIZE = 20 };
static const double WEIGHT = 50;

/* Fills the sums of a half, with weight 50 everywhere. Where the first half has u, the second half has share·u + √(1
 * − share²)·s·u. s is 1 or −1 and 0 on average, the same for k and −k, so that the halves' FSC is about `share`. */
static double share_of(double radius) {
    return fmax(0.1, 0.97 - 0.1 * radius);
}

static void fill(struct accumulator *a, bool second) {
    for (int z = -a->reach; z <= a->reach; z++)
        for (int y = -a->reach; y <= a->reach; y++)
            for (int x = 0; x < a->nx; x++) {
                double share = share_of(sqrt(x * x + y * y + z * z) / ACCUMULATOR_PAD), u = WEIGHT;
                /* Conjugate pairs in the plane x = 0 are added up. */
                double part = x == 0 ? 0.5 : 1, s = (abs(y) > abs(z) ? 1 : -1);
                if (second) u *= share + sqrt(1 - share * share) * s;
                accumulator_row(a, z, y)[x] = (accumulator_voxel){part * u, 0, part * WEIGHT, 0};
            }
}

static float *floats(size_t count) {
    float *memory = calloc(count, sizeof *memory);
    assert_non_null(memory);
    return memory;
}

static void make_half(struct side *side, bool second) {
    size_t voxels = (size_t)SMALL * SMALL * SMALL;
    struct reference *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *side = (struct side){.references = c, .member_count = 100, .norm_sum = 100, .offset2_sum = 800, .weight_sum = 100};
    *c = (struct reference){.map = floats(voxels),
                            .unfiltered = floats(voxels),
                            .tau2 = floats(SMALL_SHELLS),
                            .ssnr = floats(SMALL_SHELLS),
                            .completeness = floats(SMALL_SHELLS),
                            .sigma2_reconstruction = floats(SMALL_SHELLS)};
    OK(accumulator_create(3, SMALL, SMALL, &c->accumulator, &failure));
    OK(accumulator_clear(c->accumulator, SMALL_SIZE, &failure));
    fill(c->accumulator, second);
}

static void discard_half(struct side *side) {
    struct reference *c = side->references;
    accumulator_destroy(&c->accumulator);
    float *owned[] = {c->map, c->unfiltered, c->tau2, c->ssnr, c->completeness, c->sigma2_reconstruction};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(c);
}

/* Returns Σ m² / box³ of the sphere that references are masked with, or of a mask. */
static double masked_share(const struct refiner *r) {
    size_t voxels = (size_t)SMALL * SMALL * SMALL;
    float *map = floats(voxels);
    double sum = 0;
    for (size_t i = 0; i < voxels; i++)
        map[i] = r->mask == NULL ? 1 : r->mask[i];
    if (r->mask == NULL) mask_sphere(3, SMALL, map, r->mask_radius, MASK_EDGE, 0);
    for (size_t i = 0; i < voxels; i++)
        sum += (double)map[i] * (double)map[i];
    free(map);
    return sum / (double)voxels;
}

/* SSNR = T FSC/(1 − FSC), τ² = σ² SSNR/masked share, with σ² = 1/(2³ · mean weight) of a reconstruction, up to where
 * images were compared. */
static void check_prior(double tau_fudge, bool masked) {
    struct refiner r = {
        .box = SMALL,
        .shells = SMALL_SHELLS,
        .pixel_size = 4,
        .side_count = 2,
        .reference_count = 1,
        .mask_radius = 7,
        .context = {.threads = 1},
        .options = {.tau_fudge = tau_fudge, .join_resolution = 40, .initial_lowpass = 40},
        .schedule = {
            .options = {.references = 1, .box = SMALL, .pixel_size = 4, .join_resolution = 40, .initial_lowpass = 40},
            .current_size = SMALL_SIZE}};
    r.pixels.size = SMALL_SIZE;
    OK(symmetry_create("C1", &r.symmetry, &failure));
    r.fsc = floats(SMALL_SHELLS), r.fsc_joined = floats(SMALL_SHELLS);
    r.combined = floats((size_t)SMALL * SMALL * SMALL);
    if (masked) r.mask = floats((size_t)SMALL * SMALL * SMALL);
    for (int i = 0; masked && i < 100; i++)
        r.mask[(SMALL / 2 * SMALL + SMALL / 2) * SMALL + i] = 0.5f;
    r.map_share = setup_map_share(&r);
    make_half(&r.sides[0], false);
    make_half(&r.sides[1], true);
    OK(mstep(&r, &failure));
    const double share = masked_share(&r);
    const int joined = 1; /* whole shells: 96 Å/40 Å is 2.4, and voxels up to radius 2 are shared */
    for (int h = 0; h < 2; h++) {
        const struct reference *c = r.sides[h].references;
        for (int s = 1; s < SMALL_SHELLS; s++) {
            double f = fmin(fmax(r.fsc_joined[s], 0.001), 0.999);
            if (s <= joined) near("the FSC of shell", s, f, 0.999, 1e-9);
            if (s > joined + 1 && s <= SMALL_SIZE / 2 && !(fabs(f - share_of(s)) < 0.06))
                fail_msg("the FSC is %g in shell %d, about %g was expected", f, s, share_of(s));
            double ssnr = s <= SMALL_SIZE / 2 ? tau_fudge * f / (1 - f) : 0;
            near("FSC/(1 - FSC) of shell", s, c->ssnr[s], ssnr, 1e-3);
            if (s < SMALL_SIZE / 2) near("the prior of shell", s, c->tau2[s], ssnr / (share * 8 * WEIGHT), 3e-3);
            if (s > SMALL_SIZE / 2) assert_true(c->tau2[s] == 0);
        }
    }
    discard_half(&r.sides[0]);
    discard_half(&r.sides[1]);
    symmetry_destroy(&r.symmetry);
    free(r.fsc), free(r.fsc_joined), free(r.combined), free(r.mask);
}

static void the_prior_follows_from_the_fsc(void **state) {
    (void)state;
    check_prior(1, false);
    check_prior(2.5, false);
    check_prior(1, true);
}

/* The noise is the mean of the residuals of each optics group, or of all groups where a group has too few particles;
 * no shell has less than 3 % of the largest. */
static void noise_norm_and_offsets_are_means(void **state) {
    (void)state;
    enum { SHELLS = 5, OPTICS = 3 };
    const struct refiner r = {.shells = SHELLS, .sigma2_optics = OPTICS, .pixel_size = 2};
    float sigma2[OPTICS * SHELLS];
    double counts[OPTICS] = {100, 40, 10},
           sums[OPTICS * SHELLS] = {-1, 300, 200, 100, 0.5, -1, 240, 160, 80, 40, -1, 90, 90, 90, 90};
    static const double EXPECTED[OPTICS * SHELLS] = {7, 3,   2, 1,   0.09, /* 0.5/100 is less than 3 % of 3 */
                                                     7, 6,   4, 2,   1,
                                                     7, 4.2, 3, 1.8, 130.5 / 150}; /* 630/150, 450/150, 270/150 */
    for (int i = 0; i < OPTICS * SHELLS; i++)
        sigma2[i] = 7;
    struct side h = {.sigma2 = sigma2,
                     .sigma2_sum = sums,
                     .optics_weight = counts,
                     .member_count = 150,
                     .norm_sum = 225,
                     .offset2_sum = 900,
                     .weight_sum = 50};
    mstep_parameters(&r, &h);
    for (int i = 0; i < OPTICS * SHELLS; i++)
        near("noise", i, sigma2[i], EXPECTED[i], 1e-6);
    near("the mean norm", 0, h.average_norm, 1.5, 1e-12);
    near("the deviation of shifts", 0, h.sigma_offset, 3, 1e-12); /* √(900/(2·50)) */
    h.offset2_sum = 1;
    mstep_parameters(&r, &h);
    near("the deviation of shifts", 1, h.sigma_offset, sqrt(0.5), 1e-12); /* √2 Å at least */
}

/* The coarse pass compares 1.2 times as far as a step of the grid moves the rim of the particle: π · 120 Å ·
 * 15°/360° = 15.7 Å, and 192 Å · 1.2/15.7 Å = 14.7 shells. */
static void the_coarse_pass_looks_as_far_as_its_grid(void **state) {
    (void)state;
    static const struct {
        int order, telling, size;
        double diameter;
    } KNOWN[] = {
        {2, 60, 30, 120}, {1, 60, 16, 120}, {3, 60, 60, 120}, {3, 64, 60, 120},
        {3, 44, 44, 120}, {2, 64, 20, 190}, {2, 64, 20, 500}, /* the box is 192 Å */
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        struct refiner r = {.box = 64, .pixel_size = 3, .options = {.diameter = KNOWN[i].diameter}};
        r.schedule = (struct schedule){.order = KNOWN[i].order,
                                       .offset_range = 2,
                                       .offset_step = 2,
                                       .current_size = 64,
                                       .telling_size = KNOWN[i].telling};
        OK(symmetry_create("C1", &r.symmetry, &failure));
        OK(estep_open(&r, &failure));
        if (r.coarse_pixels != fourier_pixels_within(&r.pixels, KNOWN[i].size))
            fail_msg("case %zu: %d pixels, %d were expected", i, r.coarse_pixels,
                     fourier_pixels_within(&r.pixels, KNOWN[i].size));
        sampling_destroy(&r.sampling);
        fourier_pixels_destroy(&r.pixels);
        symmetry_destroy(&r.symmetry);
    }
}

static int size_compared(struct refiner *r) {
    OK(estep_open(r, &failure));
    int size = r->compared_size;
    sampling_destroy(&r->sampling);
    fourier_pixels_destroy(&r->pixels);
    return size;
}

/* Σ |P|²/σ² beyond the size compared is below 0.01². With SSNR 1, tau² 2p, noise 1 and half of it left by the mask, a
 * pixel has p. Shells 13 to 20 have 415 pixels; 19 and 20 have about 60 each. */
static void particles_are_compared_as_far_as_the_map_tells(void **state) {
    (void)state;
    enum { SHELLS = 33 };
    static float ssnr[SHELLS], tau2[2][SHELLS], sigma2[SHELLS];
    struct reference references[2];
    struct refiner r = {.box = 64,
                        .shells = SHELLS,
                        .pixel_size = 3,
                        .side_count = 2,
                        .sigma2_optics = 1,
                        .mask_share = 0.5,
                        .map_share = 1,
                        .options = {.diameter = 120}};
    r.schedule = (struct schedule){.order = 1,
                                   .offset_range = 2,
                                   .offset_step = 2,
                                   .current_size = 64,
                                   .telling_size = 40,
                                   .resolution_shell = 10};
    OK(symmetry_create("C1", &r.symmetry, &failure));
    for (int h = 0; h < 2; h++) {
        references[h] = (struct reference){.ssnr = ssnr, .tau2 = tau2[h]};
        r.sides[h] = (struct side){.references = &references[h], .sigma2 = sigma2};
    }
    for (int s = 0; s < SHELLS; s++)
        sigma2[s] = 1, tau2[0][s] = tau2[1][s] = s <= 12 ? 2 : 2e-7f;
    assert_int_equal(size_compared(&r), 40); /* there is no map of particles yet */
    for (int s = 0; s < SHELLS; s++)
        ssnr[s] = 1;
    assert_int_equal(size_compared(&r), 24);
    for (int s = 13; s < SHELLS; s++)
        tau2[1][s] = 2e-6f; /* the other half tells more: 20 gives 6e-5, 19 and 20 give 1.2e-4 */
    assert_int_equal(size_compared(&r), 38);
    r.shared_shell = 8;
    assert_int_equal(size_compared(&r), 40);
    r.shared_shell = 0;
    for (int s = 0; s < SHELLS; s++)
        tau2[0][s] = tau2[1][s] = 0;
    assert_int_equal(size_compared(&r), 20); /* up to the resolution in any case */
    symmetry_destroy(&r.symmetry);
}

/* Replaces what an E-step finds by residuals that depend on the particle's number. */
enum { PARTICLES = 60, BOX_SHELLS = BOX / 2 + 1 };
static double given_scale[PARTICLES];

static double known_norm_sum(int number) {
    return 0.5 * (1 + number % 4) * (1 + number % 4); /* norms of 1 to 4 */
}

static float known_power(int number, int shell) {
    return (float)((1 + number % 3) * (1 + 0.05 * shell));
}

enum status __real_alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err);
enum status __wrap_alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err);
enum status __wrap_alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err) {
    TRY(__real_alignment_add(alignment, particles, count, results, err));
    for (int i = 0; i < count; i++) {
        int number = particles[i].number;
        assert_true(number >= 1 && number <= PARTICLES);
        given_scale[number - 1] = particles[i].scale;
        results[i].norm_sum = known_norm_sum(number);
        for (int s = 0; s < BOX_SHELLS; s++)
            results[i].power[s] = known_power(number, s);
    }
    return STATUS_OK;
}

static struct refiner *make_refiner(const char *name) {
    static float map[BOX * BOX * BOX];
    static struct object object;
    char scratch[PATH_SIZE], reference[PATH_SIZE], path[PATH_SIZE];
    struct refiner *refiner = NULL;
    struct star_file *file = NULL;
    scratch_path(name, scratch);
    OK(file_make_folders(scratch, 0755, &failure));
    srand(12);
    make_object(&object, 14);
    make_map(&object, map, SIGMA);
    write_map(scratch, "reference.mrc", map, reference);
    write_particles(scratch, "a", &object, 1, PARTICLES, 1.0);
    const struct refiner_options options = {.reference = reference,
                                            .diameter = 150,
                                            .initial_lowpass = 50,
                                            .memory = 0.25,
                                            .symmetry = "C1",
                                            .offset_range = 3,
                                            .offset_step = 1,
                                            .max_significant = 30,
                                            .join_resolution = 40,
                                            .local_order = 4,
                                            .tau_fudge = 1,
                                            .classes = 1};
    OK(refiner_create(&options, &(struct refiner_context){.threads = 1}, &refiner, &failure));
    OK(path_join(scratch, "a.star", path, sizeof path, &failure));
    OK(star_read(path, &file, &failure));
    OK(refiner_merge(refiner, &file, path, false, NULL, &failure));
    return refiner;
}

static void iterate(struct refiner *refiner) {
    const struct refiner_iteration iteration = {.max_order = 0};
    bool complete = false;
    OK(refiner_begin(refiner, &iteration, &failure));
    while (!complete)
        OK(refiner_work(refiner, &complete, &failure));
}

/* Each iteration's norm is the one before over the mean norm, times what was found; images are scaled to the mean.
 * The noise is the mean of the residuals. */
static void residuals_become_norms_and_noise(void **state) {
    (void)state;
    struct refiner *r = make_refiner("norms");
    double norm[PARTICLES], average[2] = {1, 1};
    for (int i = 0; i < PARTICLES; i++)
        norm[i] = 1;
    for (int iteration = 0; iteration < 3; iteration++) {
        iterate(r);
        for (int h = 0; h < 2; h++) {
            const struct side *half = &r->sides[h];
            double sum = 0, power[BOX_SHELLS] = {0};
            for (int m = 0; m < half->member_count; m++) {
                int i = half->members[m];
                near("the scale of image", i, given_scale[i], average[h] / norm[i], 1e-9);
                norm[i] *= sqrt(2 * known_norm_sum(i + 1)) / average[h];
                near("the norm of image", i, r->set.particles[i].norm, norm[i], 1e-9);
                sum += norm[i];
                for (int s = 1; s < BOX_SHELLS; s++)
                    power[s] += known_power(i + 1, s) / (double)half->member_count;
            }
            average[h] = sum / half->member_count;
            near("the mean norm of half", h, half->average_norm, average[h], 1e-9);
            for (int s = 1; s < BOX_SHELLS; s++)
                near("the noise of shell", s, half->sigma2[s], power[s], 1e-5);
        }
    }
    refiner_destroy(&r);
}

/* The shared shells are kept apart until the halves agree half as far again, and at least three shells further. 64
 * px of 3 Å are 192 Å: 40 Å are in shell 5 (4.8), 60 Å in shell 3 (3.2), 120 Å in shell 2 (1.6). 240 px are 720 Å:
 * shell 18, exactly, and 27. 128 px of 2.815 Å are 360.32 Å: 40 Å are in shell 9 (9.008), 26.7 Å at 13.51. */
static void bands_end_where_halves_agree_far_enough(void **state) {
    (void)state;
    static const struct {
        int box;
        double pixel_size, join, initial;
        int shell, shared; /* shells to which the halves agree; that are kept apart */
    } CASES[] = {
        {64, 3, 40, 60, 0, 5},     {64, 3, 40, 60, 5, 5},       {64, 3, 40, 60, 7, 5},     {64, 3, 40, 60, 8, 0},
        {64, 3, 40, 60, 20, 0},    {64, 3, 60, 60, 5, 3},       {64, 3, 60, 60, 6, 0},     {64, 3, 120, 120, 4, 2},
        {64, 3, 120, 120, 5, 0},   {64, 3, 60, 40, 7, 5},       {64, 3, 60, 40, 8, 0},     {240, 3, 40, 60, 26, 18},
        {240, 3, 40, 60, 27, 0},   {128, 2.815, 40, 60, 13, 9}, {128, 2.2, 40, 60, 10, 7}, {128, 2.2, 40, 60, 11, 0},
        {16, 3, 1000, 1000, 3, 1}, {128, 2.815, 40, 60, 14, 0}, {12, 3, 7, 60, 0, 0}, /* shell 6 is the last */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct schedule_options options = {.references = 1,
                                                 .box = CASES[i].box,
                                                 .pixel_size = CASES[i].pixel_size,
                                                 .join_resolution = CASES[i].join,
                                                 .initial_lowpass = CASES[i].initial};
        double resolution = CASES[i].shell > 0 ? options.box * options.pixel_size / CASES[i].shell : 0;
        int shared = schedule_shared_shell(&options, resolution);
        if (shared != CASES[i].shared)
            fail_msg("case %zu: %d shells are kept apart, %d were expected", i, shared, CASES[i].shared);
    }
}

/* Beyond the shared shells (5), a shell counts where its FSC is more than chance among its independent numbers: three
 * deviations of 1/√(N − 3) of atanh(FSC). tanh(3/√225) = 0.197, tanh(3/√25) = 0.537; three numbers are never enough. N
 * is that of the mean 1/N of five shells. One or two shells beyond are not believed. */
static void shells_beyond_count_where_they_are_no_chance(void **state) {
    (void)state;
    enum { SHELLS = 12 };
    static const struct {
        float fsc[4];               /* of shells 6 to 9 */
        double numbers[SHELLS - 4]; /* of shells 4 to 11 */
        int reached, believed;
    } CASES[] = {
        {{0.2f, 0.2f, 0.2f, 0.2f}, {228, 228, 228, 228, 228, 228, 228, 0}, 9, 9},
        {{0.19f, 0.2f, 0.2f, 0.2f}, {228, 228, 228, 228, 228, 228, 228, 0}, 9, 5},
        {{0.2f, 0.2f, 0.2f, 0.19f}, {228, 228, 228, 228, 228, 228, 228, 0}, 9, 8},
        {{0.9f, 0.9f, 0.19f, 0.9f}, {228, 228, 228, 228, 228, 228, 228, 0}, 9, 5}, /* two shells beyond */
        {{0.2f, 0.2f, 0.2f, 0.2f}, {228, 228, 228, 228, 228, 228, 228, 0}, 8, 8},  /* the next is below 0.143 */
        {{0.9f, 0.9f, 0.1f, 0.1f}, {228, 228, 228, 228, 228, 228, 0, 0}, 7, 5},
        {{0.55f, 0.55f, 0.55f, 0.53f}, {28, 28, 28, 28, 28, 28, 28, 28}, 9, 8},
        {{0.99f, 0.99f, 0.99f, 0.99f}, {3, 3, 3, 3, 3, 3, 3, 3}, 9, 5},
        /* Shell 6 has 14, 14, 14, 1e9 and 1e9 numbers around it: 23.3 on average, tanh(3/√20.3) = 0.582. */
        {{0.59f, 0.59f, 0.59f, 0.59f}, {14, 14, 14, 1e9, 1e9, 1e9, 1e9, 0}, 9, 9},
        {{0.57f, 0.59f, 0.59f, 0.59f}, {14, 14, 14, 1e9, 1e9, 1e9, 1e9, 0}, 9, 5},
        /* Fewer are counted around shell 9: 28, 28, 28. */
        {{0.55f, 0.55f, 0.55f, 0.55f}, {28, 28, 28, 28, 28, 28, 0, 0}, 9, 9},
        {{0.2f, 0.2f, 0.2f, 0.2f}, {0, 0, 0, 0, 0, 0, 0, 0}, 9, 5},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        float fsc[SHELLS] = {1, 1, 1, 1, 1, 1};
        double numbers[SHELLS] = {0};
        memcpy(fsc + 6, CASES[i].fsc, sizeof CASES[i].fsc);
        memcpy(numbers + 4, CASES[i].numbers, sizeof CASES[i].numbers);
        const struct believed beyond = {.shells = SHELLS, .shared = 5, .reached = CASES[i].reached};
        int believed = mstep_believed_shell(fsc, numbers, &beyond);
        if (believed != CASES[i].believed)
            fail_msg("case %zu: shell %d is believed, %d was expected", i, believed, CASES[i].believed);
    }
}

/* Less its standard error, 1/√(N − 3) of atanh(FSC), the FSC must be 0.143: tanh(atanh(0.143) + 1/√225) = 0.208, and
 * tanh(atanh(0.143) + 1/√25) = 0.331. A curve that stays near 0.143 ends where that is first missed. */
static void a_shell_is_sure_by_more_than_its_error(void **state) {
    (void)state;
    enum { SHELLS = 12, FIRST = 5 };
    static const struct {
        float fsc[6]; /* of shells 5 to 10 */
        double numbers;
        int reached, sure;
    } CASES[] = {
        {{0.5f, 0.21f, 0.21f, 0.21f, 0.21f, 0.1f}, 228, 9, 9},
        {{0.5f, 0.21f, 0.20f, 0.21f, 0.21f, 0.1f}, 228, 9, 6},
        {{0.5f, 0.21f, 0.21f, 0.21f, 0.15f, 0.1f}, 228, 9, 8},
        {{0.5f, 0.34f, 0.34f, 0.32f, 0.34f, 0.1f}, 28, 9, 7},
        {{0.5f, 0.34f, 0.34f, 0.32f, 0.34f, 0.1f}, 28, 6, 6},
        {{0.5f, 0.15f, 0.15f, 0.15f, 0.15f, 0.1f}, 1e6, 9, 9}, /* many numbers: it is the usual rule */
        {{0.5f, 0.49f, 0.49f, 0.49f, 0.49f, 0.1f}, 3, 9, 5},   /* too few show nothing */
        {{0.99f, 0.99f, 0.99f, 0.99f, 0.99f, 0.1f}, 3, 9, 9},  /* a clear shell is not doubted */
        {{0.5f, 0.15f, 0.15f, 0.15f, 0.15f, 0.1f}, 0, 9, 9},   /* not counted: not doubted */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        float fsc[SHELLS] = {1, 1, 1, 1, 1};
        double numbers[SHELLS] = {0};
        memcpy(fsc + FIRST, CASES[i].fsc, sizeof CASES[i].fsc);
        for (int s = FIRST; s < SHELLS - 1; s++)
            numbers[s] = CASES[i].numbers;
        const struct believed curve = {.shells = SHELLS, .reached = CASES[i].reached};
        const int sure = mstep_sure_shell(fsc, numbers, &curve);
        if (sure != CASES[i].sure) fail_msg("case %zu: shell %d is sure, %d was expected", i, sure, CASES[i].sure);
    }
}

static void a_curve_ends_before_it_first_falls(void **state) {
    (void)state;
    static const struct {
        float fsc[6];
        int reached;
    } CASES[] = {
        {{1, 0.9f, 0.5f, 0.143f, 0.14f, 0.9f}, 3}, {{1, 0.9f, 0.1f, 0.9f, 0.9f, 0.9f}, 1},
        {{1, 0.9f, 0.9f, 0.9f, 0.9f, 0.9f}, 5},    {{1, -0.2f, 0.9f, 0.9f, 0.1f, 0.9f}, 3}, /* shell 1 may disagree */
        {{1, 0.1f, 0.1f, 0.9f, 0.9f, 0.9f}, 1},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_int_equal(mstep_reached_shell(CASES[i].fsc, 5), CASES[i].reached);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shell_is_sure_by_more_than_its_error),
        cmocka_unit_test(a_curve_ends_before_it_first_falls),
        cmocka_unit_test(shells_beyond_count_where_they_are_no_chance),
        cmocka_unit_test(bands_end_where_halves_agree_far_enough),
        cmocka_unit_test(the_prior_follows_from_the_fsc),
        cmocka_unit_test(noise_norm_and_offsets_are_means),
        cmocka_unit_test(the_coarse_pass_looks_as_far_as_its_grid),
        cmocka_unit_test(particles_are_compared_as_far_as_the_map_tells),
        cmocka_unit_test(residuals_become_norms_and_noise),
    };
    return scratch_run("refiner-rules", tests, sizeof tests / sizeof *tests);
}
