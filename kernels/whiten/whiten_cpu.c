#include "kernels/whiten/whiten.h"

#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/quantile/quantile.h"

/* Rings are as fine as the details of a particle's shape; smaller tiles would smear the low frequencies. */
static const double TILE_DIAMETERS = 3;
enum { TILE_LEAST = 16 };

struct whiten {
    struct whiten_options options;
    int tile, columns, rows;
    float *window;      /* [tile] */
    float *real, *half; /* one tile, its transform */
    float *power;       /* [tile/2 + 1][rows · columns] */
    int *counts;        /* coefficients of a ring */
    float *medians;     /* [tile/2 + 1] */
    struct fft_plan *forward;
};

int whiten_tile(const struct whiten_options *o) {
    int width = o->x1 - o->x0, height = o->y1 - o->y0, most = (width < height ? width : height) / 2 * 2;
    int tile = (int)lround(TILE_DIAMETERS * o->diameter);
    tile = fft_good_size(tile < TILE_LEAST ? TILE_LEAST : tile);
    return tile < most ? tile : most;
}

int whiten_tiles(int tile, int length) {
    return length < tile ? 0 : (length - tile) / (tile / 2) + 1;
}

static enum status build(struct whiten *w, struct err *err) {
    const struct whiten_options *o = &w->options;
    FAIL_IF(o->x0 < 0 || o->y0 < 0 || o->x1 > o->work || o->y1 > o->work || o->x1 - o->x0 < 4 || o->y1 - o->y0 < 4, err,
            STATUS_BAD_ARGUMENT, "a micrograph at %d to %d and %d to %d px of a map of %d px cannot be whitened", o->x0,
            o->x1, o->y0, o->y1, o->work);
    w->tile = whiten_tile(o);
    w->columns = whiten_tiles(w->tile, o->x1 - o->x0);
    w->rows = whiten_tiles(w->tile, o->y1 - o->y0);
    size_t n = (size_t)w->tile, rings = n / 2 + 1, tiles = (size_t)w->columns * (size_t)w->rows;
    TRY(mem_new(n, sizeof *w->window, "tiles", &w->window, err));
    TRY(mem_new(n * n, sizeof *w->real, "tiles", &w->real, err));
    TRY(mem_new(n * (n + 2), sizeof *w->half, "tiles", &w->half, err));
    TRY(mem_new(rings * tiles, sizeof *w->power, "power of tiles", &w->power, err));
    TRY(mem_new(rings, sizeof *w->counts, "power of tiles", &w->counts, err));
    TRY(mem_new(rings, sizeof *w->medians, "power of tiles", &w->medians, err));
    for (int i = 0; i < w->tile; i++)
        w->window[i] = (float)(0.5 - 0.5 * cos(2 * M_PI * i / w->tile));
    struct fft_options options = {.rank = 2, .shape = {w->tile, w->tile}, .direction = FFT_FORWARD};
    return fft_create(&options, &w->forward, err);
}

enum status whiten_create(const struct whiten_options *options, struct whiten **ret_whiten, struct err *err) {
    struct whiten *w = NULL;
    TRY(mem_new(1, sizeof *w, "whitening", &w, err));
    w->options = *options;
    enum status status = build(w, err);
    if (status != STATUS_OK) {
        whiten_destroy(&w);
        return status;
    }
    *ret_whiten = w;
    return STATUS_OK;
}

void whiten_destroy(struct whiten **whiten) {
    struct whiten *w = *whiten;
    if (!w) return;
    void *buffers[] = {w->window, w->real, w->half, w->power, w->counts, w->medians};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
    fft_destroy(&w->forward);
    mem_free(whiten);
}

/* Cuts out the tile with its corner at (x0, y0), subtracts its mean, and fades it to its edges. */
static void cut(struct whiten *w, const float *map, int x0, int y0) {
    int n = w->tile;
    double sum = 0, weights = 0;
    for (int y = 0; y < n; y++) {
        const float *line = map + (size_t)(y0 + y) * (size_t)w->options.work + x0;
        float row = 0, row_weights = 0;
        for (int x = 0; x < n; x++) {
            row += line[x] * w->window[x];
            row_weights += w->window[x];
        }
        sum += w->window[y] * row;
        weights += w->window[y] * row_weights;
    }
    float mean = (float)(sum / weights);
    for (int y = 0; y < n; y++) {
        const float *line = map + (size_t)(y0 + y) * (size_t)w->options.work + x0;
        for (int x = 0; x < n; x++)
            w->real[(size_t)y * (size_t)n + (size_t)x] = (line[x] - mean) * w->window[x] * w->window[y];
    }
}

/* Computes the mean power of the rings of a tile's transform; ring r goes to power[r · stride]. */
static void ring_power(struct whiten *w, float *power, size_t stride) {
    int n = w->tile, rings = n / 2 + 1;
    memset(w->counts, 0, (size_t)rings * sizeof *w->counts);
    for (int r = 0; r < rings; r++)
        power[(size_t)r * stride] = 0;
    for (int y = 0; y < n; y++) {
        int ky = y <= n / 2 ? y : y - n;
        const float *line = w->half + 2 * (size_t)y * (size_t)rings;
        for (int kx = 0; kx < rings; kx++) {
            int ring = whiten_ring(kx, ky);
            if (ring >= rings) break;
            power[(size_t)ring * stride] += line[2 * kx] * line[2 * kx] + line[2 * kx + 1] * line[2 * kx + 1];
            w->counts[ring]++;
        }
    }
    for (int r = 0; r < rings; r++)
        power[(size_t)r * stride] /= (float)w->counts[r];
}

void whiten_weights(struct whiten *w, const float *map, float *weights) {
    size_t tiles = (size_t)w->columns * (size_t)w->rows, at = 0;
    for (int row = 0; row < w->rows; row++)
        for (int column = 0; column < w->columns; column++) {
            cut(w, map, w->options.x0 + column * (w->tile / 2), w->options.y0 + row * (w->tile / 2));
            fft_run(w->forward, w->real, w->half);
            ring_power(w, w->power + at++, tiles);
        }
    for (int r = 0; r <= w->tile / 2; r++)
        w->medians[r] = quantile_rank(w->power + (size_t)r * tiles, tiles, tiles / 2);
    for (int r = 0; r <= w->options.work / 2; r++)
        weights[r] = whiten_weight(&w->options, w->medians, w->tile, r);
}

MULTIVERSION static void scale_row(const float *weights, int ky, int reach, float *line) {
    for (int kx = 0; kx <= reach; kx++) {
        int ring = whiten_ring(kx, ky);
        float weight = ring <= reach ? weights[ring] : 0;
        line[2 * kx] *= weight;
        line[2 * kx + 1] *= weight;
    }
}

void whiten_apply(const float *weights, int work, float *half) {
    int reach = work / 2;
    for (int row = 0; row < work; row++)
        scale_row(weights, row <= reach ? row : row - work, reach, half + 2 * (size_t)row * ((size_t)reach + 1));
}

/* Adds one template's power to the rings. The template's box has few, wide rings; the micrograph's rings lie between
 * them, with coefficients in proportion to their radius. */
static void add_power(const struct whiten_options *o, const float *half, int box, double *sums, double *ret_power) {
    double *counts = sums + box;
    memset(sums, 0, 2 * (size_t)box * sizeof *sums);
    for (int y = 0; y < box; y++)
        for (int kx = 0; kx <= box / 2; kx++) {
            int ring = whiten_ring(kx, y <= box / 2 ? y : y - box);
            const float *value = half + 2 * ((size_t)y * ((size_t)box / 2 + 1) + (size_t)kx);
            if (ring >= box) continue;
            sums[ring] += (double)value[0] * value[0] + (double)value[1] * value[1];
            counts[ring]++;
        }
    for (int r = 0; r <= o->work / 2; r++) {
        int ring = (int)((double)r * box / o->size + 0.5);
        if (counts[ring] > 0) ret_power[r] += r * sums[ring] / counts[ring];
    }
}

enum status whiten_template_power(const struct whiten_options *o, const float *templates, int box, int count,
                                  double radius, double *ret_power, struct err *err) {
    size_t n = (size_t)box;
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *half = NULL;
    _cleanup_(mem_free) double *sums = NULL;
    TRY(mem_new(n * n, sizeof *real, "template power", &real, err));
    TRY(mem_new(n * (n + 2), sizeof *half, "template power", &half, err));
    TRY(mem_new(2 * n, sizeof *sums, "template power", &sums, err));
    struct fft_options options = {.rank = 2, .shape = {box, box}, .direction = FFT_FORWARD};
    struct fft_plan *plan = NULL;
    TRY(fft_create(&options, &plan, err));
    memset(ret_power, 0, ((size_t)o->work / 2 + 1) * sizeof *ret_power);
    for (int t = 0; t < count; t++) {
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                int i = x - box / 2, j = y - box / 2;
                size_t at = (size_t)y * n + (size_t)x;
                real[at] = i * i + j * j < radius * radius ? templates[(size_t)t * n * n + at] : 0;
            }
        fft_run(plan, real, half);
        add_power(o, half, box, sums, ret_power);
    }
    fft_destroy(&plan);
    return STATUS_OK;
}

float whiten_noise(const double *template_power, const float *weights, int work) {
    double weighted = 0, total = 0;
    for (int r = 0; r <= work / 2; r++) {
        weighted += template_power[r] * weights[r] * weights[r];
        total += template_power[r];
    }
    return total > 0 ? (float)sqrt(weighted / total) : 1;
}
