#include "kernels/drop_find/drop_find.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/quantile/quantile.h"

enum { SIDE_MAX = 320, AREA_MAX = SIDE_MAX * SIDE_MAX, SMALLEST = 64, SECTORS = 64, SECTORS_LEAST = 40, CENTRES = 16 };
static const double EDGE_SHARE = 1.0 / 12, RADIUS_LEAST = 0.15, RADIUS_MOST = 0.75, ALONG = 0.97, INNER_LEAST = 0.45,
                    INNER_SUPPORT = 0.8, COARSE_CIRCLE = 0.3, COARSE_CONTENT = 0.5, CONTRAST_LEAST = 0.002,
                    ONE_WAY_MOST = 0.8;
/* The number of times that the picture is smoothed for each of three scales. BORDER: px at the rim that smoothing
 * spoils. */
enum { SMOOTH_FINE = 2, SMOOTH_MIDDLE = 8, SMOOTH_COARSE = 32, BORDER = 12 };

struct edge {
    float x, y, gx, gy; /* g: of length 1 */
};

struct drop_find {
    int nx, ny, factor; /* of the picture as it is worked on; factor: px of the original a px */
    float small[AREA_MAX], smooth[AREA_MAX], steep[AREA_MAX], votes[AREA_MAX];
    struct edge edges[AREA_MAX];
    int edge_count;
    uint64_t sectors[2][SIDE_MAX]; /* by sign and radius: which are supported, */
    uint64_t within[SIDE_MAX];     /* and which lie in the picture */
};

enum status drop_find_create(struct drop_find **ret_plan, struct err *err) {
    return mem_new(1, sizeof **ret_plan, "finding a drop", ret_plan, err);
}

void drop_find_destroy(struct drop_find **plan) {
    mem_free(plan);
}

static void reduce(struct drop_find *f, const float *picture, int nx, int ny) {
    int longer = nx > ny ? nx : ny;
    f->factor = (longer + SIDE_MAX - 1) / SIDE_MAX;
    f->nx = nx / f->factor;
    f->ny = ny / f->factor;
    float scale = 1 / (float)(f->factor * f->factor);
    for (int y = 0; y < f->ny; y++)
        for (int x = 0; x < f->nx; x++) {
            float sum = 0;
            for (int v = 0; v < f->factor; v++)
                for (int u = 0; u < f->factor; u++)
                    sum += picture[(size_t)(y * f->factor + v) * (size_t)nx + (size_t)(x * f->factor + u)];
            f->small[y * f->nx + x] = sum * scale;
        }
}

/* Smooths by a binomial of five points, `times` times: sigma = √times px. */
static void smooth(const struct drop_find *f, const float *in, float *out, float *scratch, int times) {
    int nx = f->nx, ny = f->ny;
    memcpy(out, in, (size_t)nx * (size_t)ny * sizeof *out);
    for (int t = 0; t < times; t++) {
        for (int y = 0; y < ny; y++)
            for (int x = 0; x < nx; x++) {
                const float *row = out + y * nx;
                int a = x > 1 ? x - 2 : 0, b = x > 0 ? x - 1 : 0;
                int c = x < nx - 1 ? x + 1 : x, d = x < nx - 2 ? x + 2 : nx - 1;
                scratch[y * nx + x] = (row[a] + row[d] + 4 * (row[b] + row[c]) + 6 * row[x]) / 16;
            }
        for (int y = 0; y < ny; y++) {
            int a = y > 1 ? y - 2 : 0, b = y > 0 ? y - 1 : 0, c = y < ny - 1 ? y + 1 : y,
                d = y < ny - 2 ? y + 2 : ny - 1;
            for (int x = 0; x < nx; x++)
                out[y * nx + x] = (scratch[a * nx + x] + scratch[d * nx + x] +
                                   4 * (scratch[b * nx + x] + scratch[c * nx + x]) + 6 * scratch[y * nx + x]) /
                                  16;
        }
    }
}

static float steepness(const struct drop_find *f, int x, int y, float *ret_x, float *ret_y) {
    const float *p = f->smooth + y * f->nx + x;
    *ret_x = p[1] - p[-1];
    *ret_y = p[f->nx] - p[-f->nx];
    return sqrtf(*ret_x * *ret_x + *ret_y * *ret_y);
}

static void find_edges(struct drop_find *f) {
    size_t count = 0;
    float gx, gy;
    for (int y = 1; y < f->ny - 1; y++)
        for (int x = 1; x < f->nx - 1; x++)
            f->steep[count++] = steepness(f, x, y, &gx, &gy);
    float least = quantile_rank(f->steep, count, (size_t)((double)(count - 1) * (1 - EDGE_SHARE)));
    f->edge_count = 0;
    for (int y = 1; y < f->ny - 1; y++)
        for (int x = 1; x < f->nx - 1; x++) {
            float m = steepness(f, x, y, &gx, &gy);
            if (m >= least && m > 0) f->edges[f->edge_count++] = (struct edge){(float)x, (float)y, gx / m, gy / m};
        }
}

static int shorter_side(const struct drop_find *f) {
    return f->nx < f->ny ? f->nx : f->ny;
}

static void vote(struct drop_find *f) {
    int least = (int)(RADIUS_LEAST * shorter_side(f)), most = (int)(RADIUS_MOST * shorter_side(f));
    memset(f->votes, 0, (size_t)f->nx * (size_t)f->ny * sizeof *f->votes);
    for (int i = 0; i < f->edge_count; i++)
        for (int r = -most; r <= most; r++) {
            if (abs(r) < least) continue;
            int x = (int)lrintf(f->edges[i].x + (float)r * f->edges[i].gx);
            int y = (int)lrintf(f->edges[i].y + (float)r * f->edges[i].gy);
            if (x >= 0 && x < f->nx && y >= 0 && y < f->ny) f->votes[y * f->nx + x]++;
        }
    smooth(f, f->votes, f->smooth, f->steep, 3);
}

/* Marks the sectors of each circle around the centre that have an edge across the radius. */
static void count_sectors(struct drop_find *f, double x, double y) {
    int most = (int)(RADIUS_MOST * shorter_side(f));
    memset(f->sectors, 0, sizeof f->sectors);
    for (int i = 0; i < f->edge_count; i++) {
        double dx = (double)f->edges[i].x - x, dy = (double)f->edges[i].y - y, square = dx * dx + dy * dy;
        double along = (double)f->edges[i].gx * dx + (double)f->edges[i].gy * dy;
        /* Most edges are excluded before anything costly. */
        if (along * along < ALONG * ALONG * square || square < 4 || square > (most + 1.0) * (most + 1.0)) continue;
        double r = sqrt(square);
        int sector = (int)((atan2(dy, dx) + M_PI) / (2 * M_PI) * SECTORS) % SECTORS;
        for (int k = (int)lrint(r) - 1; k <= (int)lrint(r) + 1; k++)
            if (k >= 0 && k < SIDE_MAX) f->sectors[along > 0][k] |= (uint64_t)1 << sector;
    }
    memset(f->within, 0, sizeof f->within);
    for (int s = 0; s < SECTORS; s++) {
        double angle = (s + 0.5) * 2 * M_PI / SECTORS - M_PI, c = cos(angle), sine = sin(angle);
        for (int r = 0; r <= most && r < SIDE_MAX; r++) {
            double px = x + r * c, py = y + r * sine;
            if (px >= 1 && py >= 1 && px <= f->nx - 2 && py <= f->ny - 2) f->within[r] |= (uint64_t)1 << s;
        }
    }
}

struct candidate {
    double x, y, radius, support;
    int sign;
};

/* Returns the circle of the largest support around (x, y) with a radius from `least` to `most`. */
static struct candidate best_circle(struct drop_find *f, double x, double y, int least, int most) {
    struct candidate best = {x, y, 0, 0, 0};
    count_sectors(f, x, y);
    for (int r = least; r <= most && r < SIDE_MAX; r++) {
        int within = __builtin_popcountll(f->within[r]);
        if (within < SECTORS_LEAST) continue;
        for (int sign = 0; sign < 2; sign++) {
            double support = (double)__builtin_popcountll(f->sectors[sign][r] & f->within[r]) / within;
            if (support > best.support) best = (struct candidate){x, y, r, support, sign};
        }
    }
    return best;
}

/* Finds the places with the most votes, each at least 6 px from those before. */
static int find_centres(struct drop_find *f, int centres[CENTRES][2]) {
    int count = 0;
    for (; count < CENTRES; count++) {
        float most = 0;
        for (int y = 0; y < f->ny; y++)
            for (int x = 0; x < f->nx; x++)
                if (f->smooth[y * f->nx + x] > most) {
                    most = f->smooth[y * f->nx + x];
                    centres[count][0] = x;
                    centres[count][1] = y;
                }
        if (!(most > 0)) break;
        for (int y = centres[count][1] - 6; y <= centres[count][1] + 6; y++)
            for (int x = centres[count][0] - 6; x <= centres[count][0] + 6; x++)
                if (x >= 0 && y >= 0 && x < f->nx && y < f->ny) f->smooth[y * f->nx + x] = 0;
    }
    return count;
}

/* Fits the circle x² + y² = 2 a x + 2 b y + c by least squares to the edges that support `from` (Kåsa 1976). */
static void fit_once(const struct drop_find *f, const struct candidate *from, struct drop_circle *ret_circle) {
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0, sz = 0, sxz = 0, syz = 0;
    for (int i = 0; i < f->edge_count; i++) {
        double dx = (double)f->edges[i].x - from->x, dy = (double)f->edges[i].y - from->y, r = hypot(dx, dy);
        double along = ((double)f->edges[i].gx * dx + (double)f->edges[i].gy * dy) / (r > 0 ? r : 1);
        if (fabs(r - from->radius) > 2 || (from->sign ? along : -along) < ALONG) continue;
        double z = dx * dx + dy * dy;
        n++;
        sx += dx, sy += dy, sz += z;
        sxx += dx * dx, sxy += dx * dy, syy += dy * dy;
        sxz += dx * z, syz += dy * z;
    }
    *ret_circle = (struct drop_circle){from->x, from->y, from->radius, from->support, false};
    double a = sxx - sx * sx / n, b = sxy - sx * sy / n, d = syy - sy * sy / n, determinant = a * d - b * b;
    if (n < 12 || !(determinant > 1e-6 * a * d)) return;
    double u = (sxz - sx * sz / n) / 2, v = (syz - sy * sz / n) / 2;
    double cx = (u * d - v * b) / determinant, cy = (v * a - u * b) / determinant;
    double square = sz / n - 2 * (cx * sx + cy * sy) / n + cx * cx + cy * cy;
    if (hypot(cx, cy) > 4 || !(square > 0)) return;
    *ret_circle = (struct drop_circle){from->x + cx, from->y + cy, sqrt(square), from->support, false};
}

/* Finds the middle of an edge: an edge is as wide as the smoothing, and neighbouring radii have the same support. */
static void fit(const struct drop_find *f, struct candidate from, struct drop_circle *ret_circle) {
    for (int i = 0; i < 4; i++) {
        fit_once(f, &from, ret_circle);
        from.x = ret_circle->x;
        from.y = ret_circle->y;
        from.radius = ret_circle->radius;
    }
}

/* Steps to the neighbouring centre of more support as long as there is one. */
static struct candidate climb(struct drop_find *f, struct candidate best, int least, int most) {
    for (int step = 0; step < 8; step++) {
        struct candidate from = best;
        for (int k = 0; k < 8; k++) {
            static const int around[8][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}, {-1, -1}, {1, -1}, {-1, 1}, {1, 1}};
            struct candidate next = best_circle(f, from.x + around[k][0], from.y + around[k][1], least, most);
            if (next.support > best.support) best = next;
        }
        if (best.x == from.x && best.y == from.y) break;
    }
    return best;
}

static struct candidate search(struct drop_find *f) {
    int centres[CENTRES][2], least = (int)(RADIUS_LEAST * shorter_side(f)), most = (int)(RADIUS_MOST * shorter_side(f));
    int count = find_centres(f, centres);
    struct candidate best = {0}, inner = {0};
    for (int i = 0; i < count; i++) {
        struct candidate c = best_circle(f, centres[i][0], centres[i][1], least, most);
        if (c.support > best.support) best = c;
    }
    if (!(best.radius > 0)) return best;
    best = climb(f, best, least, most);
    int inner_least = (int)(INNER_LEAST * best.radius), inner_most = (int)(0.93 * best.radius);
    for (int i = 0; i < count; i++) {
        double away = hypot(centres[i][0] - best.x, centres[i][1] - best.y);
        struct candidate c =
            best_circle(f, centres[i][0], centres[i][1], inner_least, (int)fmin(inner_most, best.radius - away + 2));
        if (c.support > inner.support) inner = c;
    }
    if (!(inner.radius > 0)) return best;
    inner = climb(f, inner, inner_least, inner_most);
    return inner.support >= INNER_SUPPORT * best.support && inner.support >= DROP_FIND_SUPPORT ? inner : best;
}

/* Returns the variance of a − b away from the borders: near them repeated borders bend an inclined picture. */
static double difference(const struct drop_find *f, const float *a, const float *b) {
    double sum = 0, squares = 0, count = 0;
    for (int y = BORDER; y < f->ny - BORDER; y++)
        for (int x = BORDER; x < f->nx - BORDER; x++) {
            double d = (double)a[y * f->nx + x] - (double)b[y * f->nx + x];
            sum += d;
            squares += d * d;
            count++;
        }
    return count > 0 ? fmax(squares / count - sum / count * (sum / count), 0) : 0;
}

/* Returns the share of edges that are parallel: 1 for stripes, 0 if all directions are equally frequent. */
static double one_way(const struct drop_find *f) {
    double c = 0, s = 0;
    for (int i = 0; i < f->edge_count; i++) {
        double gx = (double)f->edges[i].gx, gy = (double)f->edges[i].gy;
        c += gx * gx - gy * gy; /* of twice the angle, since a line has no sign */
        s += 2 * gx * gy;
    }
    return f->edge_count > 0 ? hypot(c, s) / f->edge_count : 1;
}

/* Returns how much of the variance at one scale remains at the next, whose area is four times as large: noise keeps a
 * quarter, edges keep all; light that falls off towards a side is in neither. 0: nothing remains. Overwrites all planes
 * but `small`, and the edges. */
static double coarseness(struct drop_find *f) {
    double mean = 0;
    for (int i = 0; i < f->nx * f->ny; i++)
        mean += (double)f->small[i] / (f->nx * f->ny);
    smooth(f, f->small, f->smooth, f->steep, SMOOTH_FINE);
    smooth(f, f->smooth, f->votes, f->steep, SMOOTH_MIDDLE - SMOOTH_FINE);
    double fine = difference(f, f->smooth, f->votes);
    smooth(f, f->votes, f->smooth, f->steep, SMOOTH_COARSE - SMOOTH_MIDDLE);
    double coarse = difference(f, f->votes, f->smooth), least = CONTRAST_LEAST * mean;
    return coarse > least * least && fine > 0 ? coarse / fine : 0;
}

enum status drop_find_run(struct drop_find *f, const float *picture, int nx, int ny, struct drop_circle *ret_circle,
                          struct err *err) {
    FAIL_IF(nx < SMALLEST || ny < SMALLEST, err, STATUS_NOT_FOUND,
            "a drop is looked for in pictures of at least %d px a "
            "side; this one has %d × %d",
            SMALLEST, nx, ny);
    reduce(f, picture, nx, ny);
    FAIL_IF(shorter_side(f) < 16, err, STATUS_NOT_FOUND, "a picture of %d × %d px is too narrow for a drop", nx, ny);
    smooth(f, f->small, f->smooth, f->steep, 2);
    find_edges(f);
    vote(f);
    struct candidate best = search(f);
    bool circular = best.support >= DROP_FIND_SUPPORT;
    double coarse = coarseness(f);
    if (!circular && coarse >= COARSE_CONTENT && one_way(f) < ONE_WAY_MOST) {
        /* The drop fills the picture and leaves no room for its edge. */
        double half = (nx < ny ? nx : ny) / 2.0;
        *ret_circle = (struct drop_circle){(nx - 1) / 2.0, (ny - 1) / 2.0, half, best.support, true};
        return STATUS_OK;
    }
    FAIL_IF(!circular, err, STATUS_NOT_FOUND,
            "no drop found: the best circle is visible over %.0f %% of its edge, where "
            "%.0f %% are expected, and besides there is noise, or stripes, or nothing",
            100 * best.support, 100 * DROP_FIND_SUPPORT);
    /* Light that falls off around a point is circular, too. */
    FAIL_IF(coarse < COARSE_CIRCLE, err, STATUS_NOT_FOUND, "no drop found: nothing is seen but noise and uneven light");
    struct drop_circle circle;
    fit(f, best, &circle);
    double shift = (f->factor - 1) / 2.0;
    *ret_circle = (struct drop_circle){circle.x * f->factor + shift, circle.y * f->factor + shift,
                                       circle.radius * f->factor, circle.support, false};
    return STATUS_OK;
}
