/* Classes of one map begin with a random part of the particles each, so that their maps differ by noise alone. The
 * noise of a particle is in the map of its class: in a shell s, n particles give a grid point about n/(2s) values, of
 * which one is its own, and over 15 shells of 200 particles its own noise speaks for its class with a log-likelihood
 * of more than 30. A missing domain speaks with as much only once the classes are apart. So particles stayed where
 * chance had put them, or the class that was a little better took all.
 *
 * The difference of two maps decides alone on the class of a particle: its log-likelihoods differ by Σ Re(X − P) conj
 * D/σ², D the projected difference, with the variance Σ |D|²/σ². Scaled down, the difference leaves the poses as they
 * are and makes particles less sure of their class. As long as no particle is sure, the particles' answer to a
 * difference is linear in it: an iteration multiplies each kind of difference by a factor of its own, and the kind in
 * which the particles differ most grows fastest, as in the power method for the first principal component. This is
 * the annealing of Rose (Proc. IEEE 86, 1998) with the pose left out of it. After some iterations the maps differ by
 * that kind alone, and are released.
 *
 * Most of a difference is noise, and the noise lies everywhere: a domain that is missing is one place. So once the
 * difference has begun to show what particles differ in, it counts only up to 25 Å, and only where it is stronger than
 * elsewhere: at each place by 1 − N/P, P its mean square about there and N that of the quarter of the sphere that differs
 * least. Earlier this would keep the class maps apart where noise happens to be strong. The maps of the last iteration,
 * which nothing is compared with, are those that the particles give.
 *
 * While maps are held, all classes have the same prior: a class that is a little larger has less noise, which would make it grow.
 */
#include "stages/refiner/classes_held.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"

static const double SURE = 1;    /* standard deviation of the log-likelihood ratio of two held classes */
static const double FINEST = 25; /* Å: of a difference that counts by place */
static const double ABOUT = 12;  /* Å: standard deviation of the Gaussian that means about a place */
/* Of the mean square of noise: its mean over the sphere is so many times what the quarter with least exceeds. */
static const double QUARTER = 0.25, OVER_QUARTER = 1.3;

int classes_held_iterations(int iterations) {
    enum { MOST = 12 };
    const double SHARE = 0.5;
    int some = (int)(SHARE * iterations);
    return some < MOST ? some : MOST;
}

/* Returns whether an iteration makes maps whose differences count by place: the last quarter of those that hold them,
 * and all later ones. */
static bool by_place(const struct refiner *r) {
    return r->schedule.iteration >= 3 * classes_held_iterations(r->schedule.options.iterations) / 4;
}

/* Returns whether the running iteration is the last. */
static bool is_last(const struct refiner *r) {
    const struct schedule *s = &r->schedule;
    size_t present = particle_set_counted(&r->set);
    int before = s->whole_particles == present ? s->whole_iterations : 0;
    return (size_t)r->sides[0].member_count == present && before + 1 >= s->options.iterations;
}

/* Returns whether an iteration has held the maps that it made. */
static bool held_in(const struct refiner *r, int iteration) {
    return r->map_count < r->reference_count && iteration <= classes_held_iterations(r->schedule.options.iterations);
}

double classes_prior(const struct refiner *r, const struct reference *c) {
    return held_in(r, r->schedule.iteration - 1) ? 1.0 / r->reference_count : c->share;
}

/* Maps and what is computed of them. */
struct held {
    size_t voxels;
    struct fft_plan *plan, *back;
    float *mean, *rest, *spectrum; /* [voxels]; half transform, complex */
    float *weight;                 /* [voxels]: of a difference; NULL: all of it counts */
    double *planes;                /* [box][shells]: Σ |F|² of a plane of the transform */
};

static void held_close(struct held *h) {
    fft_destroy(&h->plan);
    fft_destroy(&h->back);
    mem_free(&h->weight);
    mem_free(&h->mean);
    mem_free(&h->rest);
    mem_free(&h->spectrum);
    mem_free(&h->planes);
}

static enum status held_open(const struct refiner *r, struct held *h, struct err *err) {
    struct fft_options options = {
        .rank = 3, .shape = {r->box, r->box, r->box}, .direction = FFT_FORWARD, .threads = r->context.threads};
    size_t box = (size_t)r->box;
    *h = (struct held){.voxels = box * box * box};
    TRY(mem_new(h->voxels, sizeof *h->mean, "a map", &h->mean, err));
    TRY(mem_new_unset(h->voxels, sizeof *h->rest, "a map", &h->rest, err));
    TRY(mem_new_unset(box * box * (box / 2 + 1), 2 * sizeof *h->spectrum, "a transform", &h->spectrum, err));
    TRY(mem_new(box * (size_t)r->shells, sizeof *h->planes, "spectra", &h->planes, err));
    TRY(fft_create(&options, &h->plan, err));
    options.direction = FFT_INVERSE;
    return fft_create(&options, &h->back, err);
}

static int shell_at(const struct refiner *r, int plane, int row, int x) {
    int box = r->box, z = plane <= box / 2 ? plane : plane - box, y = row <= box / 2 ? row : row - box;
    return (int)lround(sqrt((double)z * z + (double)y * y + (double)x * x));
}

/* Multiplies the shells of h->rest by gains[shells]. */
static void filter(const struct refiner *r, const struct held *h, const float *gains) {
    const int box = r->box;
    const float scale = (float)(1 / pow(box, 3));
    fft_run(h->plan, h->rest, h->spectrum);
#pragma omp parallel for num_threads(r->context.threads) schedule(static)
    for (int plane = 0; plane < box; plane++) {
        float *f = h->spectrum + (size_t)plane * (size_t)box * (size_t)(box / 2 + 1) * 2;
        for (int row = 0; row < box; row++)
            for (int x = 0; x <= box / 2; x++, f += 2) {
                int shell = shell_at(r, plane, row, x);
                float gain = shell < r->shells ? scale * gains[shell] : 0;
                f[0] *= gain, f[1] *= gain;
            }
    }
    fft_run(h->back, h->spectrum, h->rest);
}

static void add_plane(const struct refiner *r, const struct held *h, int plane) {
    int box = r->box;
    double *sums = h->planes + (size_t)plane * (size_t)r->shells;
    const float *f = h->spectrum + (size_t)plane * (size_t)box * (size_t)(box / 2 + 1) * 2;
    memset(sums, 0, (size_t)r->shells * sizeof *sums);
    for (int row = 0; row < box; row++)
        for (int x = 0; x <= box / 2; x++, f += 2) {
            int shell = shell_at(r, plane, row, x);
            /* The other half of the transform has the same values. */
            if (shell < r->shells) sums[shell] += (x > 0 ? 2 : 1) * ((double)f[0] * f[0] + (double)f[1] * f[1]);
        }
}

/* Returns Σ |P|²/σ² over the compared pixels of a projection of h->rest, the mean over all views. A projection with the
 * norm 1/box² is a slice of the map's transform over box². Planes are added in their order, so that the sum does not
 * depend on the number of threads. */
static double projected(const struct refiner *r, const struct held *h) {
    double sum = 0, norm = 1 / pow(r->box, 4);
    fft_run(h->plan, h->rest, h->spectrum);
#pragma omp parallel for num_threads(r->context.threads) schedule(static)
    for (int plane = 0; plane < r->box; plane++)
        add_plane(r, h, plane);
    for (int s = 1; s <= r->pixels.size / 2 && s < r->shells; s++) {
        double power = 0, noise = INFINITY, points = 4 * M_PI * (s * s + 1.0 / 12);
        for (int plane = 0; plane < r->box; plane++)
            power += norm * h->planes[(size_t)plane * (size_t)r->shells + (size_t)s] / points;
        for (int o = 0; o < r->sigma2_optics; o++)
            noise = fmin(noise, r->sides[0].sigma2[(size_t)o * (size_t)r->shells + (size_t)s] / r->mask_share);
        sum += (r->pixels.shell_begin[s + 1] - r->pixels.shell_begin[s]) * power / noise;
    }
    return sum;
}

static void subtract_mean(const struct held *h, const float *map, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < h->voxels; i++)
        h->rest[i] = map[i] - h->mean[i];
}

static void add_share(const struct held *h, const float *map, float share, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < h->voxels; i++)
        h->mean[i] += share * map[i];
}

static void move(const struct held *h, float part, int threads, float *map) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < h->voxels; i++)
        map[i] = h->mean[i] + part * h->rest[i];
}

/* Sets h->rest to what counts of the difference of a map from the mean. gains: NULL without weights. */
static void find_rest(const struct refiner *r, const struct held *h, const float *map, const float *gains) {
    subtract_mean(h, map, r->context.threads);
    if (gains == NULL) return;
    filter(r, h, gains);
#pragma omp parallel for num_threads(r->context.threads) schedule(static)
    for (size_t i = 0; i < h->voxels; i++)
        h->rest[i] *= h->weight[i];
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Finds the mean square of noise in h->rest, mean squares about places: from some of those inside the sphere. */
static enum status find_noise(const struct refiner *r, const struct held *h, double *ret_noise, struct err *err) {
    enum { ENOUGH = 1 << 16 };
    const size_t box = (size_t)r->box, every = h->voxels / ENOUGH / 2 * 2 + 1;
    const double radius = fmax(r->mask_radius - ABOUT / r->pixel_size, 1), half = r->box / 2;
    _cleanup_(mem_free) float *values = NULL;
    size_t count = 0;
    TRY(mem_new(h->voxels / every + 1, sizeof *values, "places", &values, err));
    for (size_t i = 0; i < h->voxels; i += every) {
        double x = (double)(i % box) - half, y = (double)(i / box % box) - half, z = (double)(i / box / box) - half;
        if (x * x + y * y + z * z < radius * radius) values[count++] = h->rest[i];
    }
    qsort(values, count, sizeof *values, by_value);
    *ret_noise = count > 0 ? OVER_QUARTER * (double)values[(size_t)(QUARTER * (double)count)] : 0;
    return STATUS_OK;
}

/* Finds where the maps differ by more than noise. */
static enum status weigh_places(const struct refiner *r, struct held *h, const float *gains, struct err *err) {
    const struct reference *classes = r->sides[0].references;
    _cleanup_(mem_free) float *about = NULL;
    double noise;
    TRY(mem_new((size_t)r->shells, sizeof *about, "spectra", &about, err));
    TRY(mem_new(h->voxels, sizeof *h->weight, "a map", &h->weight, err));
    for (int s = 0; s < r->shells; s++)
        about[s] = (float)exp(-2 * pow(M_PI * s * ABOUT / (r->box * r->pixel_size), 2));
    for (int k = 0; k < r->reference_count; k++) {
        const float share = (float)classes[k].share;
        subtract_mean(h, classes[k].map, r->context.threads);
        filter(r, h, gains);
        for (size_t i = 0; i < h->voxels; i++)
            h->weight[i] += share * h->rest[i] * h->rest[i];
    }
    memcpy(h->rest, h->weight, h->voxels * sizeof *h->rest);
    filter(r, h, about);
    TRY(find_noise(r, h, &noise, err));
    for (size_t i = 0; i < h->voxels; i++)
        h->weight[i] = (double)h->rest[i] > noise ? (float)(1 - noise / (double)h->rest[i]) : 0;
    return STATUS_OK;
}

enum status classes_hold(struct refiner *r, struct err *err) {
    enum { LEAST_LAST = 6 };
    struct reference *classes = r->sides[0].references;
    const int count = r->reference_count, threads = r->context.threads;
    const bool holds = held_in(r, r->schedule.iteration), places = by_place(r) && !is_last(r);
    double spread = 0;
    if (r->map_count >= count || (!holds && !places)) return STATUS_OK;
    _cleanup_(held_close) struct held h = {0};
    _cleanup_(mem_free) float *gains = NULL;
    TRY(held_open(r, &h, err));
    for (int k = 0; k < count; k++)
        add_share(&h, classes[k].map, (float)classes[k].share, threads);
    if (places) {
        TRY(mem_new((size_t)r->shells, sizeof *gains, "spectra", &gains, err));
        for (int s = 0; s < r->shells; s++)
            gains[s] = s <= fmax(LEAST_LAST, r->box * r->pixel_size / FINEST) ? 1 : 0;
        TRY(weigh_places(r, &h, gains, err));
    }
    for (int k = 0; k < count && holds; k++) {
        find_rest(r, &h, classes[k].map, gains);
        spread += classes[k].share * projected(r, &h);
    }
    /* Two of the classes differ by 2 K/(K − 1) times what one differs from the mean, on the average. */
    double deviation = sqrt(2 * spread * count / (count - 1)), part = deviation > SURE ? SURE / deviation : 1;
    for (int k = 0; k < count && (places || part < 1); k++) {
        find_rest(r, &h, classes[k].map, gains);
        move(&h, (float)part, threads, classes[k].map);
    }
    return STATUS_OK;
}
