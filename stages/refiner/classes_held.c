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
 * Meanwhile all classes have the same prior: a class that is a little larger has less noise, which would make it grow.
 */
#include "stages/refiner/classes_held.h"

#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"

static const double SURE = 1; /* standard deviation of the log-likelihood ratio of two held classes */

int classes_held_iterations(int iterations) {
    enum { MOST = 12 };
    const double SHARE = 0.5;
    int some = (int)(SHARE * iterations);
    return some < MOST ? some : MOST;
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
    struct fft_plan *plan;
    float *mean, *rest, *spectrum; /* [voxels]; half transform, complex */
    double *planes;                /* [box][shells]: Σ |F|² of a plane of the transform */
};

static void held_close(struct held *h) {
    fft_destroy(&h->plan);
    mem_free(&h->mean);
    mem_free(&h->rest);
    mem_free(&h->spectrum);
    mem_free(&h->planes);
}

static enum status held_open(const struct refiner *r, struct held *h, struct err *err) {
    const struct fft_options options = {
        .rank = 3, .shape = {r->box, r->box, r->box}, .direction = FFT_FORWARD, .threads = r->context.threads};
    size_t box = (size_t)r->box;
    *h = (struct held){.voxels = box * box * box};
    TRY(mem_new(h->voxels, sizeof *h->mean, "a map", &h->mean, err));
    TRY(mem_new_unset(h->voxels, sizeof *h->rest, "a map", &h->rest, err));
    TRY(mem_new_unset(box * box * (box / 2 + 1), 2 * sizeof *h->spectrum, "a transform", &h->spectrum, err));
    TRY(mem_new(box * (size_t)r->shells, sizeof *h->planes, "spectra", &h->planes, err));
    return fft_create(&options, &h->plan, err);
}

static void add_plane(const struct refiner *r, const struct held *h, int plane) {
    int box = r->box, z = plane <= box / 2 ? plane : plane - box;
    double *sums = h->planes + (size_t)plane * (size_t)r->shells;
    const float *f = h->spectrum + (size_t)plane * (size_t)box * (size_t)(box / 2 + 1) * 2;
    memset(sums, 0, (size_t)r->shells * sizeof *sums);
    for (int row = 0; row < box; row++) {
        int y = row <= box / 2 ? row : row - box;
        for (int x = 0; x <= box / 2; x++, f += 2) {
            int shell = (int)lround(sqrt((double)z * z + (double)y * y + (double)x * x));
            /* The other half of the transform has the same values. */
            if (shell < r->shells) sums[shell] += (x > 0 ? 2 : 1) * ((double)f[0] * f[0] + (double)f[1] * f[1]);
        }
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
        map[i] = h->mean[i] + part * (map[i] - h->mean[i]);
}

enum status classes_hold(struct refiner *r, struct err *err) {
    struct reference *classes = r->sides[0].references;
    const int count = r->reference_count, threads = r->context.threads;
    double spread = 0;
    if (!held_in(r, r->schedule.iteration)) return STATUS_OK;
    _cleanup_(held_close) struct held h = {0};
    TRY(held_open(r, &h, err));
    for (int k = 0; k < count; k++)
        add_share(&h, classes[k].map, (float)classes[k].share, threads);
    for (int k = 0; k < count; k++) {
        subtract_mean(&h, classes[k].map, threads);
        spread += classes[k].share * projected(r, &h);
    }
    /* Two of the classes differ by 2 K/(K − 1) times what one differs from the mean, on the average. */
    double deviation = sqrt(2 * spread * count / (count - 1));
    for (int k = 0; k < count && deviation > SURE; k++)
        move(&h, (float)(SURE / deviation), threads, classes[k].map);
    return STATUS_OK;
}
