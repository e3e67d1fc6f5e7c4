#include <math.h>
#include <string.h>

#include "kernels/ctf/ctf.h"
#include "kernels/ctf_fit/ctf_fit_private.h"

/* The fit holds where profile and CTF correlate at least so well over two oscillations. */
static const double LEAST_AGREEMENT = 0.5;
/* A fit that does not hold within so many oscillations holds nowhere: further out, noise would do so by chance. */
static const double FIRST_OSCILLATIONS = 3;
/* A window of the local correlation has at least so many bins on each side, and an oscillation so many at all. */
enum { LEAST_HALF_WINDOW = 10, LEAST_OSCILLATION = 4 };

double ctf_twice_phase(const struct ctf_fit_options *o, double mean, double phase, double frequency) {
    double lambda = ctf_wavelength(o->voltage), u2 = frequency * frequency;
    double quartic = M_PI / 2 * o->spherical_aberration * 1e7 * lambda * lambda * lambda;
    return 2 * (M_PI * lambda * mean * u2 - quartic * u2 * u2 + phase * M_PI / 180 + asin(o->amplitude_contrast));
}

double ctf_equal_phase(double mean, double defocus, double u2, double turn) {
    if (turn <= 0) return u2 * defocus / mean;
    double root = mean * mean - 2 * turn * (defocus * u2 - turn / 2 * u2 * u2);
    return u2 * turn < 0.95 * mean && root > 0 ? (mean - sqrt(root)) / turn : u2;
}

/* Bins of the profile to which the pixels of a spectrum are added. */
struct mapping {
    const float *power;
    const struct ctf_point *point;
    double step, turn; /* 1/Å a pixel; phase = πλ (D u² − turn/2 u⁴) */
};

/* Adds some rows to sums[3][box]: spectrum, amplitude and number of pixels in each bin. */
static void average_part(const struct ctf_fit *fit, const struct mapping *m, int part, double *sums) {
    const struct ctf_fit_profile *profile = &fit->profile;
    int box = fit->box, columns = box / 2 + 1, count = profile->count;
    double *spectrum = sums, *amplitude = sums + box, *weight = sums + 2 * (size_t)box;
    int begin = (int)((long long)box * part / CTF_PARTS), end = (int)((long long)box * (part + 1) / CTF_PARTS);
    memset(sums, 0, 3 * (size_t)box * sizeof *sums);
    for (int row = begin; row < end; row++) {
        int ky = row <= box / 2 ? row : row - box;
        for (int kx = 2; kx < columns; kx++) {
            double r2 = (double)kx * kx + (double)ky * ky, u2 = r2 * m->step * m->step;
            if (r2 > (double)box * box / 4 || (ky > -2 && ky < 2)) continue;
            double cosine = ((double)kx * kx - (double)ky * ky) / r2, sine = 2.0 * kx * ky / r2;
            double defocus = m->point->mean + m->point->along * cosine + m->point->across * sine;
            int bin = (int)(sqrt(fmax(0, ctf_equal_phase(m->point->mean, defocus, u2, m->turn))) / profile->step);
            if (bin < 0 || bin >= count) continue;
            size_t at = (size_t)row * (size_t)columns + (size_t)kx;
            spectrum[bin] += (double)fit->flat[at];
            amplitude[bin] += (double)sqrtf(m->power[at]);
            weight[bin] += 1;
        }
    }
}

static void average_rings(struct ctf_fit *fit, const float *power, const struct ctf_fit_options *o,
                          const struct ctf_point *point) {
    struct ctf_fit_profile *profile = &fit->profile;
    size_t box = (size_t)fit->box;
    double lambda = ctf_wavelength(o->voltage);
    struct mapping mapping = {.power = power,
                              .point = point,
                              .step = 1 / (fit->box * o->pixel_size),
                              .turn = o->spherical_aberration * 1e7 * lambda * lambda};
#pragma omp parallel for num_threads(fit->threads) schedule(static)
    for (int part = 0; part < CTF_PARTS; part++)
        average_part(fit, &mapping, part, fit->sums + (size_t)part * 3 * box);
    for (size_t part = 1; part < CTF_PARTS; part++)
        for (size_t i = 0; i < 3 * box; i++)
            fit->sums[i] += fit->sums[part * 3 * box + i];
    const double *spectrum = fit->sums, *amplitude = spectrum + box, *weight = amplitude + box;
    for (int i = 0; i < profile->count; i++) {
        double s = sin(ctf_twice_phase(o, point->mean, point->phase, (i + 0.5) * profile->step) / 2);
        profile->spectrum[i] = (float)(weight[i] > 0 ? spectrum[i] / weight[i] : 0);
        profile->background[i] = (float)(weight[i] > 0 ? amplitude[i] / weight[i] : 0);
        profile->fit[i] = (float)(s * s);
    }
}

/* Returns the bins of half a window: an oscillation of CTF². */
static int half_window(const struct ctf_fit *fit, const struct ctf_fit_options *o, const struct ctf_point *point,
                       int bin) {
    double u = (bin + 0.5) * fit->profile.step, d = fit->profile.step / 8;
    double slope = fabs(ctf_twice_phase(o, point->mean, point->phase, u + d) -
                        ctf_twice_phase(o, point->mean, point->phase, u - d)) /
                   (2 * d);
    double oscillation = 2 * M_PI / (slope * fit->profile.step);
    if (!(oscillation >= LEAST_OSCILLATION)) return 0;
    int half = oscillation > fit->profile.count ? fit->profile.count : (int)lround(oscillation);
    return half < LEAST_HALF_WINDOW ? LEAST_HALF_WINDOW : half;
}

/* Returns the correlation of profile and CTF² over bins first to last. */
static double correlate(const struct ctf_fit_profile *p, int first, int last) {
    double n = last - first + 1, s = 0, f = 0, ss = 0, ff = 0, sf = 0;
    for (int i = first; i <= last; i++) {
        double a = (double)p->spectrum[i], b = (double)p->fit[i];
        s += a;
        f += b;
        ss += a * a;
        ff += b * b;
        sf += a * b;
    }
    double variances = (ss - s * s / n) * (ff - f * f / n);
    return variances > 0 ? (sf - s * f / n) / sqrt(variances) : 0;
}

double ctf_make_profile(struct ctf_fit *fit, const float *power, const struct ctf_fit_options *o,
                        const struct ctf_point *point) {
    struct ctf_fit_profile *p = &fit->profile;
    p->step = 0.5 / (fit->box * o->pixel_size);
    p->count = fit->box;
    average_rings(fit, power, o, point);
    int begin = (int)(1 / (o->low * p->step)), last = 0, below = 0;
    double first_phase = ctf_twice_phase(o, point->mean, point->phase, (begin + 0.5) * p->step);
    memset(p->agreement, 0, (size_t)p->count * sizeof *p->agreement);
    for (int i = begin; i < p->count; i++) {
        int half = half_window(fit, o, point, i);
        if (half == 0) break; /* the rings lie closer than the spectrum resolves */
        int first = i - half < begin ? begin : i - half, end = i + half >= p->count ? p->count - 1 : i + half;
        p->agreement[i] = (float)correlate(p, first, end);
        double oscillations =
            fabs(ctf_twice_phase(o, point->mean, point->phase, (i + 0.5) * p->step) - first_phase) / (2 * M_PI);
        if ((double)p->agreement[i] >= LEAST_AGREEMENT) {
            last = i;
            below = 0;
        } else if (++below > half && (last > 0 || oscillations > FIRST_OSCILLATIONS)) {
            break; /* a single bad stretch, such as an ice ring, is shorter */
        }
    }
    return last > 0 ? 1 / ((last + 0.5) * p->step) : 0;
}
