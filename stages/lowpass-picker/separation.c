#include "stages/lowpass-picker/separation.h"

#include <math.h>

enum { COUNT_LEAST = 32, STARTS = 4, ROUNDS = 200, THRESHOLDS = 400 };
/* Part of the heights above which the fit begins. */
static const double FIRST[STARTS] = {0.2, 0.35, 0.5, 0.65};
/* Part of the heights that are cut to one value: gold and ice. */
static const double BEST_CUT = 0.02;
static const double FALSE_PART = 0.05;
/* Deviations do not shrink below this part of the range, and end a fit that moves less. */
static const double NARROWEST = 1e-3, SETTLED = 1e-7;

struct part {
    double weight, mean, deviation;
};

static double density(const struct part *p, double height) {
    double off = (height - p->mean) / p->deviation;
    return p->weight / p->deviation * exp(-0.5 * off * off);
}

static double above(const struct part *p, double height) {
    return 0.5 * p->weight * erfc((height - p->mean) / p->deviation * M_SQRT1_2);
}

/* Begins with the heights split in two. */
static void begin(const float *heights, size_t count, double ceiling, double first, struct part parts[2]) {
    size_t split = (size_t)(first * (double)count);
    for (int i = 0; i < 2; i++) {
        size_t from = i == 1 ? 0 : split, to = i == 1 ? split : count;
        double sum = 0, squares = 0, n = (double)(to - from);
        for (size_t k = from; k < to; k++) {
            double height = fmin(heights[k], ceiling);
            sum += height;
            squares += height * height;
        }
        parts[i] = (struct part){n / (double)count, sum / n, sqrt(fmax(squares / n - sum * sum / (n * n), 0))};
    }
}

/* Improves the parts by one round of expectation and maximisation. Returns the log-likelihood before it. */
static double improve(const float *heights, size_t count, double ceiling, double narrowest, struct part parts[2]) {
    double n[2] = {0}, sum[2] = {0}, squares[2] = {0}, likelihood = 0, middle = parts[0].mean;
    for (size_t k = 0; k < count; k++) {
        double height = fmin(heights[k], ceiling), low = density(&parts[0], height), high = density(&parts[1], height);
        double all = fmax(low + high, 1e-300), share[2] = {1 - high / all, high / all}, off = height - middle;
        likelihood += log(all);
        for (int i = 0; i < 2; i++) {
            n[i] += share[i];
            sum[i] += share[i] * off;
            squares[i] += share[i] * off * off;
        }
    }
    for (int i = 0; i < 2; i++) {
        double mean = sum[i] / fmax(n[i], 1e-9), variance = squares[i] / fmax(n[i], 1e-9) - mean * mean;
        parts[i] = (struct part){n[i] / (double)count, middle + mean, fmax(sqrt(fmax(variance, 0)), narrowest)};
    }
    return likelihood;
}

static double fit(const float *heights, size_t count, double ceiling, double first, struct part parts[2]) {
    double narrowest = fmax(NARROWEST * (ceiling - heights[count - 1]), 1e-12), before = -INFINITY, now = 0;
    begin(heights, count, ceiling, first, parts);
    for (int i = 0; i < 2; i++)
        parts[i].deviation = fmax(parts[i].deviation, narrowest);
    for (int round = 0; round < ROUNDS; round++) {
        now = improve(heights, count, ceiling, narrowest, parts);
        if (now - before < SETTLED * (double)count) break;
        before = now;
    }
    return now;
}

struct separation separation_of(const float *heights, size_t count) {
    struct separation result = {0};
    struct part best[2] = {{0}}, parts[2];
    double most = -INFINITY;
    if (count < COUNT_LEAST || !(heights[0] > heights[count - 1])) return result;
    double ceiling = heights[(size_t)(BEST_CUT * (double)count)], floor = heights[count - 1];
    for (int i = 0; i < STARTS; i++) {
        double here = fit(heights, count, ceiling, FIRST[i], parts);
        if (here <= most) continue;
        most = here;
        best[0] = parts[0];
        best[1] = parts[1];
    }
    for (int i = 0; i < THRESHOLDS; i++) {
        double height = floor + (ceiling - floor) * i / THRESHOLDS;
        double wrong = above(&best[0], height), right = above(&best[1], height), all = wrong + right;
        if (!(all > 0)) break;
        result.f1 = fmax(result.f1, 2 * right / (all + best[1].weight));
        if (wrong <= FALSE_PART * all) result.sure = fmax(result.sure, right * (double)count);
    }
    return result;
}
