#include "stages/lowpass-picker/faint.h"

#include <math.h>
#include <stdbool.h>

/* Bins of the heights, in standard deviations of the noise. Lower and higher ones count in the outer bins. */
enum { BINS = 190 };
static const double FIRST = -3, STEP = 0.1;

/* The mixtures: shares of particles among the peaks, and mean and deviation of the particles' own scores. */
static const double SHARES[] = {0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.14, 0.19, 0.25, 0.32, 0.4, 0.5};
static const double DEVIATIONS[] = {0.55, 0.8, 1.15, 1.7};
/* Dark fringes of particles lower the noise beside them, so its peaks may lie lower than in empty ice. */
static const double SHIFTS[] = {0, -0.15, -0.3};
enum {
    SHARE_COUNT = sizeof SHARES / sizeof *SHARES,
    DEVIATION_COUNT = sizeof DEVIATIONS / sizeof *DEVIATIONS,
    SHIFT_COUNT = sizeof SHIFTS / sizeof *SHIFTS,
    MEAN_COUNT = 33,
    SCALE_COUNT = 2,
    MODEL_COUNT = SCALE_COUNT * SHIFT_COUNT * DEVIATION_COUNT * MEAN_COUNT
};
/* Scores of one particle vary less than this part of their mean above that of noise. */
static const double DEVIATION_MOST = 0.35;
/* A threshold never lies further below the mode of noise. */
static const double BELOW_MODE = 0.3;
/* Without particles, this number of noise peaks is expected above the threshold. */
static const double FALSE_PEAKS = 0.05;
/* Mixtures of less weight, relative to the best one, are left out. */
static const double WEIGHT_LEAST = 1e-4;
static const double TINY = 1e-9;
/* Logarithm of how much better mixtures must explain the heights than noise alone does. */
static const double EVIDENCE = 2.5;

struct shares {
    double particles[BINS], noise[BINS];             /* of the heights, in each bin */
    double particles_above[BINS], noise_above[BINS]; /* at or above the lower edge of each bin */
};

static double mean_of(int i) {
    if (i < 14) return 2.9 + 0.15 * i;
    if (i < 24) return 5 + 0.3 * (i - 14);
    return 8 + 0.8 * (i - 24);
}

static double edge(int bin) {
    return FIRST + STEP * bin;
}

static double normal_above(double height, double mean, double deviation) {
    return 0.5 * erfc((height - mean) / deviation * M_SQRT1_2);
}

/* The noise of a micrograph: its peaks in units of what is known of it. */
struct faint_noise {
    const struct noise_peaks *peaks;
    double scales[SCALE_COUNT];
};

/* Describes a mixture. Returns whether it is one that occurs. */
static bool describe(const struct faint_noise *noise, int model, struct shares *s) {
    double scale = noise->scales[model / (SHIFT_COUNT * DEVIATION_COUNT * MEAN_COUNT)];
    double shift = SHIFTS[model / (DEVIATION_COUNT * MEAN_COUNT) % SHIFT_COUNT];
    double deviation = DEVIATIONS[model / MEAN_COUNT % DEVIATION_COUNT], mean = mean_of(model % MEAN_COUNT);
    if (deviation > DEVIATION_MOST * (mean - 1)) return false;
    for (int i = 0; i < BINS; i++) {
        s->particles_above[i] = normal_above(edge(i), mean, deviation);
        s->noise_above[i] = noise_peaks_share(noise->peaks, shift, edge(i) / scale);
    }
    for (int i = 0; i < BINS; i++) {
        bool last = i + 1 == BINS;
        s->particles[i] = s->particles_above[i] - (last ? 0 : s->particles_above[i + 1]) + TINY;
        s->noise[i] = s->noise_above[i] - (last ? 0 : s->noise_above[i + 1]) + 100 * TINY;
    }
    return true;
}

static double log_likelihood(const double *counts, const struct shares *s, double share) {
    double sum = 0;
    for (int i = 0; i < BINS; i++)
        if (counts[i] > 0) sum += counts[i] * log(share * s->particles[i] + (1 - share) * s->noise[i]);
    return sum;
}

/* Adds the F1 that a mixture expects of a threshold at each edge. */
static void add_expected(const struct shares *s, double share, double weight, double *expected) {
    for (int i = 0; i < BINS; i++) {
        double right = share * s->particles_above[i], all = right + (1 - share) * s->noise_above[i];
        expected[i] += weight * 2 * right / (all + share);
    }
}

/* Returns the height that FALSE_PEAKS of `count` peaks of noise exceed. */
static double outlier(const struct noise_peaks *peaks, size_t count) {
    double low = peaks->mode, high = peaks->mode + 40 * peaks->above;
    for (int i = 0; i < 60; i++) {
        double middle = 0.5 * (low + high);
        if ((double)count * noise_peaks_share(peaks, 0, middle) > FALSE_PEAKS)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* Returns the log-likelihood of noise alone, at the better one of its scales. */
static double of_noise_alone(const struct faint_noise *noise, const double *counts) {
    double best = -INFINITY;
    for (int i = 0; i < SCALE_COUNT; i++) {
        struct shares s;
        describe(noise, i * SHIFT_COUNT * DEVIATION_COUNT * MEAN_COUNT + MEAN_COUNT - 1, &s);
        best = fmax(best, log_likelihood(counts, &s, 0));
    }
    return best;
}

/* Fills logs with the log-likelihood of each mixture. Returns the greatest one. */
static double compare(const struct faint_noise *noise, const double *counts, double logs[][SHARE_COUNT]) {
    double best = -INFINITY;
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct shares s;
        bool occurs = describe(noise, m, &s);
        for (int p = 0; p < SHARE_COUNT; p++) {
            logs[m][p] = occurs ? log_likelihood(counts, &s, SHARES[p]) : -INFINITY;
            best = fmax(best, logs[m][p]);
        }
    }
    return best;
}

/* Adds up what all mixtures expect, weighted by their likelihood. Returns the sum of the weights. */
static double expect(const struct faint_noise *noise, double logs[][SHARE_COUNT], double best, double *expected) {
    double total = 0;
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct shares s;
        bool described = false;
        for (int p = 0; p < SHARE_COUNT; p++) {
            double weight = exp(logs[m][p] - best);
            total += weight;
            if (weight < WEIGHT_LEAST) continue;
            if (!described) described = describe(noise, m, &s);
            add_expected(&s, SHARES[p], weight, expected);
        }
    }
    return total;
}

float faint_threshold(const float *scores, size_t count, float noise, double scale, const struct noise_peaks *peaks) {
    double counts[BINS] = {0}, logs[MODEL_COUNT][SHARE_COUNT], expected[BINS] = {0};
    struct faint_noise n = {.peaks = peaks, .scales = {fmin(1, scale), fmax(1, scale)}};
    for (size_t i = 0; i < count; i++) {
        double bin = floor((scores[i] / noise - FIRST) / STEP);
        counts[(int)fmin(fmax(bin, 0), BINS - 1)]++;
    }
    double best = compare(&n, counts, logs), total = expect(&n, logs, best, expected);
    double evidence = log(total / (MODEL_COUNT * SHARE_COUNT)) + best - of_noise_alone(&n, counts);
    if (!(evidence > EVIDENCE)) return noise * (float)(n.scales[1] * outlier(peaks, count));
    double least = peaks->mode - BELOW_MODE;
    int at = 0;
    for (int i = 1; i < BINS; i++)
        if (edge(i) >= least && (edge(at) < least || expected[i] > expected[at])) at = i;
    return noise * (float)edge(at);
}
