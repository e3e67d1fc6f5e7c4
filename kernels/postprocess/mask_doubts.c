/* Finds the signs that a mask, and not the particles, makes two half maps agree. */
#include <math.h>

#include "kernels/fsc/fsc.h"
#include "kernels/postprocess/postprocess.h"

static const double LIMIT = 0.143, MOST_CHANCE = 0.1, FAR_BEYOND = 1.5;

/* Returns half the difference of the two neighbours along an axis; outside of the box a mask goes on as at its end. */
static double slope(const float *at, size_t stride, int place, int box) {
    float before = place > 0 ? *(at - stride) : *at, after = place < box - 1 ? at[stride] : *at;
    return ((double)after - (double)before) / 2;
}

double postprocess_mask_edge(int box, const float *mask) {
    const size_t n = (size_t)box;
    double volume = 0, area = 0, volumes[POSTPROCESS_BOX_MOST] = {0}, areas[POSTPROCESS_BOX_MOST] = {0};
    if (box > POSTPROCESS_BOX_MOST) return INFINITY;
#pragma omp parallel for schedule(static)
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                const float *at = mask + ((size_t)z * n + (size_t)y) * n + (size_t)x;
                double dx = slope(at, 1, x, box), dy = slope(at, n, y, box), dz = slope(at, n * n, z, box);
                volumes[z] += *at > 0.02f && *at < 0.98f;
                areas[z] += sqrt(dx * dx + dy * dy + dz * dz);
            }
    for (int z = 0; z < box; z++)
        volume += volumes[z], area += areas[z];
    return area > 0 ? volume / area : INFINITY;
}

/* Returns the most that the unmasked maps can hold in the shells first .. last, seen inside the mask: their mean FSC and
 * two deviations of chance, F, becomes c F/(1 + (c − 1) F) if the mask keeps all signal and the part 1/c of the noise. */
static double most_inside(const struct postprocess_options *o, const struct postprocess_result *r, int first,
                          int last) {
    const size_t voxels = (size_t)o->box * (size_t)o->box * (size_t)o->box;
    double kept = 0, sum = 0, count = 0;
    for (size_t i = 0; i < voxels; i++)
        kept += (double)r->mask[i] * (double)r->mask[i];
    const double gain = (double)voxels / kept;
    for (int s = first; s <= last; s++) {
        const double pairs = 2 * M_PI * s * s;
        sum += pairs * (double)r->fsc_unmasked[s];
        count += pairs;
    }
    const double most = fmax(sum / count + 2 / sqrt(count), 0);
    return gain * most / (1 + (gain - 1) * most);
}

void postprocess_doubt_mask(const struct postprocess_options *o, struct postprocess_result *r) {
    const double extent = o->box * o->pixel_size;
    const double unmasked = fsc_resolution(r->fsc_unmasked, o->box, o->pixel_size, LIMIT);
    r->claimed = fsc_resolution(r->fsc, o->box, o->pixel_size, LIMIT);
    const int shell = r->claimed < 999 ? (int)lround(extent / r->claimed) : 0;
    const int held = unmasked < 999 ? (int)lround(extent / unmasked) : 0;
    r->mask_edge = postprocess_mask_edge(o->box, r->mask);
    r->doubts = r->mask_edge < POSTPROCESS_LEAST_EDGE ? POSTPROCESS_HARD : 0;
    r->chance = r->randomise_from > 0 ? (double)r->fsc_randomised[shell] : 0;
    if (shell <= held) return; /* the mask claims nothing */
    if (r->chance > MOST_CHANCE) r->doubts |= POSTPROCESS_TIGHT;
    if (shell >= FAR_BEYOND * held && most_inside(o, r, (held + shell) / 2 + 1, shell) < LIMIT)
        r->doubts |= POSTPROCESS_BEYOND;
}
