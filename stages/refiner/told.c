/* Halves that agree may still be wrong: they may lack the same signal, and they may have been given the same signal.
 *
 * - Particles that are seen from few directions leave parts of Fourier space empty, in both halves. The FSC of the
 *   halves does not see this; that with the truth falls (kernels/fsc/coverage.h). The FSC is told as if it came from
 *   evenly seen particles whose map is as like the truth.
 * - Shared shells agree because the poses of both halves were found with one reference. As long as nothing beyond
 *   them agrees, nothing says how much of this the particles themselves hold: a shared shell is then told only where
 *   the halves agree to 0.4. Halves of 20 to 100 particles that did so agreed with the truth to about 0.5; an FSC of
 *   0.143 went with 0.3. Many particles of pure noise agree to more than that, so this is no proof that anything is
 *   there.
 * - Particles of one side may be given views that they do not have, alike in both halves: images of one view are put
 *   where the map is empty, make a map there that looks like them, and so stay. Neither the FSC nor the views that were
 *   found show it: they fill all of Fourier space. What shows is that the views are uneven. Poses are believed all the
 *   same where the halves agree to detail that no shared reference had. Until then a shell of a map with uneven views
 *   counts as if all particles were seen from within 16 degrees of one axis, which fill sin 16° = 0.27 of its voxels: the
 *   halves must agree to 0.86.
 * - An FSC near 0.143 is there by chance in some shells, and by chance not in others. A shell is told where the FSC, less
 *   its standard error, is 0.143 (mstep_sure_shell); what the next iteration compares does not follow from this.
 * - Poses that are uncertain may follow the reference, alike in both halves. What a refinement from another start does
 *   not hold is not told then (other_start.c).
 *
 * Halves that agree no further than they share agree on what they were given: no resolution is told of them, unless
 * another start, which was given less, comes to the same. */
#include "stages/refiner/told.h"

#include <math.h>

#include "common/memory.h"
#include "common/worker.h"
#include "kernels/fsc/coverage.h"
#include "stages/refiner/orientations.h"
#include "stages/refiner/other_start.h"
#include "stages/refiner/signal.h"

static const double LEAST_FSC = 0.143, LEAST_SHARED_FSC = 0.4;
static const double ONE_SIDE_HELD = 0.52; /* √0.27 */
/* Halves that agree to so many times the frequency that they share show that their poses are right: not up to the
 * first, and from the second on. Sets from one side agreed wrongly to 3.7 times. */
static const double UNPROVEN = 4, PROVEN = 5;

/* Even views have an efficiency of 0.98 or so; N of them, chosen by chance, have less. Of 20 draws each, the least was
 * 0.74 for 20 views, 0.92 for 100, 0.94 for 200. */
static double least_even(size_t particles) {
    return 0.9 - 0.7 / sqrt((double)particles);
}

double told_views_doubt(double efficiency, size_t particles, double shared, double agree) {
    const double ramp = 0.03;
    if (particles == 0 || !(efficiency < least_even(particles))) return 0;
    double uneven = fmin((least_even(particles) - efficiency) / ramp, 1);
    double unproven = fmin(fmax((PROVEN - agree / shared) / (PROVEN - UNPROVEN), 0), 1);
    return uneven * unproven;
}

struct views_measure {
    const struct refiner *refiner;
    struct worker *worker;
    struct orientations found;
    bool begun;
};

static enum status measure_views(void *context, struct err *err) {
    struct views_measure *m = context;
    return orientations_measure(m->refiner, &m->found, err);
}

/* Returns what the halves share, Å. */
static double shared_resolution(const struct refiner *r) {
    return fmin(r->options.join_resolution, r->options.initial_lowpass);
}

enum status told_begin(struct refiner *r, struct err *err) {
    if (!(r->resolution > 0) || shared_resolution(r) / r->resolution >= PROVEN) return STATUS_OK;
    if (r->views == NULL) TRY(mem_new(1, sizeof *r->views, "views", &r->views, err));
    r->views->refiner = r;
    if (r->views->worker == NULL && worker_create(&r->views->worker, NULL) != STATUS_OK)
        return STATUS_OK; /* then after it */
    worker_start(r->views->worker, measure_views, r->views);
    r->views->begun = true;
    return STATUS_OK;
}

/* Takes what was measured beside the M-step. */
static enum status take_views(struct refiner *r, bool *ret_found, struct orientations *ret_views, struct err *err) {
    struct views_measure *m = r->views;
    *ret_found = m != NULL && m->begun;
    if (!*ret_found) return STATUS_OK;
    m->begun = false;
    TRY(worker_wait(m->worker, err));
    *ret_views = m->found;
    return STATUS_OK;
}

void told_stop(struct refiner *r) {
    if (r->views == NULL) return;
    worker_destroy(&r->views->worker);
    mem_free(&r->views);
}

static int last_above(const float *fsc, const double *held, double least, int reached) {
    int shell = 0;
    while (shell < reached && fsc_even((double)fsc[shell + 1], held[shell + 1]) >= least - 1e-6)
        shell++;
    return shell;
}

int told_shell(const float *fsc, const double *held, int shared, int reached) {
    const double least = reached > shared ? LEAST_FSC : LEAST_SHARED_FSC;
    return last_above(fsc, held, least, reached);
}

enum refiner_unresolved told_unresolved(int shell, bool agree_beyond, int other, int least) {
    if (shell == 0) return UNRESOLVED_NOWHERE;
    if (other > 0) return other < least ? UNRESOLVED_START : REFINER_RESOLVED;
    return agree_beyond ? REFINER_RESOLVED : UNRESOLVED_SHARED;
}

enum refiner_unresolved told_why(const struct refiner *r) {
    return signal_is_noise(&r->signal) ? UNRESOLVED_NOISE : r->unresolved;
}

/* Finds how far the views are doubted, and lets shells hold no more than that leaves. */
static enum status doubt_views(struct refiner *r, size_t count, struct err *err) {
    struct orientations views;
    const double shared = shared_resolution(r);
    bool found;
    r->views_doubt = 0;
    TRY(take_views(r, &found, &views, err));
    /* To measure the views of a million particles takes seconds. */
    if (shared / r->resolution >= PROVEN) return STATUS_OK;
    if (!found) TRY(orientations_measure(r, &views, err));
    r->views_doubt = told_views_doubt(views.efficiency, count, 1 / shared, 1 / r->resolution);
    const double most = 1 - r->views_doubt * (1 - ONE_SIDE_HELD);
    for (int s = 0; s < r->shells; s++)
        r->held[s] = fmin(r->held[s], most);
    return STATUS_OK;
}

enum status told_find(struct refiner *r, int shared, struct err *err) {
    int reached = (int)lround(r->box * r->pixel_size / r->resolution);
    size_t count = (size_t)r->sides[0].member_count + (size_t)r->sides[1].member_count, at = 0;
    _cleanup_(mem_free) double(*views)[3] = NULL;
    if (r->held == NULL) TRY(mem_new((size_t)r->shells, sizeof *r->held, "spectra", &r->held, err));
    TRY(mem_new(count + 1, sizeof *views, "views", &views, err));
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < r->sides[h].member_count; i++, at++)
            for (int axis = 0; axis < 3; axis++)
                views[at][axis] = r->set.particles[r->sides[h].members[i]].pose[6 + axis];
    TRY(fsc_coverage((const double(*)[3])views, count, &r->symmetry, r->fsc, r->shells - 1, r->held, err));
    const int believed = told_shell(r->fsc, r->held, shared, reached);
    TRY(doubt_views(r, count, err));
    const int doubted = last_above(r->fsc, r->held, LEAST_FSC, reached);
    int shell = doubted < believed ? doubted : believed;
    if (r->sure_shell > 0 && shell > r->sure_shell) shell = r->sure_shell;
    if (r->schedule.final && r->other.halves[0] != NULL) TRY(other_start_compare(r, err));
    if (r->other.shell > 0 && shell > r->other.shell) shell = r->other.shell;
    r->agree_beyond = reached > shared && !(r->sure_shell > 0 && r->sure_shell <= shared);
    r->told = shell > 0 ? r->box * r->pixel_size / shell : 999;
    r->unresolved = told_unresolved(shell, r->agree_beyond, r->other.shell, other_start_least(r));
    return STATUS_OK;
}
