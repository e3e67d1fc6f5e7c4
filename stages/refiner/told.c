/* Halves that agree may still be wrong: they may lack the same signal, and they may have been given the same signal.
 *
 * - Particles that are seen from few directions leave parts of Fourier space empty, in both halves. The FSC of the
 *   halves does not see this; that with the truth falls (kernels/fsc/coverage.h). The FSC is told as if it came from
 *   evenly seen particles whose map is as like the truth.
 * - Shared shells agree because the poses of both halves were found with one reference. As long as nothing beyond
 *   them agrees, nothing says how much of this the particles themselves hold: a shared shell is then told only where
 *   the halves agree to 0.4. Halves of 20 to 100 particles that did so agreed with the truth to about 0.5; an FSC of
 *   0.143 went with 0.3. Many particles of pure noise agree to more than that, so this is no proof that anything is
 *   there. */
#include "stages/refiner/told.h"

#include <math.h>

#include "common/memory.h"
#include "kernels/fsc/coverage.h"

static const double LEAST_FSC = 0.143, LEAST_SHARED_FSC = 0.4;

int told_shell(const float *fsc, const double *held, int shared, int reached) {
    const double least = reached > shared ? LEAST_FSC : LEAST_SHARED_FSC;
    int shell = 0;
    while (shell < reached && fsc_even((double)fsc[shell + 1], held[shell + 1]) >= least - 1e-6)
        shell++;
    return shell;
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
    int shell = told_shell(r->fsc, r->held, shared, reached);
    r->agree_beyond = reached > shared;
    r->told = shell > 0 ? r->box * r->pixel_size / shell : 999;
    return STATUS_OK;
}
