/* Says in words what an attempt at a first map has found. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stages/refiner/initial/initial.h"

static void append_contest(struct initial_decision *d, double sure) {
    const size_t length = strlen(d->text);
    if (isfinite(d->contest))
        snprintf(d->text + length, sizeof d->text - length,
                 "; with detail of %.1f Å, inside %.0f Å, %s one is worse by %.1f standard errors, %.0f are wanted",
                 d->contest_limit, d->contest_diameter, d->contest < 0 ? "the first" : "the other", fabs(d->contest),
                 sure);
}

void initial_describe(struct initial_decision *d, double sure) {
    char *text = d->text;
    const size_t size = sizeof d->text;
    switch (d->failed) {
    case INITIAL_ACCEPTED:
        snprintf(text, size,
                 "maps of independent halves of %zu particles agree: mean FSC %.2f up to %.1f Å; the hand is not known",
                 d->particles, d->mean, d->wanted);
        append_contest(d, sure);
        break;
    case INITIAL_AGREEMENT:
        snprintf(text, size,
                 "the best maps of independent halves of %zu particles do not agree up to %.1f Å: their FSC is %.2f on "
                 "average (%.2f is wanted) and %.2f at least (%.3f is wanted)",
                 d->particles, d->wanted, d->mean, INITIAL_AGREED, d->least, INITIAL_LEAST_FSC);
        break;
    case INITIAL_LIKELIHOOD:
        snprintf(text, size,
                 "particles that were held out fit the map no better than its opposite: %.2f ± %.2f and "
                 "%.2f ± %.2f",
                 d->gains[0], d->gain_deviations[0], d->gains[1], d->gain_deviations[1]);
        break;
    case INITIAL_RIVALS:
        snprintf(text, size,
                 "two different maps explain the particles alike: the other one is worse by %.1f standard errors",
                 d->rival);
        append_contest(d, sure);
        break;
    case INITIAL_FEW:
        break; /* said already */
    }
}
