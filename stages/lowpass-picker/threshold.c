#include "stages/lowpass-picker/threshold.h"

#include <math.h>

/* Fewer peaks tell nothing about two kinds. */
enum { PEAKS_MIN = 16 };
static const double BEST_CUT = 0.02;
static const double DECOYS_PER_PEAK = 0.5;

float threshold_split(const float *scores, size_t count, float least) {
    if (count == 0 || !(scores[0] >= least)) return INFINITY;
    if (count < PEAKS_MIN) return least;
    double ceiling = scores[(size_t)(BEST_CUT * (double)count)], total = 0;
    for (size_t i = 0; i < count; i++)
        total += fmin(scores[i], ceiling);
    double above = 0, best = -1;
    float split = least;
    for (size_t i = 0; i + 1 < count; i++) {
        above += fmin(scores[i], ceiling);
        double n1 = (double)(i + 1), n0 = (double)(count - i - 1);
        double gap = above / n1 - (total - above) / n0, between = n1 * n0 * gap * gap;
        if (between > best && scores[i] > scores[i + 1]) {
            best = between;
            split = 0.5f * (scores[i] + scores[i + 1]);
        }
    }
    return split > least ? split : least;
}

float threshold_over_decoys(const float *scores, size_t count, const float *decoys, size_t decoy_count, float least) {
    float threshold = INFINITY;
    size_t above = 0, d = 0;
    for (; above < count && scores[above] >= least; above++) {
        while (d < decoy_count && decoys[d] >= scores[above])
            d++;
        if (DECOYS_PER_PEAK * (double)(above + 1) >= (double)d) threshold = scores[above];
    }
    return threshold;
}
