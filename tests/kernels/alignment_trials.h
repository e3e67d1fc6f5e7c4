/* Iterations over simulated particles of one or two phantoms, and their results, for tests of kernels/alignment on a
 * device. Random numbers come from `seed`. */
#ifndef ICESTREAM_TESTS_KERNELS_ALIGNMENT_TRIALS_H
#define ICESTREAM_TESTS_KERNELS_ALIGNMENT_TRIALS_H

#include <stdbool.h>

#include "kernels/alignment/alignment.h"
#include "kernels/reconstruct/accumulator_private.h"
#include "kernels/symmetry/symmetry.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/phantom.h"

enum { REFERENCES = 2 };
static int threads = 2;

struct trial {
    int box, size, coarse_size, order, references, particles;
    double offset_range, offset_step;
    bool local, oversampled;
    bool given;        /* poses are the particles' own, listed */
    double near_sigma; /* °; 0: the step of the grid */
    double near_range; /* °; 0: none */
    int max_significant;
    const char *symmetry; /* NULL: none */
    int shared_shell;     /* images are masked in two bands, up to this shell and beyond; 0: one band */
    int reference_size;   /* references are empty beyond, px; 0: beyond `size` */
    double summed;        /* as in struct alignment_iteration */
    int screen_size;      /* up to which the whole grid is compared first, px; 0: up to coarse_size */
    bool rounded;         /* as in struct alignment_iteration */
};

static inline int reference_size(const struct trial *t) {
    return t->reference_size > 0 ? t->reference_size : t->size;
}

struct data {
    struct trial trial;
    float *maps[REFERENCES], *images, *sigma2;
    struct projector *projectors[REFERENCES];
    struct symmetry symmetry;
    struct fourier_pixels pixels;
    struct sampling sampling;
    struct ctf *ctfs;
    struct alignment_particle *particles;
};

struct outcome {
    struct alignment_result *results;
    float *power, *weights;
    struct accumulator *sums[REFERENCES];
    float *maps[REFERENCES]; /* with symmetry: made from sums over all operators */
    double seconds;
};

static inline void *new (size_t count, size_t size) {
    void *memory = calloc(count, size);
    assert_non_null(memory);
    return memory;
}

/* Makes a phantom's projection, its centre moved by (x, y), with noise of deviation 1. The second phantom is the mirror
 * image of the first. With symmetry, projects the mean of its copies, so that the contrast does not change. */
static inline void project(const struct data *d, const double pose[9], int reference, double x, double y,
                           float *image) {
    int box = d->trial.box, copies = d->symmetry.count;
    for (int i = 0; i < box * box; i++)
        image[i] = (float)phantom_normal(&seed);
    for (int b = 0; b < PHANTOM_BLOBS * copies; b++) {
        const struct phantom_blob *p = &phantom_blobs[b / copies];
        const double *r = d->symmetry.matrices[b % copies], first[3] = {reference ? -p->x : p->x, p->y, p->z};
        double at[3], centre[2];
        for (int axis = 0; axis < 3; axis++)
            at[axis] = r[3 * axis] * first[0] + r[3 * axis + 1] * first[1] + r[3 * axis + 2] * first[2];
        for (int axis = 0; axis < 2; axis++)
            centre[axis] =
                box / 2 + box * (pose[3 * axis] * at[0] + pose[3 * axis + 1] * at[1] + pose[3 * axis + 2] * at[2]);
        centre[0] -= x, centre[1] -= y;
        double variance = p->sigma * p->sigma, height = 0.4 * p->height * sqrt(2 * M_PI * variance / copies);
        for (int j = 0; j < box; j++)
            for (int i = 0; i < box; i++) {
                double dx = i - centre[0], dy = j - centre[1];
                image[j * box + i] += (float)(height * exp(-(dx * dx + dy * dy) / (2 * variance)));
            }
    }
}

static inline void make_map(const struct data *d, int reference, float *map) {
    struct err err = {0};
    int box = d->trial.box;
    phantom_map(box, map);
    for (int zy = 0; reference && zy < box * box; zy++)
        for (int x = 1; x < box / 2; x++) {
            float *row = map + (size_t)zy * (size_t)box, value = row[x];
            row[x] = row[box - x];
            row[box - x] = value;
        }
    must(symmetry_average_map(&d->symmetry, box, map, &err), &err);
    for (size_t i = 0; i < (size_t)box * (size_t)box * (size_t)box; i++)
        map[i] *= 0.4f * sqrtf((float)d->symmetry.count);
}

static inline void make_particles(struct data *d) {
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
        d->ctfs[i] = (struct ctf){.defocus_u = 1e4 + 1e4 * phantom_uniform(&seed),
                                  .defocus_v = 1.2e4,
                                  .defocus_angle = 30,
                                  .voltage = 300,
                                  .spherical_aberration = 2.7,
                                  .amplitude_contrast = 0.1,
                                  .scale = 1};
        if (i % 4 != 0) p->ctf = &d->ctfs[i];
        project(d, pose, i % t->references, x, y, d->images + (size_t)i * pixels);
    }
}

/* Lists the poses of the particles in reverse order, in place of the grid. */
static inline void give_poses(struct data *d) {
    struct err err = {0};
    size_t n = (size_t)d->trial.particles;
    double(*poses)[9] = new (n, sizeof *poses);
    for (size_t i = 0; i < n; i++) {
        struct alignment_particle *p = &d->particles[i];
        p->orientation = (int)(n - 1 - i);
        memcpy(poses[p->orientation], p->pose, sizeof p->pose);
        p->rest[0] = phantom_uniform(&seed) - 0.5, p->rest[1] = phantom_uniform(&seed) - 0.5;
    }
    sampling_destroy(&d->sampling);
    must(sampling_create_list((const double(*)[9])poses, (int)n, &d->sampling, &err), &err);
    free(poses);
}

static inline void make(const struct trial *t, struct data *d) {
    struct err err = {0};
    size_t box = (size_t)t->box, n = (size_t)t->particles;
    *d = (struct data){.trial = *t};
    d->images = new (n * box * box, sizeof(float));
    d->ctfs = new (n, sizeof *d->ctfs);
    d->particles = new (n, sizeof *d->particles);
    d->sigma2 = new (2 * (box / 2 + 1), sizeof(float));
    for (size_t s = 0; s < 2 * (box / 2 + 1); s++)
        d->sigma2[s] = (float)((s < box / 2 + 1 ? 1 : 1.3) / (2.0 * (double)(box * box)));
    must(fourier_pixels_create(t->box, t->size, &d->pixels, &err), &err);
    must(symmetry_create(t->symmetry != NULL ? t->symmetry : "C1", &d->symmetry, &err), &err);
    must(sampling_create(t->order, t->local ? NULL : &d->symmetry, t->offset_range, t->offset_step, &d->sampling, &err),
         &err);
    sampling_perturb(&d->sampling, 0.21);
    for (int k = 0; k < t->references; k++) {
        d->maps[k] = new (box * box * box, sizeof(float));
        make_map(d, k, d->maps[k]);
        must(projector_create(3, t->box, threads, &d->projectors[k], &err), &err);
        must(projector_set_map(d->projectors[k], d->maps[k], reference_size(t), &err), &err);
    }
    make_particles(d);
    if (t->given) give_poses(d);
}

static inline void discard(struct data *d) {
    for (int k = 0; k < REFERENCES; k++) {
        free(d->maps[k]);
        projector_destroy(&d->projectors[k]);
    }
    fourier_pixels_destroy(&d->pixels);
    sampling_destroy(&d->sampling);
    symmetry_destroy(&d->symmetry);
    free(d->images);
    free(d->ctfs);
    free(d->particles);
    free(d->sigma2);
}

static inline void make_outcome(const struct data *d, struct outcome *o) {
    struct err err = {0};
    size_t n = (size_t)d->trial.particles, shells = (size_t)d->trial.box / 2 + 1,
           references = (size_t)d->trial.references;
    *o = (struct outcome){.results = new (n, sizeof *o->results)};
    o->power = new (n * shells, sizeof(float));
    o->weights = new (n * references, sizeof(float));
    memset(o->power, 0xff, n * shells * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        o->results[i].power = o->power + i * shells;
        o->results[i].reference_weights = o->weights + i * references;
    }
    for (size_t k = 0; k < references; k++)
        must(accumulator_create(3, d->trial.box, d->trial.size, &o->sums[k], &err), &err);
}

static inline void discard_outcome(struct outcome *o) {
    for (int k = 0; k < REFERENCES; k++) {
        accumulator_destroy(&o->sums[k]);
        free(o->maps[k]);
    }
    free(o->results);
    free(o->power);
    free(o->weights);
}

static inline struct alignment_iteration iteration_of(const struct data *d, const struct outcome *o,
                                                      const float *priors) {
    return (struct alignment_iteration){
        .pixels = &d->pixels,
        .coarse_pixels = fourier_pixels_within(&d->pixels, d->trial.coarse_size),
        .screen_pixels = d->trial.screen_size > 0 ? fourier_pixels_within(&d->pixels, d->trial.screen_size) : 0,
        .rounded = d->trial.rounded,
        .sampling = &d->sampling,
        .local = d->trial.local,
        .near_sigma = d->trial.near_sigma,
        .near_range = d->trial.near_range,
        .given_poses = d->trial.given,
        .summed = d->trial.summed,
        .oversampled = d->trial.oversampled,
        .reference_count = d->trial.references,
        .references = d->projectors,
        .sums = o->sums,
        .reference_log_prior = d->trial.references > 1 ? priors : NULL,
        .sigma_offset = 3,
        .sigma2 = d->sigma2,
        .optics_count = 2,
        .shared_shell = d->trial.shared_shell};
}

static inline struct alignment_options options_of(const struct data *d, enum device_kind kind, double memory) {
    return (struct alignment_options){.device = {kind, 0},
                                      .threads = threads,
                                      .memory = memory,
                                      .box = d->trial.box,
                                      .pixel_size = 1.5,
                                      .mask_radius = 0.42 * d->trial.box,
                                      .max_significant = d->trial.max_significant,
                                      .reliability = ALIGNMENT_NORM_L2};
}

/* Adds all particles, a batch at a time. */
static inline enum status add_all(const struct data *d, struct alignment *alignment, struct outcome *o,
                                  struct err *err) {
    for (int first = 0, count; first < d->trial.particles; first += count) {
        count = alignment_batch(alignment);
        if (count > d->trial.particles - first) count = d->trial.particles - first;
        TRY(alignment_add(alignment, d->particles + first, count, o->results + first, err));
    }
    return STATUS_OK;
}

static inline size_t voxels_of(const struct accumulator *a) {
    return (size_t)a->nx * (size_t)a->ny * (size_t)a->nz;
}

/* Returns |a − b| / |a| for the sums of a reference. */
static inline double sums_differ(const struct accumulator *a, const struct accumulator *b) {
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

static inline void check_same(const struct data *d, const struct outcome *a, const struct outcome *b) {
    size_t n = (size_t)d->trial.particles, shells = (size_t)d->trial.box / 2 + 1;
    for (size_t i = 0; i < n; i++)
        assert_memory_equal(a->results[i].pose, b->results[i].pose, offsetof(struct alignment_result, power));
    assert_memory_equal(a->power, b->power, n * shells * sizeof(float));
    for (int k = 0; k < d->trial.references; k++)
        assert_memory_equal(a->sums[k]->voxels, b->sums[k]->voxels, voxels_of(a->sums[k]) * sizeof(accumulator_voxel));
}

#endif
