#include <math.h>
#include <string.h>

#include "kernels/contamination/contamination_private.h"
#include "kernels/quantile/quantile.h"

/* Tiles along a side; rounds of reweighting. */
enum { TILES = 12, TERMS = BACKGROUND_TERMS, ROUNDS = 12, DIFFERENCES = 2 * TILES * (TILES - 1) };
/* In units of the median residual: residuals below LEAST all have the same weight, those above MOST have none. */
static const double LEAST = 0.3, MOST = 6;

struct slopes {
    int count;
    double terms[DIFFERENCES][TERMS]; /* of the paraboloid's slope there */
    double slope[DIFFERENCES];
    float residual[DIFFERENCES];
};

static void tile_means(const float *map, int nx, int ny, double tiles[TILES][TILES]) {
    for (int j = 0; j < TILES; j++)
        for (int i = 0; i < TILES; i++) {
            int x0 = nx * i / TILES, x1 = nx * (i + 1) / TILES, y0 = ny * j / TILES, y1 = ny * (j + 1) / TILES;
            double sum = 0;
            for (int y = y0; y < y1; y++) {
                float line = 0;
                for (int x = x0; x < x1; x++)
                    line += map[(size_t)y * nx + x];
                sum += line;
            }
            tiles[j][i] = sum / ((double)(x1 - x0) * (y1 - y0));
        }
}

/* Coordinates run from −1 to 1 over the map. */
static void measure(double tiles[TILES][TILES], struct slopes *s) {
    const double step = 2.0 / TILES;
    s->count = 0;
    for (int j = 0; j < TILES; j++)
        for (int i = 0; i < TILES; i++) {
            double u = (i + 0.5) * step - 1, v = (j + 0.5) * step - 1;
            if (i + 1 < TILES) {
                double terms[TERMS] = {1, 0, 2 * u + step, v, 0};
                memcpy(s->terms[s->count], terms, sizeof terms);
                s->slope[s->count++] = (tiles[j][i + 1] - tiles[j][i]) / step;
            }
            if (j + 1 < TILES) {
                double terms[TERMS] = {0, 1, 0, u, 2 * v + step};
                memcpy(s->terms[s->count], terms, sizeof terms);
                s->slope[s->count++] = (tiles[j + 1][i] - tiles[j][i]) / step;
            }
        }
}

/* a x = b for a positive definite a, which is overwritten, as is b by x. */
static void solve(double a[TERMS][TERMS], double b[TERMS]) {
    for (int i = 0; i < TERMS; i++)
        for (int k = i + 1; k < TERMS; k++) {
            double factor = a[i][i] > 0 ? a[k][i] / a[i][i] : 0;
            for (int j = i; j < TERMS; j++)
                a[k][j] -= factor * a[i][j];
            b[k] -= factor * b[i];
        }
    for (int i = TERMS - 1; i >= 0; i--) {
        for (int j = i + 1; j < TERMS; j++)
            b[i] -= a[i][j] * b[j];
        b[i] = a[i][i] > 0 ? b[i] / a[i][i] : 0;
    }
}

static void weighted_fit(const struct slopes *s, const double *weight, double fit[TERMS]) {
    double a[TERMS][TERMS] = {{0}};
    memset(fit, 0, TERMS * sizeof *fit);
    for (int k = 0; k < s->count; k++)
        for (int i = 0; i < TERMS; i++) {
            for (int j = 0; j < TERMS; j++)
                a[i][j] += weight[k] * s->terms[k][i] * s->terms[k][j];
            fit[i] += weight[k] * s->terms[k][i] * s->slope[k];
        }
    for (int i = 0; i < TERMS; i++)
        a[i][i] += 1e-9;
    solve(a, fit);
}

/* Least absolute deviations, by reweighting. */
static void robust_fit(struct slopes *s, double fit[TERMS]) {
    double weight[DIFFERENCES];
    for (int k = 0; k < s->count; k++)
        weight[k] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        weighted_fit(s, weight, fit);
        for (int k = 0; k < s->count; k++) {
            double residual = s->slope[k];
            for (int i = 0; i < TERMS; i++)
                residual -= fit[i] * s->terms[k][i];
            s->residual[k] = (float)fabs(residual);
        }
        double median = quantile_rank(s->residual, (size_t)s->count, (size_t)s->count / 2) + 1e-12;
        for (int k = 0; k < s->count; k++)
            weight[k] = s->residual[k] > MOST * median ? 0 : median / fmax(s->residual[k], LEAST * median);
    }
}

void background_fit(const float *map, int nx, int ny, double ret_fit[TERMS]) {
    struct slopes slopes;
    double tiles[TILES][TILES];
    memset(ret_fit, 0, TERMS * sizeof *ret_fit);
    if (nx < 2 * TILES || ny < 2 * TILES) return;
    tile_means(map, nx, ny, tiles);
    measure(tiles, &slopes);
    robust_fit(&slopes, ret_fit);
}

void background_subtract(const double fit[TERMS], float *map, int nx, int ny) {
    for (int y = 0; y < ny; y++) {
        float v = (float)((y + 0.5) / ny * 2 - 1);
        float constant = (float)fit[1] * v + (float)fit[4] * v * v, slope = (float)fit[0] + (float)fit[3] * v;
        for (int x = 0; x < nx; x++) {
            float u = ((float)x + 0.5f) / (float)nx * 2 - 1;
            map[(size_t)y * nx + x] -= constant + (slope + (float)fit[2] * u) * u;
        }
    }
}
