#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/gain_residual/gain_residual.h"

enum { TILE = 64, SMALLEST = 16, TILES_MOST = 16, HALVES = 2 };
static const double FILTER_SQUARES = 36;

struct totals {
    double product;      /* of the filtered halves */
    double filtered;     /* pixels */
    double mean[HALVES]; /* sums of the halves */
    double level;        /* product of the halves' means */
};

/* Returns H at a pixel with neighbours on all sides. */
static float filtered(const float *pixel, int pitch) {
    float sums[3];
    for (int row = 0; row < 3; row++) {
        const float *p = pixel + (row - 1) * pitch;
        sums[row] = 2 * p[0] - p[-1] - p[1];
    }
    return 2 * sums[1] - sums[0] - sums[2];
}

static void add_tile(const struct motion_frames *frames, int x, int y, int nx, int ny, struct totals *totals) {
    float half[HALVES][TILE * TILE];
    double sum[HALVES] = {0}, product = 0;
    memset(half, 0, sizeof half);
    for (int frame = 0; frame < frames->count; frame++)
        for (int row = 0; row < ny; row++)
            motion_frames_add_row(frames, frame, x, y + row, nx, half[frame % HALVES] + row * TILE);
    for (int row = 0; row < ny; row++)
        for (int column = 0; column < nx; column++)
            for (int h = 0; h < HALVES; h++)
                sum[h] += (double)half[h][row * TILE + column];
    for (int row = 1; row < ny - 1; row++)
        for (int column = 1; column < nx - 1; column++) {
            int at = row * TILE + column;
            product += (double)filtered(half[0] + at, TILE) * (double)filtered(half[1] + at, TILE);
        }
    double pixels = (double)nx * ny, inner = (double)(nx - 2) * (ny - 2);
    totals->product += product;
    totals->filtered += inner;
    totals->level += inner * (sum[0] / pixels) * (sum[1] / pixels);
    for (int h = 0; h < HALVES; h++)
        totals->mean[h] += sum[h];
}

/* Returns how many tiles lie along a side. */
static int tiles_along(int side) {
    int fit = side / TILE;
    return fit < 1 ? 1 : fit > TILES_MOST ? TILES_MOST : fit;
}

double gain_residual(const struct motion_frames *frames) {
    int nx = frames->nx < TILE ? frames->nx : TILE, ny = frames->ny < TILE ? frames->ny : TILE;
    if (frames->count < HALVES || nx < SMALLEST || ny < SMALLEST) return NAN;
    struct totals totals = {0};
    int across = tiles_along(frames->nx), down = tiles_along(frames->ny);
    for (int i = 0; i < across * down; i++) {
        int column = i % across, row = i / across;
        int x = across > 1 ? (int)((int64_t)column * (frames->nx - nx) / (across - 1)) : (frames->nx - nx) / 2;
        int y = down > 1 ? (int)((int64_t)row * (frames->ny - ny) / (down - 1)) : (frames->ny - ny) / 2;
        add_tile(frames, x, y, nx, ny, &totals);
    }
    if (!(totals.mean[0] > 0) || !(totals.mean[1] > 0) || !(totals.level > 0)) return NAN;
    double square = totals.product / (FILTER_SQUARES * totals.level);
    return isfinite(square) ? sqrt(fmax(square, 0)) : NAN;
}
