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

#include "common/memory.h"
#include "kernels/differences/differences.h"
#include "stages/refiner/estep.h"

static const double SURE = 1;    /* standard deviation of the log-likelihood ratio of two held classes */
static const double FINEST = 25; /* Å: of a difference that counts by place */
static const double ABOUT = 12;  /* Å: standard deviation of the Gaussian that means about a place */
/* find_noise takes the QUARTER quantile of the mean squares, which lies where there is only noise; the mean over the
 * sphere of such noise is OVER_QUARTER times as much. */
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

static enum status open_differences(const struct refiner *r, struct differences **ret_differences, struct err *err) {
    struct differences_maps of = {.box = r->box, .count = r->reference_count, .threads = r->context.threads};
    bool fit;
    for (int k = 0; k < of.count; k++) {
        of.maps[k] = r->sides[0].references[k].map;
        of.shares[k] = (float)r->sides[0].references[k].share;
    }
    TRY(differences_fit(r->placement.workspace, of.box, of.count, &fit, err));
    return differences_create(fit ? r->placement.workspace : NULL, &of, ret_differences, err);
}

/* Computes Σ |P|²/σ² over the compared pixels of a projection of what counts of the difference of class k, the mean over
 * all views. A projection with the norm 1/box² is a slice of the map's transform over box². */
static enum status projected(const struct refiner *r, struct differences *d, int k, double *power, double *ret_sum,
                             struct err *err) {
    double sum = 0, norm = 1 / pow(r->box, 4);
    TRY(differences_power(d, k, power, err));
    for (int s = 1; s <= r->pixels.size / 2 && s < r->shells; s++) {
        double mean = norm * power[s] / (4 * M_PI * (s * s + 1.0 / 12)), noise = estep_least_noise(r, r->sides, s);
        sum += (r->pixels.shell_begin[s + 1] - r->pixels.shell_begin[s]) * mean / noise;
    }
    *ret_sum = sum;
    return STATUS_OK;
}

/* Finds by how much of their differences from the mean the maps may differ, so that no particle is sure of its class. */
static enum status find_part(const struct refiner *r, struct differences *d, double *ret_part, struct err *err) {
    const int count = r->reference_count;
    _cleanup_(mem_free) double *power = NULL;
    double spread = 0, one;
    TRY(mem_new((size_t)r->shells, sizeof *power, "spectra", &power, err));
    for (int k = 0; k < count; k++) {
        TRY(projected(r, d, k, power, &one, err));
        spread += r->sides[0].references[k].share * one;
    }
    /* Two of the classes differ by 2 K/(K − 1) times what one differs from the mean, on the average. */
    double deviation = sqrt(2 * spread * count / (count - 1));
    *ret_part = deviation > SURE ? SURE / deviation : 1;
    return STATUS_OK;
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Finds the mean square of noise among mean squares about places, from some of those inside the sphere. */
static enum status find_noise(const struct refiner *r, const float *squares, double *ret_noise, struct err *err) {
    enum { ENOUGH = 1 << 16 };
    const size_t box = (size_t)r->box, voxels = box * box * box, every = voxels / ENOUGH / 2 * 2 + 1;
    const double radius = fmax(r->mask_radius - ABOUT / r->pixel_size, 1), half = r->box / 2;
    _cleanup_(mem_free) float *values = NULL;
    size_t count = 0;
    TRY(mem_new(voxels / every + 1, sizeof *values, "places", &values, err));
    for (size_t i = 0; i < voxels; i += every) {
        double x = (double)(i % box) - half, y = (double)(i / box % box) - half, z = (double)(i / box / box) - half;
        if (x * x + y * y + z * z < radius * radius) values[count++] = squares[i];
    }
    qsort(values, count, sizeof *values, by_value);
    *ret_noise = count > 0 ? OVER_QUARTER * (double)values[(size_t)(QUARTER * (double)count)] : 0;
    return STATUS_OK;
}

/* Lets differences count up to FINEST, where they are more than noise. */
static enum status weigh_places(const struct refiner *r, struct differences *d, struct err *err) {
    enum { LEAST_LAST = 6 };
    const size_t shells = (size_t)r->shells;
    float *squares = r->combined; /* the map of both halves, which classes do not have */
    _cleanup_(mem_free) float *gains = NULL;
    _cleanup_(mem_free) float *about = NULL;
    double noise;
    TRY(mem_new(shells, sizeof *gains, "spectra", &gains, err));
    TRY(mem_new(shells, sizeof *about, "spectra", &about, err));
    for (int s = 0; s < r->shells; s++) {
        gains[s] = s <= fmax(LEAST_LAST, r->box * r->pixel_size / FINEST) ? 1 : 0;
        about[s] = (float)exp(-2 * pow(M_PI * s * ABOUT / (r->box * r->pixel_size), 2));
    }
    TRY(differences_filter(d, gains, about, squares, err));
    TRY(find_noise(r, squares, &noise, err));
    return differences_weigh(d, noise, err);
}

enum status classes_hold(struct refiner *r, struct err *err) {
    const bool holds = held_in(r, r->schedule.iteration), places = by_place(r) && !is_last(r);
    double part = 1;
    if (r->map_count >= r->reference_count || (!holds && !places)) return STATUS_OK;
    _cleanup_(differences_destroy) struct differences *d = NULL;
    TRY(open_differences(r, &d, err));
    if (places) TRY(weigh_places(r, d, err));
    if (holds) TRY(find_part(r, d, &part, err));
    return places || part < 1 ? differences_move(d, part, err) : STATUS_OK;
}
