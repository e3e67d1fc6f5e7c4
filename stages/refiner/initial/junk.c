#include "stages/refiner/initial/junk.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/initial/initial.h"
#include "stages/refiner/initial/starts.h"
#include "stages/refiner/initial/write.h"
#include "stages/refiner/refiner_private.h"

/* Junk shows on a coarse grid already, in an eighth of the time. Few particles are joined by some that were compared
 * before: noise and shares need some hundreds. */
enum { ROUNDS = 30, ORDER = 1, AT_A_TIME = 512, LEAST = 256, WORTH = 10 };
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
    starts_destroy(&j->starts);
    initial_images_destroy(&j->images);
    for (int k = 0; k < JUNK_COMPARED; k++) {
        mem_free(&j->evidence[k]);
        mem_free(&j->maps[k]);
    }
    mem_free(&j->one);
    *j = (struct junk){0};
}

size_t junk_count(const struct refiner *r, size_t *ret_compared) {
    size_t junk = 0;
    *ret_compared = 0;
    for (size_t i = 0; i < r->set.count; i++) {
        const struct particle *p = &r->set.particles[i];
        if (!particle_counts(p) || !p->compared) continue;
        (*ret_compared)++;
        junk += p->junk;
    }
    return junk;
}

bool junk_is_left(const struct refiner *r, bool some) {
    size_t compared;
    (void)junk_count(r, &compared);
    const size_t left = particle_set_counted(&r->set) - compared;
    return some ? left >= AT_A_TIME && left >= compared / WORTH : left > 0;
}

/* Chooses particles, those first that were never compared. */
static enum status choose(const struct refiner *r, struct initial_images *images, struct err *err) {
    int count = 0;
    TRY(mem_new(AT_A_TIME, sizeof *images->which, "particles", &images->which, err));
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < r->set.count && count < (again == 0 ? AT_A_TIME : LEAST); i++)
            if (particle_counts(&r->set.particles[i]) && r->set.particles[i].compared == (again != 0))
                images->which[count++] = (int)i;
    images->count = count;
    return STATUS_OK;
}

/* All images are one part. */
static enum status join_parts(struct initial_images *images, struct err *err) {
    TRY(mem_new((size_t)images->count, sizeof *images->members, "particles", &images->members, err));
    for (int i = 0; i < images->count; i++)
        images->members[i] = i;
    for (int part = 0; part < INITIAL_PARTS; part++)
        images->begin[part + 1] = images->count;
    return STATUS_OK;
}

/* Reads a first map onto the small grid, and makes its rotational average. */
static enum status read_maps(struct junk *j, const char *path, struct err *err) {
    const int box = j->images.box;
    const size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    TRY(initial_read_map(path, box, j->images.pixel_size, j->maps[JUNK_MAP], err));
    memcpy(j->maps[JUNK_ROUND], j->maps[JUNK_MAP], voxels * sizeof *j->maps[JUNK_MAP]);
    TRY(map_align_without_radial(box, j->maps[JUNK_ROUND], err));
    for (size_t i = 0; i < voxels; i++)
        j->maps[JUNK_ROUND][i] = j->maps[JUNK_MAP][i] - j->maps[JUNK_ROUND][i];
    return STATUS_OK;
}

static enum status make_room(struct junk *j, struct err *err) {
    const size_t box = (size_t)j->images.box, count = (size_t)j->images.count;
    for (int k = 0; k < JUNK_COMPARED; k++) {
        TRY(mem_new(box * box * box, sizeof *j->maps[k], "a map", &j->maps[k], err));
        TRY(mem_new(count, sizeof *j->evidence[k], "likelihoods", &j->evidence[k], err));
    }
    return mem_new(count, sizeof *j->one, "likelihoods", &j->one, err);
}

static enum status begin(struct junk *j, struct refiner *r, int threads, struct err *err) {
    struct starts_options options;
    initial_starts_options(r, threads, &options);
    const double fine = initial_finest(r->options.diameter);
    TRY(refiner_look(r, err));
    TRY(choose(r, &j->images, err));
    TRY(initial_images_read(r, fine, &j->images, err));
    TRY(join_parts(&j->images, err));
    TRY(make_room(j, err));
    j->fine = fmax(fine, starts_finest(&j->images));
    return starts_create(&j->images, &options, 1, &j->starts, err);
}

static enum status mark(const struct junk *j, struct refiner *r, struct err *err) {
    const double *const evidence[JUNK_COMPARED] = {j->evidence[JUNK_MAP], j->evidence[JUNK_ROUND]};
    const int count = j->images.count;
    double shares[JUNK_CLASSES];
    _cleanup_(mem_free) bool *junk = NULL;
    TRY(mem_new((size_t)count, sizeof *junk, "particles", &junk, err));
    (void)junk_decide(evidence, count, junk, shares);
    for (int i = 0; i < count; i++) {
        struct particle *p = &r->set.particles[j->images.which[i]];
        p->junk = junk[i];
        p->compared = true;
    }
    r->set.marked = true;
    return STATUS_OK;
}

/* Adds what is found with one of `maps` maps, which are as probable as each other. */
static void add_evidence(struct junk *j, int kind, int maps, bool first) {
    double *all = j->evidence[kind];
    for (int i = 0; i < j->images.count; i++) {
        const double one = j->one[i] - log(maps), most = first ? one : fmax(all[i], one);
        all[i] = first ? one : most + log(exp(all[i] - most) + exp(one - most));
    }
}

static enum status work(struct junk *j, struct refiner *r, int threads, struct err *err) {
    if (j->starts == NULL) return begin(j, r, threads, err);
    const int kind = j->next % JUNK_COMPARED, map = j->next / JUNK_COMPARED;
    if (kind == JUNK_MAP) TRY(read_maps(j, r->map_paths[map], err));
    const struct starts_judgement judgement = {j->maps[kind], INITIAL_HALF_A, j->one};
    TRY(starts_judge(j->starts, &judgement, 1, ORDER, j->fine, err));
    add_evidence(j, kind, r->map_count, map == 0);
    return ++j->next == JUNK_COMPARED * r->map_count ? mark(j, r, err) : STATUS_OK;
}

enum status junk_work(struct junk *j, struct refiner *r, int threads, struct err *err) {
    const enum status status = work(j, r, threads, err);
    if (status != STATUS_OK || j->next == JUNK_COMPARED * r->map_count) junk_destroy(j);
    return status;
}
