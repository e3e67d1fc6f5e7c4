#include "stages/lowpass-picker/threshold.h"

#include <math.h>

/* With fewer peaks, two classes cannot be separated. */
enum { PEAKS_MIN = 16 };
static const double BEST_CUT = 0.02;
/* Noise alone has peaks up to the first value, in its standard deviations, and never a mean above the second. */
static const float NOISE_LEAST = 4.5f, NOISE_SURE = 12;
/* If one normal heap is split at its mean, this share of it lies in the middle third between the means of its halves. A
 * share that is smaller by so many standard deviations means two heaps. */
static const double ONE_HEAP = 0.21, TWO_HEAPS_SPREADS = 3;
/* Scores so many standard deviations above the median do not belong to a heap: one in two thousand of a normal heap. */
static const float OUTLIER_SPREADS = 3.3f;

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

/* Mean of the scores above the split and of those below, and the share of scores in the middle third between them. */
struct heaps {
    double above, below, between;
};

static struct heaps describe(const float *scores, size_t count, float split) {
    double ceiling = scores[(size_t)(BEST_CUT * (double)count)], sum[2] = {0};
    size_t n[2] = {0}, between = 0;
    for (size_t i = 0; i < count; i++) {
        sum[scores[i] >= split] += fmin(scores[i], ceiling);
        n[scores[i] >= split]++;
    }
    struct heaps heaps = {.above = n[1] ? sum[1] / (double)n[1] : 0, .below = n[0] ? sum[0] / (double)n[0] : 0};
    double third = (heaps.above - heaps.below) / 3;
    for (size_t i = 0; i < count; i++)
        between += scores[i] > heaps.below + third && scores[i] < heaps.above - third;
    heaps.between = (double)between / (double)count;
    return heaps;
}

/* Returns where the scatter of the scores ends; count > 0. */
static float outliers(const float *scores, size_t count) {
    /* In a normal distribution the lower quartile is 1/1.4826 standard deviations below the median; the upper part may
     * hold particles. */
    float median = scores[count / 2], quartile = scores[count - 1 - count / 4];
    return median + OUTLIER_SPREADS * 1.4826f * (median - quartile);
}

static bool is_sure(const float *scores, size_t count, float noise, float split) {
    struct heaps heaps = describe(scores, count, split);
    double scatter = sqrt(ONE_HEAP * (1 - ONE_HEAP) / (double)count);
    return heaps.between <= ONE_HEAP - TWO_HEAPS_SPREADS * scatter || heaps.above >= NOISE_SURE * noise;
}

float threshold_over_noise(const float *scores, size_t count, float noise) {
    float least = NOISE_LEAST * noise, split = threshold_split(scores, count, least);
    if (!isfinite(split) || count < PEAKS_MIN || is_sure(scores, count, noise, split)) return split;
    float outlier = outliers(scores, count);
    return outlier > split ? outlier : split;
}

bool threshold_is_sure(const float *scores, size_t count, float noise) {
    float split = threshold_split(scores, count, NOISE_LEAST * noise);
    return count >= PEAKS_MIN && isfinite(split) && is_sure(scores, count, noise, split);
}
