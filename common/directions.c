#include "common/directions.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double PI = 3.14159265358979323846;

long directions_pixel(int nside, double z, double angle) {
    const double height = fabs(z);
    double turn = fmod(angle / (PI / 2), 4.0); /* in [0, 4) */
    if (turn < 0) turn += 4;
    const long n = nside, pixels = 12 * n * n;
    if (height <= 2.0 / 3.0) { /* the belt */
        const double up = (double)n * (0.5 + turn), down = (double)n * z * 0.75;
        const long rising = (long)floor(up - down), falling = (long)floor(up + down);
        const long ring = n + 1 + rising - falling; /* from 1, at z = 2/3 */
        const long shifted = ring % 2 == 0 ? 1 : 0;
        long place = (rising + falling - n + shifted + 1) / 2;
        place = (place % (4 * n) + 4 * n) % (4 * n);
        return 2 * n * (n - 1) + (ring - 1) * 4 * n + place;
    }
    const double part = turn - floor(turn), width = (double)n * sqrt(3 * (1 - height));
    const long rising = (long)(part * width), falling = (long)((1 - part) * width);
    const long ring = rising + falling + 1; /* from the nearer pole */
    long place = (long)floor(turn * (double)ring);
    place = place % (4 * ring);
    return z > 0 ? 2 * ring * (ring - 1) + place : pixels - 2 * ring * (ring + 1) + place;
}

void directions_centre(int nside, long pixel, double ret_centre[3]) {
    const long n = nside, pixels = 12 * n * n, cap = 2 * n * (n - 1);
    double z, angle;
    if (pixel >= cap && pixel < pixels - cap) {
        const long at = pixel - cap, ring = at / (4 * n) + n, place = at % (4 * n);
        const double shift = (ring + n) % 2 == 0 ? 0.5 : 0.0;
        z = (double)(2 * n - ring) * 2 / (3 * (double)n);
        angle = ((double)place + shift) * PI / (2 * (double)n);
    } else {
        const bool south = pixel >= cap;
        const long at = south ? pixels - 1 - pixel : pixel;
        long ring = (long)((1 + sqrt(1 + 2 * (double)at)) / 2);
        while (2 * ring * (ring - 1) > at)
            ring--;
        while (2 * ring * (ring + 1) <= at)
            ring++;
        const long place = at - 2 * ring * (ring - 1);
        z = 1 - (double)(ring * ring) / (3 * (double)(n * n));
        angle = ((double)(south ? 4 * ring - 1 - place : place) + 0.5) * PI / (2 * (double)ring);
        if (south) z = -z;
    }
    const double radius = sqrt(1 - z * z);
    ret_centre[0] = radius * cos(angle);
    ret_centre[1] = radius * sin(angle);
    ret_centre[2] = z;
}

/* ---- Efficiency ----
 *
 * A view fills a slice of Fourier space through the origin. S(u) is the share of views whose slice passes direction u;
 * so the transfer at frequency k u is S(u)/k, times an envelope exp(−k²/2). The point spread function along n is then
 * P(t n) = Σ_u S(u) g(t u·n), with g(s) = ∫ k exp(−k²/2) cos(ks) dk, and its radius is where it falls to half of P(0). */

enum { TEST_NSIDE = 8, TESTS = 12 * TEST_NSIDE * TEST_NSIDE, TABLE = 1024 };
static const double TABLE_END = 12.0, STEP = 0.25;

/* ∫ k exp(−k²/2) cos(ks) dk = 1 − s √2 D(s/√2), with Dawson's function; here by the sum over k. */
static void fill_table(double table[TABLE + 1]) {
    for (int i = 0; i <= TABLE; i++) {
        const double s = TABLE_END * i / TABLE;
        double sum = 0;
        for (int j = 0; j < 400; j++) {
            const double k = (j + 0.5) * 0.015; /* to k = 6, where the envelope is 1e-8 */
            sum += k * exp(-k * k / 2) * cos(k * s) * 0.015;
        }
        table[i] = sum;
    }
}

static double spread(const double table[TABLE + 1], const double *transfer, const double *cosines, double t) {
    double sum = 0;
    for (int u = 0; u < TESTS; u++) {
        const double s = fabs(t * cosines[u]) * TABLE / TABLE_END;
        const int at = (int)s;
        if (at < TABLE) sum += transfer[u] * (table[at] + (s - at) * (table[at + 1] - table[at]));
    }
    return sum;
}

/* Sets how many views pass each test direction, blurred over `width` of the cosine. */
static void fill_transfer(int nside, const double *counts, double centres[TESTS][3], double transfer[TESTS]) {
    const double width = 1.5 / TEST_NSIDE;
    for (long pixel = 0; pixel < 12L * nside * nside; pixel++) {
        double view[3];
        if (!(counts[pixel] > 0)) continue;
        directions_centre(nside, pixel, view);
        for (int u = 0; u < TESTS; u++) {
            const double away = fabs(view[0] * centres[u][0] + view[1] * centres[u][1] + view[2] * centres[u][2]);
            if (away < width) transfer[u] += counts[pixel] * (1 - away / width);
        }
    }
}

static double radius(const double table[TABLE + 1], const double *transfer, const double *cosines, double peak) {
    double before = peak, t = 0;
    while (t < TABLE_END) {
        const double now = spread(table, transfer, cosines, t + STEP);
        if (now < peak / 2) return t + STEP * (before - peak / 2) / (before - now);
        before = now;
        t += STEP;
    }
    return TABLE_END;
}

double directions_efficiency(int nside, const double *counts) {
    double(*centres)[3] = calloc(TESTS, sizeof *centres);
    double *buffer = calloc(2 * TESTS + TABLE + 1, sizeof *buffer);
    double result = NAN;
    if (centres != NULL && buffer != NULL) {
        double *transfer = buffer, *cosines = buffer + TESTS, *table = buffer + 2 * TESTS;
        for (int u = 0; u < TESTS; u++)
            directions_centre(TEST_NSIDE, u, centres[u]);
        fill_transfer(nside, counts, centres, transfer);
        fill_table(table);
        double sum = 0, squares = 0, peak = 0;
        for (int u = 0; u < TESTS; u++)
            peak += transfer[u] * table[0];
        for (int n = 0; n < TESTS; n++) {
            for (int u = 0; u < TESTS; u++)
                cosines[u] =
                    centres[n][0] * centres[u][0] + centres[n][1] * centres[u][1] + centres[n][2] * centres[u][2];
            const double r = radius(table, transfer, cosines, peak);
            sum += r;
            squares += r * r;
        }
        const double mean = sum / TESTS, variance = squares / TESTS - mean * mean;
        if (peak > 0) result = fmax(0, 1 - 2 * sqrt(variance > 0 ? variance : 0) / mean);
    }
    free(centres);
    free(buffer);
    return result;
}

/* ---- Tilt ---- */

void directions_tilt(int nside, const double *counts, double tilt, double *ret_counts) {
    enum { RING = 32 };
    const long pixels = 12L * nside * nside;
    const double c = cos(tilt * PI / 180), s = sin(tilt * PI / 180);
    for (long pixel = 0; pixel < pixels; pixel++)
        ret_counts[pixel] = 0;
    for (long pixel = 0; pixel < pixels; pixel++) {
        double view[3], across[3], up[3];
        if (!(counts[pixel] > 0)) continue;
        directions_centre(nside, pixel, view);
        /* Two axes across the view: `across` is horizontal, except at the poles, where any will do. */
        const double flat = hypot(view[0], view[1]);
        across[0] = flat > 0 ? -view[1] / flat : 1;
        across[1] = flat > 0 ? view[0] / flat : 0;
        across[2] = 0;
        up[0] = -view[2] * across[1];
        up[1] = view[2] * across[0];
        up[2] = view[0] * across[1] - view[1] * across[0];
        for (int i = 0; i < RING; i++) {
            const double a = 2 * PI * (i + 0.5) / RING, ca = s * cos(a), sa = s * sin(a);
            double turned[3];
            for (int axis = 0; axis < 3; axis++)
                turned[axis] = c * view[axis] + ca * across[axis] + sa * up[axis];
            const double z = fmin(fmax(turned[2], -1), 1);
            ret_counts[directions_pixel(nside, z, atan2(turned[1], turned[0]))] += counts[pixel] / RING;
        }
    }
}

double directions_best_tilt(int nside, const double *counts, double *ret_efficiency) {
    static const double STEP_DEGREES = 5, MOST = 40;
    double *tilted = malloc(12 * (size_t)nside * (size_t)nside * sizeof *tilted);
    double best = NAN;
    *ret_efficiency = NAN;
    for (double tilt = 10; tilted != NULL && tilt <= MOST; tilt += STEP_DEGREES) {
        directions_tilt(nside, counts, tilt, tilted);
        const double efficiency = directions_efficiency(nside, tilted);
        if (!(efficiency > *ret_efficiency) && !isnan(*ret_efficiency)) continue;
        best = tilt;
        *ret_efficiency = efficiency;
        if (efficiency >= DIRECTIONS_GOOD) break;
    }
    free(tilted);
    return best;
}
