/* Dose weights as few terms: a reduced basis, grown frequency by frequency. */
#include "kernels/motion/motion_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* Frequencies at which the basis is grown. Between them the weights are smooth. */
enum { SAMPLES = 256 };
static const double TOLERANCE = 1e-5;
/* Half of the frames with less than this of a frequency's power have nothing to say there: their sum is 0. */
static const double LEAST_POWER = 1e-12;

double motion_critical_exposure(double k) {
    return k > 0 ? 0.245 * pow(k, -1.665) + 2.81 : INFINITY;
}

enum status motion_voltage_factor(double voltage, double *ret_factor, struct err *err) {
    static const double kv[] = {300, 200, 100}, factor[] = {1, 0.8, 0.64};
    for (int i = 0; i < 3; i++)
        if (fabs(voltage - kv[i]) <= 2) {
            *ret_factor = factor[i];
            return STATUS_OK;
        }
    FAIL(err, STATUS_BAD_ARGUMENT,
         "dose weights at %g kV: they are known for 300, 200 and 100 kV; sum without doses (dose_per_frame 0), or "
         "correct the voltage",
         voltage);
}

/* Fills the weights of all frames at a frequency, so that their mean square is 1. Doses are taken relative to the
 * least, so that a large exposure before the movie does not make all of them 0. */
static void weights_at(int frames, const double *dose, double factor, double k, double *ret) {
    double scale = 1 / (2 * factor * motion_critical_exposure(k)), power = 0, least = dose[0];
    for (int j = 1; j < frames; j++)
        least = fmin(least, dose[j]);
    for (int j = 0; j < frames; j++) {
        ret[j] = exp(-(dose[j] - least) * scale);
        power += ret[j] * ret[j];
    }
    for (int j = 0; j < frames; j++)
        ret[j] /= sqrt(power / frames);
}

static double dot(int count, const double *a, const double *b) {
    double sum = 0;
    for (int j = 0; j < count; j++)
        sum += a[j] * b[j];
    return sum;
}

/* Takes the part along `unit` (mean square 1) out of `row`. */
static void take_out(int frames, const double *unit, double *row) {
    double part = dot(frames, row, unit) / frames;
    for (int j = 0; j < frames; j++)
        row[j] -= part * unit[j];
}

static double largest(int frames, const double *row) {
    double most = 0;
    for (int j = 0; j < frames; j++)
        most = fmax(most, fabs(row[j]));
    return most;
}

/* Grows the basis: the next member is what the members so far leave of the weights that they fit worst. rows:
 * [SAMPLES][frames] weights, which become what is left of them. basis: [MOTION_TERMS][frames]. Returns the members. */
static int grow(int frames, double *rows, double *basis) {
    size_t n = (size_t)frames;
    int terms = 1;
    for (int j = 0; j < frames; j++)
        basis[j] = 1;
    for (;; terms++) {
        const double *newest = basis + (size_t)(terms - 1) * n;
        int worst = 0;
        double most = 0;
        for (int s = 0; s < SAMPLES; s++) {
            double *row = rows + (size_t)s * n;
            take_out(frames, newest, row);
            double left = largest(frames, row);
            if (left > most) {
                most = left;
                worst = s;
            }
        }
        if (most < TOLERANCE || terms == MOTION_TERMS || terms == frames) return terms;
        double *next = basis + (size_t)terms * n;
        memcpy(next, rows + (size_t)worst * n, n * sizeof *next);
        for (int t = 0; t < terms; t++) /* again: rounding would leave a part of the earlier members */
            take_out(frames, basis + (size_t)t * n, next);
        double size = sqrt(dot(frames, next, next) / frames);
        for (int j = 0; j < frames; j++)
            next[j] /= size;
    }
}

/* Fills the tables over frequency with the weights' parts along each member. row: [frames], scratch. */
static void fill_tables(struct motion_weights *w, const double *dose, double factor, const double *basis, double *row) {
    for (int s = 0; s <= MOTION_STEPS; s++) {
        double power[2] = {0, 0};
        weights_at(w->frames, dose, factor, s * w->step, row);
        for (int j = 0; j < w->frames; j++)
            power[j % 2] += row[j] * row[j];
        for (int t = 0; t < w->terms; t++)
            w->of_frequency[s][t] =
                (float)(dot(w->frames, row, basis + (size_t)t * (size_t)w->frames) / (w->frames * sqrt(w->frames)));
        for (int half = 0; half < 2; half++)
            w->of_half[half][s] = power[half] > LEAST_POWER ? (float)sqrt((power[0] + power[1]) / power[half]) : 0;
    }
    for (int j = 0; j < w->frames; j++)
        for (int t = 0; t < w->terms; t++)
            w->of_frame[j][t] = (float)basis[(size_t)t * (size_t)w->frames + (size_t)j];
}

static enum status fill(struct motion_weights *w, const double *dose, double voltage, struct err *err) {
    double factor = 1;
    size_t n = (size_t)w->frames;
    _cleanup_(mem_free) double *rows = NULL;
    _cleanup_(mem_free) double *basis = NULL;
    TRY(motion_voltage_factor(voltage, &factor, err));
    TRY(mem_new(n, (SAMPLES + 1) * sizeof *rows, "dose weights", &rows, err));
    TRY(mem_new(n, MOTION_TERMS * sizeof *basis, "dose weights", &basis, err));
    for (int s = 0; s < SAMPLES; s++)
        weights_at(w->frames, dose, factor, s * w->step * MOTION_STEPS / (SAMPLES - 1), rows + (size_t)s * n);
    w->terms = grow(w->frames, rows, basis);
    fill_tables(w, dose, factor, basis, rows + SAMPLES * n);
    return STATUS_OK;
}

static void fill_without_doses(struct motion_weights *w) {
    w->terms = 1;
    for (int j = 0; j < w->frames; j++)
        w->of_frame[j][0] = 1;
    for (int s = 0; s <= MOTION_STEPS; s++)
        w->of_frequency[s][0] = w->of_half[0][s] = w->of_half[1][s] = 1;
}

enum status motion_weights_create(int frames, const double *dose, double pixel_size, double voltage,
                                  struct motion_weights **ret_weights, struct err *err) {
    for (int j = 0; dose != NULL && j < frames; j++)
        FAIL_IF(!isfinite(dose[j]) || dose[j] < 0, err, STATUS_BAD_ARGUMENT,
                "an exposure of %g e⁻/Å² after frame %d: a finite number from 0 is expected", dose[j], j + 1);
    _cleanup_(motion_weights_destroy) struct motion_weights *w = NULL;
    TRY(mem_new(1, sizeof *w, "dose weights", &w, err));
    w->frames = frames;
    w->step = sqrt(0.5) / (dose != NULL ? pixel_size : 1) / MOTION_STEPS;
    TRY(mem_new((size_t)frames, sizeof *w->of_frame, "dose weights", &w->of_frame, err));
    TRY(mem_new(MOTION_STEPS + 1, sizeof *w->of_frequency, "dose weights", &w->of_frequency, err));
    for (int half = 0; half < 2; half++)
        TRY(mem_new(MOTION_STEPS + 1, sizeof *w->of_half[half], "dose weights", &w->of_half[half], err));
    if (dose != NULL)
        TRY(fill(w, dose, voltage, err));
    else
        fill_without_doses(w);
    *ret_weights = w;
    w = NULL;
    return STATUS_OK;
}

void motion_weights_destroy(struct motion_weights **weights) {
    if (weights == NULL || *weights == NULL) return;
    struct motion_weights *w = *weights;
    free(w->of_frame);
    free(w->of_frequency);
    free(w->of_half[0]);
    free(w->of_half[1]);
    mem_free(weights);
}
