#include "stages/lowpass-picker/faint.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/multiversion.h"

/* Bins of the heights, in standard deviations of the noise. Lower and higher ones count in the outer bins. */
enum { BINS = 230 };
static const double FIRST = -3, STEP = 0.1;
/* More peaks weigh no more than this number: the shape of noise is not known better. */
static const double COUNT_MOST = 700;

/* The mixtures: shares of particles among the peaks, and deviations of the particles' own scores. */
static const double SHARES[] = {0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.14, 0.19, 0.25, 0.32, 0.4, 0.5};
static const double DEVIATIONS[] = {0.55, 0.8, 1.15, 1.7};
enum {
    SHARE_COUNT = sizeof SHARES / sizeof *SHARES,
    DEVIATION_COUNT = sizeof DEVIATIONS / sizeof *DEVIATIONS,
    MEAN_COUNT = 33,
};
/* Means lie on a grid of half bins above the mode of noise. */
enum { MEAN_MOST = 236, TAIL = 2 * (BINS - 1) + MEAN_MOST + 1 };
/* Scores of one particle vary less than this part of their mean, which lies so far above zero beside the mode. */
static const double DEVIATION_MOST = 0.35, DEVIATION_BASE = 1.6;
/* A threshold never lies further below the mode of noise. */
static const double BELOW_MODE = 0.3;
/* Without particles, this number of noise peaks is expected above the threshold. */
static const double FALSE_PEAKS = 0.05;
/* Mixtures of less weight, relative to the best one, are left out. */
static const double WEIGHT_LEAST = 1e-4;
static const double TINY = 1e-9;
/* Logarithm of how much better mixtures must explain the heights than noise alone does. */
static const double EVIDENCE = 2.5;
/* Thresholds whose expected F1 is less than the greatest one by no more than this part are as good. */
static const double PLATEAU = 0.99;

/* Known noise: dark fringes of particles lower the noise beside them, so its peaks may lie lower than in empty ice. */
static const double SHIFTS[] = {0, -0.15, -0.3};
enum { SHIFT_COUNT = sizeof SHIFTS / sizeof *SHIFTS, SCALE_COUNT = 2 };
/* Noise of templates: whitening does not leave it quite white, and fringes of particles raise it. The last factor means
 * that the background is something else. */
static const double FACTORS[] = {0.91, 0.94, 0.97, 1, 1.03, 1.06, 1.1, 1.16, 1.25};
enum { FACTOR_COUNT = sizeof FACTORS / sizeof *FACTORS };
/* The best of many draws: the more draws, the higher its mode, and the narrower its halves; yet narrower if templates
 * are long, as their draws differ more. */
enum { MODE_COUNT = 40, WIDTH_COUNT = 2 };
static const double MODE_LEAST = 2.8, MODE_STEP = 0.07, BEST_BELOW = 4.3, BEST_ABOVE = 2.3;
static const double WIDTHS[WIDTH_COUNT] = {1, 0.75};

/* Noise as it may be: alone, or beside particles only. */
struct variant {
    struct noise_peaks peaks;
    bool alone;
};

/* Parts of the heights in each bin, and at or above its lower edge. */
struct shares {
    double in[BINS], above[BINS];
};

/* The opinion of all mixtures on a micrograph, weighted by their likelihood. */
struct opinion {
    double counts[BINS];
    int first, end;           /* the bins that are not empty lie between */
    double best, total;       /* greatest log-likelihood, and the sum of all relative to it */
    double models;            /* that were compared */
    double expected[BINS];    /* F1 of a threshold at each edge, times total */
    double alone;             /* greatest log-likelihood of noise alone, */
    struct noise_peaks noise; /* and its noise */
};

/* Returns how far the i-th mean lies above the mode, in half bins. */
static int mean_above_mode(int i) {
    if (i < 14) return 6 + 3 * i;
    if (i < 24) return 48 + 6 * (i - 14);
    return 108 + 16 * (i - 24);
}

static double edge(int bin) {
    return FIRST + STEP * bin;
}

static void fill_bins(struct shares *s, double least) {
    for (int i = 0; i < BINS; i++)
        s->in[i] = s->above[i] - (i + 1 < BINS ? s->above[i + 1] : 0) + least;
}

static void noise_shares(const struct noise_peaks *peaks, struct shares *s) {
    for (int i = 0; i < BINS; i++)
        s->above[i] = noise_peaks_share(peaks, 0, edge(i));
    fill_bins(s, 100 * TINY);
}

/* Fills tail[i] with the share of particles above half bin i, for the mean MEAN_MOST half bins above the mode. A mean of
 * `above` half bins uses the same numbers, shifted by MEAN_MOST − above. */
static void find_tail(double mode, double deviation, double *tail) {
    for (int i = 0; i < TAIL; i++) {
        double height = FIRST + 0.5 * STEP * (i - MEAN_MOST);
        tail[i] = 0.5 * erfc((height - mode) / deviation * M_SQRT1_2);
    }
}

static void particle_shares(const double *tail, int above, struct shares *s) {
    for (int i = 0; i < BINS; i++)
        s->above[i] = tail[2 * i - above + MEAN_MOST];
    fill_bins(s, TINY);
}

/* Returns the natural logarithm of a positive normal number. The error is below 4e-16 times the larger of |result| and 10.
 * A compiler can make vectors of these steps: the exponent k, and 2 atanh((m − 1)/(m + 1)) of the rest m between √½ and
 * √2. */
static inline double logarithm(double x) {
    uint64_t bits, exponent, rest;
    double m, k, magic = 0x1p52;
    memcpy(&bits, &x, sizeof bits);
    exponent = (bits + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)) >> 52;
    rest = bits - ((exponent - 1023) << 52);
    exponent |= 0x4330000000000000u; /* the bits of 2^52 + exponent */
    memcpy(&m, &rest, sizeof m);
    memcpy(&k, &exponent, sizeof k);
    k -= magic + 1023;
    double s = (m - 1) / (m + 1), z = s * s, sum = 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    return k * M_LN2 + (2 * s + 2 * s * z * sum);
}

/* Sums lane by lane: in the same order in any vector code. Empty bins add nothing: no share is 0. */
MULTIVERSION static double weigh(const double *counts, const double *particles, const double *noise, double share,
                                 int count) {
    enum { LANES = 8 };
    double sums[LANES] = {0}, sum = 0;
    const int whole = count / LANES * LANES;
    for (int i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++)
            sums[j] += counts[i + j] * logarithm(share * particles[i + j] + (1 - share) * noise[i + j]);
    for (int i = whole; i < count; i++)
        sums[i - whole] += counts[i] * logarithm(share * particles[i] + (1 - share) * noise[i]);
    for (int j = 0; j < LANES; j++)
        sum += sums[j];
    return sum;
}

static double log_likelihood(const struct opinion *o, const struct shares *particles, const struct shares *noise,
                             double share) {
    return weigh(o->counts + o->first, particles->in + o->first, noise->in + o->first, share, o->end - o->first);
}

/* Adds the opinion of one mixture. */
static void add_mixture(struct opinion *o, const struct shares *particles, const struct shares *noise, double share) {
    double here = log_likelihood(o, particles, noise, share);
    if (here > o->best) {
        double factor = exp(o->best - here);
        o->best = here;
        o->total *= factor;
        for (int i = 0; i < BINS; i++)
            o->expected[i] *= factor;
    }
    double weight = exp(here - o->best);
    o->total += weight;
    o->models++;
    if (weight < WEIGHT_LEAST) return;
    for (int i = 0; i < BINS; i++) {
        double right = share * particles->above[i], all = right + (1 - share) * noise->above[i];
        o->expected[i] += weight * 2 * right / (all + share);
    }
}

/* Adds the opinion of all mixtures with one noise. */
static void add_noise(struct opinion *o, const struct variant *variant) {
    struct shares noise, particles;
    double tail[TAIL];
    noise_shares(&variant->peaks, &noise);
    double alone = log_likelihood(o, &noise, &noise, 0);
    if (variant->alone && alone > o->alone) {
        o->alone = alone;
        o->noise = variant->peaks;
    }
    for (int d = 0; d < DEVIATION_COUNT; d++) {
        find_tail(variant->peaks.mode, DEVIATIONS[d], tail);
        for (int m = 0; m < MEAN_COUNT; m++) {
            int above = mean_above_mode(m);
            if (DEVIATIONS[d] > DEVIATION_MOST * (0.5 * STEP * above + DEVIATION_BASE)) continue;
            particle_shares(tail, above, &particles);
            for (int p = 0; p < SHARE_COUNT; p++)
                add_mixture(o, &particles, &noise, SHARES[p]);
        }
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

static void count_heights(const float *scores, size_t count, float noise, struct opinion *o) {
    double weight = fmin(1, COUNT_MOST / (double)count);
    *o = (struct opinion){.best = -INFINITY, .alone = -INFINITY};
    for (size_t i = 0; i < count; i++) {
        double bin = floor((scores[i] / noise - FIRST) / STEP);
        o->counts[(int)fmin(fmax(bin, 0), BINS - 1)] += weight;
    }
    for (o->end = BINS; o->end > 0 && o->counts[o->end - 1] <= 0; o->end--)
        continue;
    while (o->first < o->end && o->counts[o->first] <= 0)
        o->first++;
}

/* Returns the threshold in standard deviations of noise. plateau: part of the greatest expected F1; the threshold is the
 * middle of those around the best one that reach it. The mixtures know the heaps better than the gap between them. */
static double decide(const struct opinion *o, size_t count, double plateau) {
    double evidence = log(o->total / o->models) + o->best - o->alone;
    if (!(evidence > EVIDENCE)) return outlier(&o->noise, count);
    double least = o->noise.mode - BELOW_MODE;
    int at = 0;
    for (int i = 1; i < BINS; i++)
        if (edge(i) >= least && (edge(at) < least || o->expected[i] > o->expected[at])) at = i;
    int low = at, high = at;
    while (low > 0 && edge(low - 1) >= least && o->expected[low - 1] >= plateau * o->expected[at])
        low--;
    while (high + 1 < BINS && o->expected[high + 1] >= plateau * o->expected[at])
        high++;
    return 0.5 * (edge(low) + edge(high));
}

float faint_threshold(const float *scores, size_t count, float noise, double scale, const struct noise_peaks *peaks) {
    /* The greater scale comes last: it is taken where both explain noise as well. */
    const double scales[SCALE_COUNT] = {fmin(1, scale), fmax(1, scale)};
    struct opinion opinion;
    count_heights(scores, count, noise, &opinion);
    for (int i = 0; i < SCALE_COUNT; i++)
        for (int j = 0; j < SHIFT_COUNT; j++) {
            struct variant variant = {{.mode = scales[i] * (peaks->mode + SHIFTS[j]),
                                       .below = scales[i] * peaks->below,
                                       .above = scales[i] * peaks->above},
                                      .alone = j == 0};
            add_noise(&opinion, &variant);
        }
    return noise * (float)decide(&opinion, count, PLATEAU);
}

bool faint_threshold_of_templates(const float *scores, size_t count, float noise, const struct noise_peaks *peaks,
                                  float *ret_threshold) {
    struct opinion opinion;
    double best = -INFINITY, factor = 1;
    count_heights(scores, count, noise, &opinion);
    for (int i = 0; i < FACTOR_COUNT; i++) {
        struct variant variant = {
            {.mode = FACTORS[i] * peaks->mode, .below = FACTORS[i] * peaks->below, .above = FACTORS[i] * peaks->above},
            .alone = true};
        add_noise(&opinion, &variant);
        if (opinion.best <= best) continue;
        best = opinion.best;
        factor = FACTORS[i];
    }
    *ret_threshold = noise * (float)decide(&opinion, count, 1);
    return factor < FACTORS[FACTOR_COUNT - 1];
}

bool faint_threshold_of_best(const float *scores, size_t count, float noise, float *ret_threshold) {
    struct opinion opinion;
    double last = MODE_LEAST + MODE_STEP * (MODE_COUNT - 1);
    count_heights(scores, count, noise, &opinion);
    for (int i = 0; i < MODE_COUNT * WIDTH_COUNT; i++) {
        double mode = MODE_LEAST + MODE_STEP * (i % MODE_COUNT), width = WIDTHS[i / MODE_COUNT];
        struct variant variant = {
            {.mode = mode, .below = width * BEST_BELOW / mode, .above = width * BEST_ABOVE / mode}, .alone = true};
        add_noise(&opinion, &variant);
    }
    *ret_threshold = noise * (float)decide(&opinion, count, 1);
    return opinion.noise.mode > MODE_LEAST && opinion.noise.mode < last;
}
