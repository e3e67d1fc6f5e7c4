/* The rules of first maps: when they are made, from how many starts and particles, and when two of them are the
 * same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stages/refiner/initial/initial.h"
#include "stages/refiner/initial/starts.h"
#include "stages/refiner/refiner_private.h"

/* Starts on the CPU and on a device. Those of a point group with so many operators cost less, and with more of them
 * fewer become the right map. On the CPU there are as many in each round (initial.h). */
enum { STARTS_FEW = 4, STARTS_SYMMETRIC = 12, SYMMETRIC = 4, HIGH = 12 };
enum { DEVICE_FEW = 12, DEVICE_SYMMETRIC = 24, DEVICE_HIGH = 48 };
enum { FIRST_ATTEMPT = 1000, FIRST_OF_GROUP = 300, DIAMETER_LEAST = 16 };

const char *initial_test_name(enum initial_test test) {
    static const char *const names[] = {"", "particles", "agreement", "likelihood", "rivals"};
    return names[test];
}

bool initial_is_due(size_t particles, size_t tried, int operators) {
    size_t first = FIRST_ATTEMPT / (size_t)(operators > 0 ? operators : 1);
    if (first < FIRST_OF_GROUP) first = FIRST_OF_GROUP;
    return tried == 0 ? particles >= first : particles >= 2 * tried;
}

size_t initial_present(const struct refiner *r) {
    return r->set.present;
}

void initial_starts_options(const struct refiner *r, int threads, struct starts_options *ret_options) {
    const bool device = r->context.device.kind != DEVICE_CPU;
    const double share = r->reference_path == NULL ? 0.5 : 0.0625;
    const double memory = device ? share * compare_memory(&r->options) : host_memory(&r->options);
    *ret_options = (struct starts_options){.device = r->context.device,
                                           .device_count = r->context.device_count,
                                           .threads = threads,
                                           .memory = memory / 0x1p30,
                                           .diameter = r->options.diameter,
                                           .symmetry = &r->symmetry,
                                           .seed = r->options.seed};
    memcpy(ret_options->devices, r->context.devices, sizeof ret_options->devices);
}

int initial_first_shell(int operators) {
    static const double VALUES = 4;
    return (int)ceil(sqrt(VALUES * operators / (2 * M_PI)));
}

void initial_summarise(const struct initial_decision *d, int operators, const float *fsc, double *ret_mean,
                       double *ret_least) {
    const double extent = d->box * d->pixel_size;
    const int first = (int)ceil(extent / d->diameter), last = (int)(extent / d->wanted);
    const int telling = initial_first_shell(operators);
    *ret_mean = 0;
    *ret_least = 1;
    for (int shell = first; shell <= last; shell++) {
        *ret_mean += (double)fsc[shell] / (last - first + 1);
        if (shell >= telling) *ret_least = fmin(*ret_least, (double)fsc[shell]);
    }
}

double initial_finest(double diameter) {
    return fmin(fmax(diameter / 12, 9), 15);
}

bool initial_is_same(double mean, double least) {
    return mean >= INITIAL_AGREED && least >= INITIAL_LEAST_FSC;
}

static int device_starts(const struct refiner *r) {
    if (r->symmetry.count >= HIGH) return DEVICE_HIGH;
    return r->symmetry.count >= SYMMETRIC ? DEVICE_SYMMETRIC : DEVICE_FEW;
}

int initial_count_starts(const struct refiner *r) {
    if (r->context.device.kind != DEVICE_CPU) return device_starts(r);
    return r->symmetry.count >= SYMMETRIC ? STARTS_SYMMETRIC : STARTS_FEW;
}

int initial_most_starts(const struct refiner *r) {
    const int most = device_starts(r), rounds = INITIAL_ROUNDS * initial_count_starts(r);
    return rounds < most ? rounds : most;
}

int initial_limit_starts(const struct refiner *r, int count, int least, size_t bytes) {
    const double most = host_memory(&r->options) / 2;
    while (count > least && count * (double)bytes > most)
        count -= 2; /* one of each half */
    return count;
}

bool initial_is_too_little(struct initial_decision *d) {
    const int count = (int)d->particles;
    const int least = INITIAL_LEAST / 5;
    const double diameter = d->diameter / d->pixel_size;
    if (count < INITIAL_LEAST)
        snprintf(d->text, sizeof d->text, "%d particles are too few: at least %d are needed", count, INITIAL_LEAST);
    else if (d->parts[INITIAL_HALF_A] < least || d->parts[INITIAL_HALF_B] < least ||
             d->parts[INITIAL_HELD_OUT] < least / 2)
        snprintf(
            d->text, sizeof d->text,
            "%d particles come from too few micrographs to be divided into three parts: more micrographs are needed",
            count);
    else if (diameter < DIAMETER_LEAST)
        snprintf(d->text, sizeof d->text,
                 "the diameter is %.1f px of %.2f Å, at least %d px are needed: extract with smaller pixels", diameter,
                 d->pixel_size, DIAMETER_LEAST);
    return *d->text != 0;
}
