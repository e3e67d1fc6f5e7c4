#include "stages/lowpass-picker/rough.h"

#include "kernels/quantile/quantile.h"

/* Deviation of rough surroundings, in medians of all picks. */
static const float ROUGH = 2;
/* Part of the picks that are rough at most; if there are more, the roughness is that of particles. */
static const double PART_MOST = 0.05;

static float at(const struct peak *peak, const float *sigma, int work) {
    int x = (int)(peak->x + 0.5f), y = (int)(peak->y + 0.5f);
    x = x < work ? x : work - 1;
    y = y < work ? y : work - 1;
    return sigma[(size_t)y * (size_t)work + (size_t)x];
}

void rough_drop(struct peak_list *peaks, const float *sigma, int work, float *values) {
    float median, spread;
    size_t rough = 0, kept = 0;
    for (size_t i = 0; i < peaks->count; i++)
        values[i] = at(&peaks->items[i], sigma, work);
    quantile_robust(values, peaks->count, &median, &spread);
    float most = ROUGH * median;
    for (size_t i = 0; i < peaks->count; i++)
        rough += at(&peaks->items[i], sigma, work) > most;
    if (!(median > 0) || (double)rough > PART_MOST * (double)peaks->count) return;
    for (size_t i = 0; i < peaks->count; i++)
        if (at(&peaks->items[i], sigma, work) <= most) peaks->items[kept++] = peaks->items[i];
    peaks->count = kept;
}
