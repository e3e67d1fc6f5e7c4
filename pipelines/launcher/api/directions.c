#include "pipelines/launcher/api/directions.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* ---- Point groups ---- */

struct turn {
    int fold;
    double axis[3]; /* of any length */
};

static const double GOLDEN = 1.6180339887498948482, ROOT_2 = 1.4142135623730950488;

static void turn_matrix(const struct turn *turn, double matrix[3][3]) {
    const double *a = turn->axis, length = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
    const double u[3] = {a[0] / length, a[1] / length, a[2] / length};
    const double c = cos(2 * PI / turn->fold), s = sin(2 * PI / turn->fold);
    const double cross[3][3] = {{0, -u[2], u[1]}, {u[2], 0, -u[0]}, {-u[1], u[0], 0}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            matrix[i][j] = (1 - c) * u[i] * u[j] + s * cross[i][j] + (i == j ? c : 0);
}

/* Adds a matrix unless the list has it. */
static int add_operation(double operations[DIRECTIONS_OPERATIONS][3][3], int count, double matrix[3][3]) {
    for (int k = 0; k < count; k++) {
        double away = 0;
        for (int i = 0; i < 9; i++)
            away = fmax(away, fabs(operations[k][i / 3][i % 3] - matrix[i / 3][i % 3]));
        if (away < 1e-6) return count;
    }
    memcpy(operations[count], matrix, sizeof operations[count]);
    return count + 1;
}

/* Two turns make a group of the solids. Each operation is reached from the identity by these turns alone. */
static int solid_group(const char *symmetry, double operations[DIRECTIONS_OPERATIONS][3][3]) {
    const struct {
        const char *name;
        int order;
        struct turn turns[2];
    } solids[] = {
        {"T", 12, {{3, {0, 0, 1}}, {2, {0, ROOT_2, 1}}}},  {"O", 24, {{3, {1, 1, 1}}, {4, {0, 0, 1}}}},
        {"I", 60, {{2, {0, 0, 1}}, {5, {1, 0, GOLDEN}}}},  {"I1", 60, {{2, {1, 0, 0}}, {5, {GOLDEN, 0, -1}}}},
        {"I2", 60, {{2, {0, 0, 1}}, {5, {1, 0, GOLDEN}}}}, {"I3", 60, {{5, {0, 0, 1}}, {2, {-1, 0, GOLDEN}}}},
        {"I4", 60, {{2, {1, 0, GOLDEN}}, {5, {2, 0, 1}}}},
    };
    static const double identity[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (size_t solid = 0; solid < sizeof solids / sizeof *solids; solid++) {
        if (strcasecmp(symmetry, solids[solid].name) != 0) continue;
        double turns[2][3][3];
        int count = 1;
        memcpy(operations[0], identity, sizeof identity);
        for (int t = 0; t < 2; t++)
            turn_matrix(&solids[solid].turns[t], turns[t]);
        for (int k = 0; k < count; k++)
            for (int t = 0; t < 2 && count < solids[solid].order; t++) {
                double product[3][3] = {{0}};
                for (int i = 0; i < 9; i++)
                    for (int j = 0; j < 3; j++)
                        product[i / 3][i % 3] += turns[t][i / 3][j] * operations[k][j][i % 3];
                count = add_operation(operations, count, product);
            }
        return count;
    }
    return 0;
}

int directions_group(const char *symmetry, double operations[DIRECTIONS_OPERATIONS][3][3]) {
    char *end;
    const int solid = solid_group(symmetry, operations);
    if (solid > 0) return solid;
    const char kind = (char)toupper((unsigned char)symmetry[0]);
    const long order = kind == 'C' || kind == 'D' ? strtol(symmetry + 1, &end, 10) : 0;
    const int times = kind == 'D' ? 2 : 1;
    if (order < 1 || order * times > DIRECTIONS_OPERATIONS || *end != '\0') return 0;
    int count = 0;
    for (int flip = 0; flip < times; flip++)
        for (long i = 0; i < order; i++, count++) {
            const double c = cos(2 * PI * (double)i / (double)order), s = sin(2 * PI * (double)i / (double)order);
            const double sign = flip ? -1 : 1; /* half a turn about x */
            const double operation[3][3] = {{c, -s * sign, 0}, {s, c * sign, 0}, {0, 0, sign}};
            memcpy(operations[count], operation, sizeof operation);
        }
    return count;
}

void directions_add(int nside, double rot, double tilt, double operations[][3][3], int count, double *counts) {
    const double a = rot * PI / 180, b = tilt * PI / 180;
    const double view[3] = {sin(b) * cos(a), sin(b) * sin(a), cos(b)};
    for (int i = 0; i < count; i++) {
        double turned[3];
        for (int row = 0; row < 3; row++)
            turned[row] =
                operations[i][row][0] * view[0] + operations[i][row][1] * view[1] + operations[i][row][2] * view[2];
        const double z = turned[2] > 1 ? 1 : turned[2] < -1 ? -1 : turned[2];
        counts[directions_pixel(nside, z, atan2(turned[1], turned[0]))] += 1.0 / count;
    }
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
        if (peak > 0) result = 1 - 2 * sqrt(variance > 0 ? variance : 0) / mean;
    }
    free(centres);
    free(buffer);
    return result;
}
