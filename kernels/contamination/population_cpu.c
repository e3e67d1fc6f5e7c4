/* Tells particles from other strong objects (kernels/contamination/contamination.h). */
#include <math.h>
#include <string.h>

#include "kernels/contamination/contamination_private.h"
#include "kernels/quantile/quantile.h"

/* Objects of up to ALIKE_AREA diameters² are a population if there are at least ALIKE_COUNT, and half of them lie
 * within ALIKE_SPREAD of their median strength and ALIKE_SIZES of the median area. An object that is ALIKE_OUTLIER
 * times as strong does not belong to it. */
enum { ALIKE_COUNT = 4 };
static const double ALIKE_AREA = 2, ALIKE_SPREAD = 0.3, ALIKE_SIZES = 0.35, ALIKE_OUTLIER = 1.7;
/* Crystals too may be alike. A population stronger than options.particles is of particles only if defocus gave it bright
 * halos: at least the part HALO_SHARE of such objects and their rims is brighter than ice by HALO of their contrast. */
static const double HALO = 0.1, HALO_SHARE = 0.2;

void contamination_measure(struct contamination *c, int count) {
    memset(c->area, 0, ((size_t)count + 1) * sizeof *c->area);
    memset(c->peak, 0, ((size_t)count + 1) * sizeof *c->peak);
    for (size_t i = 0; i < pixels_of(c); i++) {
        int label = c->labels[i];
        c->area[label]++;
        if (c->strength[i] > c->peak[label]) c->peak[label] = c->strength[i];
    }
}

/* The objects of one kind that may be particles. */
struct kind {
    double area, strongest; /* px and thresholds; objects beyond either are of another kind */
    float typical;          /* median strength, thresholds */
};

static bool of_kind(const struct contamination *c, const struct kind *kind, int k) {
    return k > 0 && c->area[k] < kind->area && c->peak[k] < kind->strongest;
}

/* Returns whether (x, y) is in an object of a kind, or beside one. */
static bool near_kind(const struct contamination *c, const struct kind *kind, int x, int y) {
    for (int j = y > 0 ? y - 1 : y; j <= y + 1 && j < c->ny; j++)
        for (int i = x > 0 ? x - 1 : x; i <= x + 1 && i < c->nx; i++)
            if (of_kind(c, kind, c->labels[(size_t)j * (size_t)c->nx + (size_t)i])) return true;
    return false;
}

/* Returns the part of the objects of a kind, and of their rims, that is brighter than the usual ice by more than HALO
 * of their own contrast. */
static double halo_share(struct contamination *c, const struct kind *kind) {
    float ice, spread;
    contamination_usual(c->bins, c->map, pixels_of(c), true, &ice, &spread);
    double dark = 0;
    size_t darker = 0, count = 0, bright = 0;
    for (size_t i = 0; i < pixels_of(c); i++)
        if (of_kind(c, kind, c->labels[i]) && c->map[i] < ice) {
            dark += ice - c->map[i];
            darker++;
        }
    double level = ice + HALO * dark / (double)(darker > 0 ? darker : 1);
    for (int y = 0; y < c->ny; y++)
        for (int x = 0; x < c->nx; x++)
            if (near_kind(c, kind, x, y)) {
                count++;
                bright += c->map[(size_t)y * (size_t)c->nx + (size_t)x] > level;
            }
    return count > 0 ? (double)bright / (double)count : 0;
}

/* Returns whether many of the objects are alike, and sets their typical strength. */
static bool find_population(struct contamination *c, int count, struct kind *kind) {
    size_t members = 0, alike = 0;
    for (int k = 1; k <= count; k++)
        if (of_kind(c, kind, k)) c->values[members++] = (float)c->area[k];
    if (members < ALIKE_COUNT) return false;
    float area = quantile_rank(c->values, members, members / 2);
    members = 0;
    for (int k = 1; k <= count; k++)
        if (of_kind(c, kind, k)) c->values[members++] = c->peak[k];
    kind->typical = quantile_rank(c->values, members, members / 2);
    for (int k = 1; k <= count; k++)
        alike += of_kind(c, kind, k) && fabsf(c->peak[k] - kind->typical) < ALIKE_SPREAD * kind->typical &&
                 fabsf((float)c->area[k] - area) <= ALIKE_SIZES * area + 1;
    return alike >= ALIKE_COUNT && 2 * alike >= members;
}

void contamination_spare(struct contamination *c, double diameter) {
    int count = regions_label(c->seed, 1, c->nx, c->ny, c->labels, c->stack);
    contamination_measure(c, count);
    struct kind kind = {.area = ALIKE_AREA * diameter * diameter, .strongest = INFINITY};
    bool particles = find_population(c, count, &kind);
    if (particles && kind.typical > c->options.particles && halo_share(c, &kind) < HALO_SHARE) {
        /* These are crystals. Fainter objects beside them may be particles. */
        kind.strongest = c->options.particles;
        particles = find_population(c, count, &kind);
    }
    if (!particles) return;
    for (size_t i = 0; i < pixels_of(c); i++) {
        int k = c->labels[i];
        if (of_kind(c, &kind, k) && c->peak[k] < ALIKE_OUTLIER * kind.typical) c->seed[i] = 0;
    }
}
