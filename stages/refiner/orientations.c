#include "stages/refiner/orientations.h"

#include <math.h>
#include <stdio.h>

#include "common/directions.h"
#include "common/memory.h"
#include "stages/refiner/refiner_private.h"

enum { NSIDE = 16, PIXELS = 12 * NSIDE * NSIDE };
static const double LEAST_GAIN = 0.05; /* of the efficiency: a tilt that gives less is not advised */

/* Counts the views of all particles. A pose's last row is the direction of view, in the frame of the map. */
static size_t count_views(const struct refiner *r, double *counts) {
    size_t views = 0;
    for (size_t i = 0; i < r->set.count; i++) {
        const struct particle *p = &r->set.particles[i];
        if (!particle_counts(p) || !p->aligned) continue;
        const double *view = p->pose + 6;
        for (int s = 0; s < r->symmetry.count; s++) {
            const double *m = r->symmetry.matrices[s];
            double x = m[0] * view[0] + m[1] * view[1] + m[2] * view[2];
            double y = m[3] * view[0] + m[4] * view[1] + m[5] * view[2];
            double z = m[6] * view[0] + m[7] * view[1] + m[8] * view[2];
            counts[directions_pixel(NSIDE, fmin(fmax(z, -1), 1), atan2(y, x))]++;
        }
        views++;
    }
    return views;
}

static enum status measure(const struct refiner *r, bool advise, struct orientations *ret_orientations,
                           struct err *err) {
    struct orientations o = {.efficiency = NAN, .tilt = NAN, .tilted_efficiency = NAN};
    _cleanup_(mem_free) double *counts = NULL;
    TRY(mem_new(PIXELS, sizeof *counts, "directions of view", &counts, err));
    if (count_views(r, counts) > 0) o.efficiency = directions_efficiency(NSIDE, counts);
    if (advise && o.efficiency < DIRECTIONS_GOOD) o.tilt = directions_best_tilt(NSIDE, counts, &o.tilted_efficiency);
    if (!(o.tilted_efficiency >= o.efficiency + LEAST_GAIN)) o.tilt = o.tilted_efficiency = NAN;
    o.advised = o.efficiency >= DIRECTIONS_GOOD || (advise && !isnan(o.efficiency));
    *ret_orientations = o;
    return STATUS_OK;
}

enum status orientations_measure(const struct refiner *r, struct orientations *ret_orientations, struct err *err) {
    return measure(r, false, ret_orientations, err);
}

enum status orientations_advise(const struct refiner *r, struct orientations *ret_orientations, struct err *err) {
    return measure(r, true, ret_orientations, err);
}

void orientations_describe(const struct orientations *o, char *text, size_t size) {
    const char *meaning = o->efficiency >= DIRECTIONS_GOOD ? "the views cover all directions well"
                          : o->efficiency >= DIRECTIONS_POOR
                              ? "the map is weaker in some directions: more particles help"
                              : "some directions are hardly seen: more particles of these "
                                "views do not help";
    int used = snprintf(text, size, "%.2f of 1: %s", o->efficiency, meaning);
    if (used < 0 || (size_t)used >= size || isnan(o->tilt)) return;
    snprintf(text + used, size - (size_t)used, "%s the stage by %.0f° for further exposures (%.2f by them alone)",
             o->efficiency < DIRECTIONS_POOR ? "; tilt" : ", or tilt", o->tilt, o->tilted_efficiency);
}

void orientations_note(const struct orientations *o, char *text, size_t size) {
    const bool poor = o->efficiency < DIRECTIONS_POOR;
    char tilt[64] = "";
    if (!isnan(o->tilt)) snprintf(tilt, sizeof tilt, "tilt by %.0f° (%.2f)", o->tilt, o->tilted_efficiency);
    if (!o->advised || o->efficiency >= DIRECTIONS_GOOD)
        snprintf(text, size, "directions %.2f", o->efficiency);
    else if (*tilt == 0)
        snprintf(text, size, "directions %.2f: %s", o->efficiency,
                 poor ? "more of these views do not help" : "more particles help");
    else
        snprintf(text, size, "directions %.2f: %s%s", o->efficiency, poor ? "" : "more particles help, or ", tilt);
}
