#include "stages/lowpass-picker/noise_peaks.h"

#include <math.h>

enum { HEIGHTS_MIN = 16, MODES = 200, SCALES = 120 };
/* Factors that are tried. */
static const double SCALE_LEAST = 0.8, SCALE_STEP = 0.01;
/* Heights further from the mode, in deviations, are not those of noise: halos of ice and gold. */
static const double OFF_MOST = 2.5;

double noise_peaks_share(const struct noise_peaks *p, double shift, double height) {
    double over = height - p->mode - shift, all = p->below + p->above;
    if (over > 0) return p->above / all * erfc(over / p->above * M_SQRT1_2);
    return 1 - p->below / all * erfc(-over / p->below * M_SQRT1_2);
}

double noise_peaks_scale(const struct noise_peaks *p, const float *heights, size_t count) {
    double best = 1, most = -INFINITY;
    for (int i = 0; i < SCALES; i++) {
        double scale = SCALE_LEAST + SCALE_STEP * i, log_likelihood = -(double)count * log(scale);
        for (size_t j = 0; j < count; j++) {
            double over = heights[j] / scale - p->mode, off = over / (over > 0 ? p->above : p->below);
            log_likelihood -= 0.5 * fmin(off * off, OFF_MOST * OFF_MOST);
        }
        if (log_likelihood <= most) continue;
        most = log_likelihood;
        best = scale;
    }
    return best;
}

struct noise_peaks noise_peaks_fit(const float *heights, size_t count) {
    struct noise_peaks best = {0};
    double least = INFINITY;
    if (count < HEIGHTS_MIN) return best;
    double high = heights[count / 16], low = heights[count - 1 - count / 4];
    for (int i = 0; i < MODES; i++) {
        double mode = low + (high - low) * i / (MODES - 1), squares[2] = {0};
        for (size_t j = 0; j < count; j++) {
            double off = heights[j] - mode;
            squares[off > 0] += off * off;
        }
        /* The likelihood of a mode with its best deviations falls with this sum (split normal distribution). */
        double below = cbrt(squares[0]), above = cbrt(squares[1]), sum = below + above;
        if (!(sum < least) || !(below > 0) || !(above > 0)) continue;
        least = sum;
        best = (struct noise_peaks){
            .mode = mode, .below = below * sqrt(sum / (double)count), .above = above * sqrt(sum / (double)count)};
    }
    return best;
}
