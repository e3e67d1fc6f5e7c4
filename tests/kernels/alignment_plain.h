/* One E-step over noisy projections of blobs in random places, on the device under test and in double, and how the two
 * are compared. Random numbers come from `seed`. */
#ifndef ICESTREAM_TESTS_KERNELS_ALIGNMENT_PLAIN_H
#define ICESTREAM_TESTS_KERNELS_ALIGNMENT_PLAIN_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/alignment/alignment.h"
#include "kernels/alignment/alignment_reference.h"
#include "kernels/reconstruct/accumulator_private.h"

enum { BOX = 24, SHELLS = BOX / 2 + 1, BLOBS = 7, REFERENCES = 3, PARTICLES = 14, OPTICS = 2, FEW = 10 };
static const double PIXEL = 4;
static unsigned seed;
static struct device device;
static struct err failure;

#define OK(call)                                                                                                       \
    do                                                                                                                 \
        if ((call) != STATUS_OK) fail_msg("%s", failure.message);                                                      \
    while (0)

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

static double normal(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

/* Parameters of a comparison. */
struct setting {
    const char *symmetry; /* NULL: the whole sphere */
    int dimensions, references;
    bool local, oversampled, priors, no_ctf, doubtful, given;
    enum alignment_norm reliability;
    int order; /* number of the grid, in 3D */
    int max_significant;
    double offset_range, noise, summed;
    double near_sigma; /* °; 0: the grid's step */
    double near_range; /* °; 0: none */
    double rounding;   /* how much larger rounding is than in sums of a hundred terms of FP32 */
    double memory;     /* bytes */
    int threads;
    int shared_shell;
    int reference_size, screen_size; /* as in alignment_trials.h */
};

struct data {
    struct setting setting;
    struct alignment_options options;
    struct alignment_iteration iteration;
    struct fourier_pixels pixels;
    struct sampling sampling;
    struct projector *references[REFERENCES];
    struct accumulator *sums[REFERENCES], *expected_sums[REFERENCES];
    double blobs[REFERENCES][BLOBS][4];
    float log_prior[REFERENCES], sigma2[OPTICS * SHELLS];
    float images[PARTICLES][BOX * BOX];
    struct ctf ctf[PARTICLES];
    struct alignment_particle particles[PARTICLES];
    struct alignment_result results[PARTICLES], expected[PARTICLES];
    float power[PARTICLES][SHELLS], expected_power[PARTICLES][SHELLS];
    float weights[PARTICLES][REFERENCES], expected_weights[PARTICLES][REFERENCES];
};

static void make_reference(struct data *d, int k) {
    int depth = d->setting.dimensions == 3 ? BOX : 1;
    float *map = calloc((size_t)depth * BOX * BOX, sizeof *map);
    assert_non_null(map);
    for (int b = 0; b < BLOBS; b++) {
        for (int i = 0; i < 3; i++)
            d->blobs[k][b][i] = i < d->setting.dimensions ? 12 * uniform() - 6 : 0;
        d->blobs[k][b][3] = 0.5 + uniform();
    }
    for (int z = 0; z < depth; z++)
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++)
                for (int b = 0; b < BLOBS; b++) {
                    const double *at = d->blobs[k][b];
                    double dx = x - BOX / 2 - at[0], dy = y - BOX / 2 - at[1], dz = depth > 1 ? z - BOX / 2 - at[2] : 0;
                    map[(z * BOX + y) * BOX + x] += (float)(at[3] * exp(-(dx * dx + dy * dy + dz * dz) / 3));
                }
    OK(projector_create(d->setting.dimensions, BOX, 1, &d->references[k], &failure));
    OK(projector_set_map(d->references[k], map, d->setting.reference_size > 0 ? d->setting.reference_size : 18,
                         &failure));
    OK(accumulator_create(d->setting.dimensions, BOX, d->pixels.size, &d->sums[k], &failure));
    OK(accumulator_create(d->setting.dimensions, BOX, d->pixels.size, &d->expected_sums[k], &failure));
    free(map);
}

/* Makes a projection of one of the references, with noise. Images have no CTF; the comparison applies it to slices. */
static void make_particle(struct data *d, int i) {
    struct alignment_particle *p = &d->particles[i];
    int k = i % d->setting.references;
    double pose[9];
    if (d->setting.dimensions == 3)
        euler_to_matrix(360 * uniform(), 180 / M_PI * acos(2 * uniform() - 1), 360 * uniform(), pose);
    else
        euler_to_matrix(0, 0, 360 * uniform(), pose);
    double ox = 3 * uniform() - 1.5, oy = 3 * uniform() - 1.5;
    for (int j = 0; j < BOX * BOX; j++)
        d->images[i][j] = (float)(d->setting.noise * normal());
    for (int b = 0; b < BLOBS; b++) {
        double bx = 0, by = 0;
        for (int j = 0; j < 3; j++)
            bx += pose[j] * d->blobs[k][b][j], by += pose[3 + j] * d->blobs[k][b][j];
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++) {
                double dx = x - BOX / 2 - bx + ox, dy = y - BOX / 2 - by + oy;
                d->images[i][y * BOX + x] += (float)(d->blobs[k][b][3] * exp(-(dx * dx + dy * dy) / 3));
            }
    }
    d->ctf[i] = (struct ctf){.defocus_u = 4000 + 500 * i,
                             .defocus_v = 3000 + 500 * i,
                             .defocus_angle = 25 * i,
                             .voltage = 300,
                             .spherical_aberration = 2.7,
                             .amplitude_contrast = 0.6,
                             .scale = 1};
    *p = (struct alignment_particle){.image = d->images[i],
                                     .ctf = d->setting.no_ctf || i % 5 == 4 ? NULL : &d->ctf[i],
                                     .optics = i % OPTICS,
                                     .shift = {i % 3 - 1, i % 2},
                                     .scale = 0.9 + 0.02 * i,
                                     .residual = i % 4 == 0 ? -1 : 0.1 * i,
                                     .known_shell = 3 + i % 5};
    memcpy(p->pose, pose, sizeof pose);
    for (int j = 0; j < 9; j++) /* the pose to search near is not quite the true one */
        p->pose[j] = pose[j] + (d->setting.dimensions == 3 ? 0.02 * normal() : 0);
}

/* Fills all results with bytes that no result has, so that a missing value shows. */
static void poison(struct data *d) {
    memset(d->results, 0xff, sizeof d->results);
    memset(d->expected, 0xff, sizeof d->expected);
    memset(d->power, 0xff, sizeof d->power);
    memset(d->weights, 0xff, sizeof d->weights);
    for (int i = 0; i < PARTICLES; i++) {
        d->results[i].power = d->power[i], d->expected[i].power = d->expected_power[i];
        d->results[i].reference_weights = i == 3 ? NULL : d->weights[i];
        d->expected[i].reference_weights = i == 3 ? NULL : d->expected_weights[i];
    }
}

/* Makes images from those that surely show a particle to those that surely do not; two of them have norms out of
 * range. */
static void make_doubts(struct data *d) {
    for (int i = 0; i < PARTICLES; i++) {
        struct alignment_particle *p = &d->particles[i];
        p->nothing = alignment_log_poses(&d->iteration, p->shift) - 10 + 5 * i;
        p->norm_least = i == 5 ? 1e6 : 0;
        p->norm_most = i == 3 ? 0.1 : 1e9;
    }
}

/* Makes the particles' own poses the only ones to compare, listed in reverse order, and shifts by parts of pixels. */
static void give_poses(struct data *d) {
    double poses[PARTICLES][9];
    for (int i = 0; i < PARTICLES; i++) {
        struct alignment_particle *p = &d->particles[i];
        p->orientation = PARTICLES - 1 - i;
        memcpy(poses[p->orientation], p->pose, sizeof p->pose);
        p->rest[0] = uniform() - 0.5, p->rest[1] = uniform() - 0.5;
    }
    sampling_destroy(&d->sampling);
    OK(sampling_create_list((const double(*)[9])poses, PARTICLES, &d->sampling, &failure));
    d->iteration.given_poses = true;
}

static struct data *make_data(struct setting setting) {
    struct data *d = calloc(1, sizeof *d);
    struct symmetry symmetry = {0};
    assert_non_null(d);
    srand(seed);
    d->setting = setting;
    if (setting.symmetry != NULL) OK(symmetry_create(setting.symmetry, &symmetry, &failure));
    OK(fourier_pixels_create(BOX, 18, &d->pixels, &failure));
    OK(setting.dimensions == 3 ? sampling_create(setting.order, setting.symmetry != NULL ? &symmetry : NULL,
                                                 setting.offset_range, 2, &d->sampling, &failure)
                               : sampling_create_plane(20, setting.offset_range, 2, &d->sampling, &failure));
    symmetry_destroy(&symmetry);
    sampling_perturb(&d->sampling, 0.3);
    for (int k = 0; k < setting.references; k++) {
        make_reference(d, k);
        d->log_prior[k] = -0.5f * (float)k;
    }
    for (int i = 0; i < PARTICLES; i++)
        make_particle(d, i);
    for (int i = 0; i < OPTICS * SHELLS; i++) /* noise of deviation 1 has 1/(2 box²) in each shell */
        d->sigma2[i] = (float)(setting.noise * setting.noise * (0.8 + 0.4 * uniform()) / (2.0 * BOX * BOX));
    d->options = (struct alignment_options){.device = device,
                                            .threads = setting.threads,
                                            .memory = setting.memory,
                                            .box = BOX,
                                            .pixel_size = PIXEL,
                                            .mask_radius = 7,
                                            .max_significant = setting.max_significant,
                                            .reliability = setting.reliability};
    d->iteration = (struct alignment_iteration){
        .pixels = &d->pixels,
        .coarse_pixels = fourier_pixels_within(&d->pixels, 12),
        .screen_pixels = setting.screen_size > 0 ? fourier_pixels_within(&d->pixels, setting.screen_size) : 0,
        .sampling = &d->sampling,
        .local = setting.local,
        .summed = setting.summed,
        .near_sigma = setting.near_sigma,
        .near_range = setting.near_range,
        .oversampled = setting.oversampled,
        .reference_count = setting.references,
        .references = d->references,
        .sums = d->sums,
        .reference_log_prior = setting.priors ? d->log_prior : NULL,
        .sigma_offset = 2.5,
        .sigma2 = d->sigma2,
        .doubtful = setting.doubtful,
        .optics_count = OPTICS,
        .shared_shell = setting.shared_shell};
    if (setting.doubtful) make_doubts(d);
    if (setting.given) give_poses(d);
    return d;
}

static void destroy_data(struct data *d) {
    for (int k = 0; k < REFERENCES; k++) {
        projector_destroy(&d->references[k]);
        accumulator_destroy(&d->sums[k]);
        accumulator_destroy(&d->expected_sums[k]);
    }
    sampling_destroy(&d->sampling);
    fourier_pixels_destroy(&d->pixels);
    free(d);
}

static void clear_sums(struct data *d) {
    for (int k = 0; k < d->setting.references; k++)
        OK(accumulator_clear(d->sums[k], d->pixels.size, &failure));
}

/* Adds all particles, the first `first` of them in a call of their own. */
static inline void align(struct data *d, int first) {
    struct alignment *a = NULL;
    clear_sums(d);
    OK(alignment_create(&d->options, &a, &failure));
    OK(alignment_begin(a, &d->iteration, &failure));
    int most = alignment_batch(a);
    assert_true(most >= 1);
    for (int done = 0, count; done < PARTICLES; done += count) {
        count = done == 0 && first > 0 ? first : PARTICLES - done;
        if (count > most) count = most;
        OK(alignment_add(a, d->particles + done, count, d->results + done, &failure));
    }
    OK(alignment_finish(a, &failure));
    alignment_destroy(&a);
    assert_null(a);
}

static bool unclear(struct data *d, const struct alignment_iteration *iteration, int i) {
    double margin;
    OK(alignment_reference(&d->options, iteration, &d->particles[i], &d->expected[i], &margin, &failure));
    return margin <= 3e-4 * d->setting.rounding;
}

/* Runs the reference; call it before align(). If a weight lies nearer to a threshold than FP32 can tell, two poses are
 * equally right, and the results may differ much. Such particles are drawn again. */
static void align_plainly(struct data *d) {
    struct alignment_iteration iteration = d->iteration;
    iteration.sums = d->expected_sums;
    for (bool again = true; again;) { /* particles drawn again have left something in the sums */
        again = false;
        for (int k = 0; k < d->setting.references; k++)
            OK(accumulator_clear(d->expected_sums[k], d->pixels.size, &failure));
        for (int i = 0; i < PARTICLES; i++)
            while (unclear(d, &iteration, i)) {
                make_particle(d, i);
                if (d->setting.doubtful) make_doubts(d);
                if (d->setting.given) give_poses(d);
                again = true;
            }
    }
}

static void near(const char *what, int particle, double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%s of particle %d is %.9g, %.9g was expected (seed %u)", what, particle, value, expected, seed);
}

/* Differences are FP32 sums of about a hundred terms: 1e-4 in a logarithm, 1e-4 of a weight. */
static void compare_result(const struct data *d, int i) {
    const struct alignment_result *r = &d->results[i], *e = &d->expected[i];
    double loose = d->setting.rounding;
    near("significant samples", i, r->significant, e->significant, 0);
    near("pmax", i, r->pmax, e->pmax, 5e-4 * loose * e->pmax);
    near("the log-likelihood", i, r->log_likelihood, e->log_likelihood, 2e-3 * loose);
    near("the evidence", i, r->evidence, e->evidence, 2e-3 * loose);
    near("the probability of nothing", i, r->nothing, e->nothing, 1e-3 * loose);
    near("being left out", i, r->left_out, e->left_out, 0);
    near("the sum of weights", i, r->weight_sum, e->weight_sum, 2e-4 * loose);
    near("offset²", i, r->offset2, e->offset2, 5e-4 * loose * (e->offset2 + 0.1));
    near("the norm", i, r->norm_sum, e->norm_sum, 1e-4 * loose * e->norm_sum);
    near("reliability", i, r->reliability, e->reliability, 1e-5);
    for (int s = 1; s < SHELLS; s++)
        near("noise", i, r->power[s], e->power[s], 3e-4 * loose * e->power[s]);
    for (int k = 0; r->reference_weights != NULL && k < d->setting.references; k++)
        near("weight of a reference", i, r->reference_weights[k], e->reference_weights[k], 2e-4 * loose);
    near("the reference", i, r->reference, e->reference, 0);
    near("the residual", i, r->residual, e->residual, 1e-5 * fabs(e->residual));
    for (int j = 0; j < 9; j++)
        near("the pose", i, r->pose[j], e->pose[j], 1e-6);
    for (int j = 0; j < 2; j++)
        near("the shift", i, r->shift[j], e->shift[j], 1e-6);
}

/* Compares the root mean square over data and over weights, relative. */
static void compare_sums(const struct data *d) {
    bool any = false;
    for (int k = 0; k < d->setting.references; k++) {
        const struct accumulator *a = d->sums[k], *e = d->expected_sums[k];
        double error[2] = {0}, power[2] = {0};
        size_t voxels = (size_t)a->nx * (size_t)a->ny * (size_t)a->nz;
        assert_true(a->nx == e->nx && a->ny == e->ny && a->nz == e->nz);
        for (size_t v = 0; v < voxels; v++)
            for (int c = 0; c < 3; c++) {
                double difference = a->voxels[v][c] - e->voxels[v][c];
                error[c / 2] += difference * difference;
                power[c / 2] += e->voxels[v][c] * e->voxels[v][c];
            }
        any |= power[0] > 0;
        for (int c = 0; c < 2; c++)
            if (!(error[c] <= 1e-6 * power[c])) /* a reference that resembles no particle gets nothing */
                fail_msg("%s of reference %d differ by %.3g of them (seed %u)", c == 0 ? "data" : "weights", k + 1,
                         sqrt(error[c] / power[c]), seed);
    }
    assert_true(any);
}

static struct setting plain_setting(void) {
    return (struct setting){.dimensions = 3,
                            .references = 1,
                            .oversampled = true,
                            .order = 1,
                            .max_significant = 1000000,
                            .offset_range = 2,
                            .noise = 1.5,
                            .rounding = 1,
                            .memory = 0x1p30,
                            .threads = 2};
}

static inline void check(struct setting setting) {
    struct data *d = make_data(setting);
    poison(d);
    align_plainly(d);
    align(d, 5);
    for (int i = 0; i < PARTICLES; i++)
        compare_result(d, i);
    compare_sums(d);
    destroy_data(d);
}

#endif
