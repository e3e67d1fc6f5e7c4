#include "stages/refiner/initial/junk.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/refiner_private.h"

/* Junk shows on a coarse grid already, in an eighth of the time. */
enum { ROUNDS = 30, ORDER = 1 };
static const double LEAST_SHARE = 1e-3;

/* Finds the probabilities of the classes for one particle. */
static void divide(const double *const evidence[JUNK_COMPARED], int i, const double shares[JUNK_CLASSES],
                   double ret_probabilities[JUNK_CLASSES]) {
    double most = 0, sum = 0;
    for (int k = 0; k < JUNK_COMPARED; k++)
        most = fmax(most, evidence[k][i]);
    for (int k = 0; k < JUNK_CLASSES; k++) {
        ret_probabilities[k] = shares[k] * exp((k < JUNK_COMPARED ? evidence[k][i] : 0) - most);
        sum += ret_probabilities[k];
    }
    for (int k = 0; k < JUNK_CLASSES; k++)
        ret_probabilities[k] /= sum;
}

int junk_decide(const double *const evidence[JUNK_COMPARED], int count, bool *ret_junk,
                double ret_shares[JUNK_CLASSES]) {
    double shares[JUNK_CLASSES], probabilities[JUNK_CLASSES];
    int junk = 0;
    for (int k = 0; k < JUNK_CLASSES; k++)
        shares[k] = 1.0 / JUNK_CLASSES;
    for (int round = 0; round < ROUNDS && count > 0; round++) {
        double sums[JUNK_CLASSES] = {0};
        for (int i = 0; i < count; i++) {
            divide(evidence, i, shares, probabilities);
            for (int k = 0; k < JUNK_CLASSES; k++)
                sums[k] += probabilities[k] / count;
        }
        for (int k = 0; k < JUNK_CLASSES; k++)
            shares[k] = fmax(sums[k], LEAST_SHARE);
    }
    for (int i = 0; i < count; i++) {
        divide(evidence, i, shares, probabilities);
        ret_junk[i] = probabilities[JUNK_MAP] < 0.5;
        junk += ret_junk[i];
    }
    memcpy(ret_shares, shares, sizeof shares);
    return junk;
}

void junk_destroy(struct junk *j) {
    for (int k = 0; k < JUNK_COMPARED; k++)
        mem_free(&j->evidence[k]);
    mem_free(&j->round);
    *j = (struct junk){0};
}

static enum status open(struct junk *j, const struct initial *attempt, struct err *err) {
    const struct initial_decision *d = initial_decision(attempt);
    const size_t voxels = (size_t)d->box * (size_t)d->box * (size_t)d->box;
    const float *map = initial_map(attempt);
    for (int k = 0; k < JUNK_COMPARED; k++)
        if (j->evidence[k] == NULL)
            TRY(mem_new(d->particles + 1, sizeof *j->evidence[k], "likelihoods", &j->evidence[k], err));
    if (j->round == NULL) TRY(mem_new(voxels, sizeof *j->round, "a map", &j->round, err));
    memcpy(j->round, map, voxels * sizeof *map);
    TRY(map_align_without_radial(d->box, j->round, err));
    for (size_t i = 0; i < voxels; i++)
        j->round[i] = map[i] - j->round[i];
    return STATUS_OK;
}

enum status junk_work(struct junk *j, struct initial *attempt, bool *ret_complete, struct err *err) {
    const struct initial_decision *d = initial_decision(attempt);
    const int k = j->step / INITIAL_PARTS, part = j->step % INITIAL_PARTS;
    double *evidence;
    if (j->step == 0) TRY(open(j, attempt, err));
    evidence = j->evidence[k];
    for (int before = 0; before < part; before++)
        evidence += d->parts[before];
    TRY(initial_evidence(attempt, k == JUNK_MAP ? initial_map(attempt) : j->round, part, ORDER, evidence, err));
    *ret_complete = ++j->step == JUNK_COMPARED * INITIAL_PARTS;
    return STATUS_OK;
}

enum status junk_mark(const struct junk *j, struct initial *attempt, struct refiner *r, int *ret_marked,
                      struct err *err) {
    const struct initial_decision *d = initial_decision(attempt);
    const double *const evidence[JUNK_COMPARED] = {j->evidence[JUNK_MAP], j->evidence[JUNK_ROUND]};
    double shares[JUNK_CLASSES];
    _cleanup_(mem_free) bool *junk = NULL;
    TRY(mem_new(d->particles + 1, sizeof *junk, "particles", &junk, err));
    *ret_marked = junk_decide(evidence, (int)d->particles, junk, shares);
    for (int i = 0; i < (int)d->particles; i++)
        r->set.particles[initial_particle(attempt, i)].junk = junk[i];
    r->set.marked = true;
    return STATUS_OK;
}
