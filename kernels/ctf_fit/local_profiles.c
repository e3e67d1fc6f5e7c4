#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/multiversion.h"
#include "kernels/ctf/ctf.h"
#include "kernels/ctf_fit/ctf_fit_private.h"
#include "kernels/ctf_fit/local_private.h"
#include "kernels/periodogram/periodogram.h"

/* Neighbouring pixels of a Hann-windowed spectrum share noise: so many count as one. */
static const double PIXELS_SHARED = 2.25;
/* Rings whose amplitude is below so many of its deviations are taken for noise. */
static const double LEAST_AMPLITUDE = 2;
/* The amplitude is measured over at least so many bins on each side. */
enum { LEAST_HALF_WINDOW = 5 };

/* Finds for each cell the bin of the profile whose phase it has, and the mean radius and certainty of the bins. Pixels
 * near the axes crowd just above whole radii, so that the mean is not in the middle of the bin. */
static void place_cells(struct ctf_local *l, const struct ctf_fit_options *o, const struct ctf_fit_result *fit) {
    double mean = (fit->defocus_u + fit->defocus_v) / 2, half = (fit->defocus_u - fit->defocus_v) / 2;
    double lambda = ctf_wavelength(o->voltage), step = 1 / (l->box * o->pixel_size);
    double turn = o->spherical_aberration * 1e7 * lambda * lambda;
    double first = 1 / (o->low * step), last = fmin(1 / (o->high * step), l->bins - 1);
    memset(l->certainty, 0, (size_t)l->bins * sizeof *l->certainty);
    memset(l->middle, 0, (size_t)l->bins * sizeof *l->middle);
    for (int s = 0; s < PERIODOGRAM_SECTORS; s++) {
        double angle = M_PI * ((s + 0.5) / PERIODOGRAM_SECTORS - 0.5);
        double defocus = mean + half * cos(2 * (angle - fit->angle * M_PI / 180));
        for (int r = 0; r < l->bins; r++) {
            int cell = s * l->bins + r, pixels = l->pixels[cell];
            double u = (double)l->radius[cell] * step;
            double radius = sqrt(fmax(0, ctf_equal_phase(mean, defocus, u * u, turn))) / step;
            l->bin[cell] = pixels > 0 && radius >= first && radius < last ? (int)radius : -1;
            if (l->bin[cell] < 0) continue;
            l->certainty[l->bin[cell]] += (float)(pixels / PIXELS_SHARED);
            l->middle[l->bin[cell]] += radius * pixels / PIXELS_SHARED;
        }
    }
    for (int i = 0; i < l->bins; i++)
        if (l->certainty[i] > 0) l->middle[i] /= (double)l->certainty[i];
}

/* Returns half the width of the local average, bins. */
static int half_average(const struct ctf_local *l, const struct ctf_fit_options *o) {
    int half = (int)(0.7 * l->box * o->pixel_size / o->low);
    return half < 8 ? 8 : half > l->box / 4 ? l->box / 4 : half;
}

/* Subtracts from values[] their mean over ±half bins, among the bins that hold something. */
static void subtract_average(const float *certainty, int bins, int half, const float *values, float *out) {
    double sum = 0, count = 0;
    int ahead = 0, behind = 0;
    for (int i = 0; i < bins; i++) {
        for (; ahead < bins && ahead <= i + half; ahead++)
            if (certainty[ahead] > 0) {
                sum += (double)values[ahead];
                count++;
            }
        for (; behind < i - half; behind++)
            if (certainty[behind] > 0) {
                sum -= (double)values[behind];
                count--;
            }
        out[i] = certainty[i] > 0 && count > 0 ? (float)((double)values[i] - sum / count) : 0;
    }
}

/* Averages one tile along the rings. scratch: [bins]. */
static void average_tile(struct ctf_local *l, const float *cells, int tile, float *scratch) {
    float *profile = l->profiles + (size_t)tile * (size_t)l->bins;
    int count = PERIODOGRAM_SECTORS * l->bins;
    const float *power = cells + (size_t)tile * (size_t)count;
    memset(scratch, 0, (size_t)l->bins * sizeof *scratch);
    for (int c = 0; c < count; c++)
        if (l->bin[c] >= 0) scratch[l->bin[c]] += power[c] * (float)l->pixels[c];
    bool empty = true;
    for (int i = 0; i < l->bins; i++) {
        empty = empty && !(scratch[i] > 0);
        scratch[i] = l->certainty[i] > 0 ? logf(scratch[i] / (l->certainty[i] * (float)PIXELS_SHARED) + 1e-30f) : 0;
    }
    subtract_average(l->certainty, l->bins, l->half, scratch, profile);
    for (int i = 0; i < l->bins; i++)
        profile[i] = empty || !(l->certainty[i] > 0) ? 0 : fminf(expf(profile[i]) - 1, 1);
}

/* Fills the rings of one defocus, −cos 2γ, and what is left of them without their local average. */
static void make_model(struct ctf_local *l, const struct ctf_fit_options *o, const struct ctf_fit_result *fit,
                       int defocus) {
    double mean = (fit->defocus_u + fit->defocus_v) / 2 + defocus * LOCAL_STEP - LOCAL_REACH;
    double step = 1 / (l->box * o->pixel_size);
    float *rings = l->rings + (size_t)defocus * (size_t)l->bins;
    for (int i = 0; i < l->bins; i++)
        rings[i] =
            l->certainty[i] > 0 ? -(float)cos(ctf_twice_phase(o, mean, fit->phase_shift, l->middle[i] * step)) : 0;
    subtract_average(l->certainty, l->bins, l->half, rings, l->models + (size_t)defocus * (size_t)l->bins);
}

void local_make_profiles(struct ctf_local *l, const float *cells, const struct ctf_fit_options *o,
                         const struct ctf_fit_result *fit) {
    l->half = half_average(l, o);
    place_cells(l, o, fit);
#pragma omp parallel for num_threads(l->threads) schedule(static)
    for (int tile = 0; tile < l->tiles; tile++)
        average_tile(l, cells, tile, l->scratch + (size_t)tile * (size_t)l->bins);
#pragma omp parallel for num_threads(l->threads) schedule(static)
    for (int d = 0; d < LOCAL_DEFOCI; d++)
        make_model(l, o, fit, d);
}

/* Returns the model of the defocus next to an offset. */
static const float *model_near(const struct ctf_local *l, double offset) {
    int d = (int)lround((offset + LOCAL_REACH) / LOCAL_STEP);
    d = d < 0 ? 0 : d >= LOCAL_DEFOCI ? LOCAL_DEFOCI - 1 : d;
    return l->models + (size_t)d * (size_t)l->bins;
}

/* Measures the amplitude of the rings over windows of about an oscillation of the micrograph's mean defocus. */
static void measure_amplitude(struct ctf_local *l) {
    const float *middle = model_near(l, 0);
    double *product = l->sums, *square = l->sums + l->bins;
    memset(l->sums, 0, 2 * (size_t)l->bins * sizeof *l->sums);
    for (int t = 0; t < l->tiles; t++) {
        const float *model = model_near(l, l->surface[t]), *profile = l->profiles + (size_t)t * (size_t)l->bins;
        for (int i = 0; i < l->bins; i++) {
            product[i] += (double)(profile[i] * model[i] * l->certainty[i]);
            square[i] += (double)(model[i] * model[i] * l->certainty[i]);
        }
    }
    for (int i = 0; i < l->bins; i++) {
        /* Reaches out until the model has changed its sign twice on each side. */
        double sum = product[i], norm = square[i];
        for (int side = -1; side <= 1; side += 2) {
            int turns = 0;
            for (int k = i + side; k >= 0 && k < l->bins && (turns < 2 || abs(k - i) <= LEAST_HALF_WINDOW); k += side) {
                turns += middle[k] * middle[k - side] < 0;
                sum += product[k];
                norm += square[k];
            }
        }
        double amplitude = norm > 0 ? sum / norm : 0;
        l->amplitude[i] = amplitude * sqrt(norm) > LEAST_AMPLITUDE ? (float)amplitude : 0;
    }
}

MULTIVERSION static float dot(const float *restrict a, const float *restrict b, int count) {
    float sum = 0;
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

MULTIVERSION static void multiply(const float *restrict a, const float *restrict b, int count, float *restrict out) {
    for (int i = 0; i < count; i++)
        out[i] = a[i] * b[i];
}

/* Gives the rings of one defocus the measured amplitude, and only then takes their local average away, as it was taken
 * from the profiles: where the amplitude falls steeply, the order changes the phase. */
static void weigh_model(struct ctf_local *l, int defocus) {
    size_t at = (size_t)defocus * (size_t)l->bins;
    float *scratch = l->scratch + at, *weighted = l->weighted + at;
    multiply(l->rings + at, l->amplitude, l->bins, weighted);
    subtract_average(l->certainty, l->bins, l->half, weighted, scratch);
    multiply(scratch, l->certainty, l->bins, weighted);
    l->norms[defocus] = dot(scratch, weighted, l->bins) / 2;
}

void local_make_table(struct ctf_local *l) {
    measure_amplitude(l);
#pragma omp parallel for num_threads(l->threads) schedule(static)
    for (int d = 0; d < LOCAL_DEFOCI; d++)
        weigh_model(l, d);
#pragma omp parallel for num_threads(l->threads) schedule(static)
    for (int t = 0; t < l->tiles; t++) {
        const float *profile = l->profiles + (size_t)t * (size_t)l->bins;
        float *table = l->table + (size_t)t * LOCAL_DEFOCI;
        bool empty = dot(profile, profile, l->bins) == 0;
        for (int d = 0; d < LOCAL_DEFOCI; d++)
            table[d] = empty ? 0 : dot(profile, l->weighted + (size_t)d * (size_t)l->bins, l->bins) - l->norms[d];
    }
}

double local_score(const struct ctf_local *l, int tile, double offset) {
    const float *table = l->table + (size_t)tile * LOCAL_DEFOCI;
    double at = fmin(fmax((offset + LOCAL_REACH) / LOCAL_STEP, 1), LOCAL_DEFOCI - 2.001);
    int d = (int)at;
    double t = at - d, a = (double)table[d - 1], b = (double)table[d], c = (double)table[d + 1],
           e = (double)table[d + 2];
    return b + t / 2 * (c - a + t * (2 * a - 5 * b + 4 * c - e + t * (3 * (b - c) + e - a)));
}
