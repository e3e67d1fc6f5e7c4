#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/contamination/contamination.h"
#include "kernels/contamination/contamination_private.h"
#include "kernels/quantile/quantile.h"

/* Least width of a particle after binning, px: finer detail does not matter here. */
enum { WIDTH = 5 };
/* Widths of the boxes in diameters, and their thresholds in units of the widest box: in small boxes particles
 * themselves are strong. Marked places are continued (from LEVEL of the threshold) with the boxes of scale GROWTH, up
 * to REACH diameters away. */
enum { SCALES = 4, GROWTH = 2 };
static const double BOXES[SCALES] = {1, 0.7, 0.5, 0.25};
static const float LEVELS[SCALES] = {1, 1, 1.1f, 1.27f};
static const float LEVEL = 0.5f;
static const double REACH = 0.25;
/* A place lies inside an object if the greatest contrast nearby is at most so many times its own contrast: a box blurs
 * an edge, and the true edge is half way down the slope. */
static const float EDGE = 0.5f;
/* Part of the pixels in the interval that defines "usual", and the width of that interval for a normal distribution of
 * deviation 1. A second, brighter mode lies at least so many widths away, and is at most twice as wide. */
static const double USUAL = 0.3, USUAL_WIDTH = 0.7706, MODE_GAP = 4, MODE_WIDTH = 2;
enum { BINS = CONTAMINATION_BINS };
/* The histogram reaches so many deviations to both sides; its outermost bins hold everything beyond. */
static const double BINS_REACH = 4;
/* Least deviation, relative to the deviation of the map: for maps without noise. */
static const double LEAST_SPREAD = 1e-3;
/* A region is rough if the logarithm of its local variance lies so many deviations above the usual, and its variance is
 * so many times the median: particles are rough too. Measured over so many diameters. */
enum { EDGE_WIDTH = 1 }; /* bins around a marked place that hold its edge */
static const double ROUGH_LEVEL = 5, ROUGH_RATIO = 6, ROUGH_WIDTH = 1.5;
/* Islands smaller than this part of the largest free area count as cut off. */
static const double ISLAND = 0.03;

static enum status allocate(struct contamination *c, struct err *err) {
    size_t side = (size_t)c->options.work / (size_t)c->bin + 1, pixels = side * side, table = (side + 1) * (side + 1);
    double **tables[] = {&c->sums, &c->squares, &c->counts};
    float **maps[] = {&c->map, &c->mean, &c->widest, &c->rows, &c->strength, &c->values, &c->peak};
    uint8_t **sets[] = {&c->seed, &c->grown, &c->rough, &c->rough_core};
    int **lists[] = {&c->labels, &c->stack, &c->area};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        TRY(mem_new(table, sizeof **tables[i], "contamination", tables[i], err));
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        TRY(mem_new(pixels + 1, sizeof **maps[i], "contamination", maps[i], err));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        TRY(mem_new(pixels, sizeof **sets[i], "contamination", sets[i], err));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        TRY(mem_new(pixels + 1, sizeof **lists[i], "contamination", lists[i], err));
    TRY(mem_new((size_t)c->options.work, sizeof *c->line, "contamination", &c->line, err));
    for (int i = 0; i <= CONTAMINATION_LINES; i++)
        TRY(mem_new(side + 1, sizeof *c->lines[i], "contamination", &c->lines[i], err));
    return mem_new(BINS, sizeof *c->bins, "contamination", &c->bins, err);
}

enum status contamination_create(const struct contamination_options *options, struct contamination **ret_contamination,
                                 struct err *err) {
    struct contamination *c = NULL;
    FAIL_IF(options->work < 1 || options->work > 32000 || !(options->diameter > 0) || !(options->threshold > 0) ||
                !(options->particles > 0),
            err, STATUS_BAD_ARGUMENT,
            "a contamination mask of %d px for particles of %g px of up to %g times a threshold of %g is not possible: "
            "1 to 32000 px, and values above 0, are expected",
            options->work, options->diameter, options->particles, options->threshold);
    TRY(mem_new(1, sizeof *c, "contamination", &c, err));
    c->options = *options;
    double bin = fmin(options->diameter / WIDTH, options->work / WIDTH);
    c->bin = bin > 1 ? (int)bin : 1;
    enum status status = allocate(c, err);
    if (status != STATUS_OK) {
        contamination_destroy(&c);
        return status;
    }
    *ret_contamination = c;
    return STATUS_OK;
}

void contamination_destroy(struct contamination **contamination) {
    struct contamination *c = *contamination;
    if (!c) return;
    void *buffers[] = {c->map,      c->sums,   c->squares, c->counts, c->mean,  c->widest,     c->rows,
                       c->strength, c->values, c->seed,    c->grown,  c->rough, c->rough_core, c->labels,
                       c->stack,    c->area,   c->peak,    c->line,   c->bins};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
    for (int i = 0; i <= CONTAMINATION_LINES; i++)
        free(c->lines[i]);
    mem_free(contamination);
}

const struct contamination_options *contamination_options(const struct contamination *contamination) {
    return &contamination->options;
}

MULTIVERSION static void add(const float *in, int count, float *sum) {
    for (int i = 0; i < count; i++)
        sum[i] += in[i];
}

/* Bins the area of the map; bins at the right and lower edge are narrower. Contamination becomes dark. */
static void fill_bins(struct contamination *c, const float *map, const struct contamination_area *a) {
    int width = a->x1 - a->x0, height = a->y1 - a->y0, bin = c->bin;
    c->nx = (width + bin - 1) / bin;
    c->ny = (height + bin - 1) / bin;
    for (int y = 0; y < c->ny; y++) {
        int lines = height - y * bin < bin ? height - y * bin : bin;
        memset(c->line, 0, (size_t)width * sizeof *c->line);
        for (int j = 0; j < lines; j++)
            add(map + (size_t)(a->y0 + y * bin + j) * (size_t)c->options.work + a->x0, width, c->line);
        for (int x = 0; x < c->nx; x++) {
            int end = x * bin + bin < width ? x * bin + bin : width;
            float sum = 0;
            for (int i = x * bin; i < end; i++)
                sum += c->line[i];
            float value = sum / (float)(lines * (end - x * bin));
            c->map[(size_t)y * c->nx + x] = isfinite(value) ? c->options.bright ? -value : value : 0;
        }
    }
}

/* Expands the mask to the size of the map; returns the number of marked pixels. */
static size_t unbin(const struct contamination *c, const struct contamination_area *a, uint8_t *mask) {
    size_t work = (size_t)c->options.work, width = (size_t)(a->x1 - a->x0), marked = 0;
    for (int y = 0; y < c->ny; y++) {
        int first = a->y0 + y * c->bin, end = first + c->bin < a->y1 ? first + c->bin : a->y1;
        uint8_t *line = mask + (size_t)first * work + a->x0;
        size_t set = 0;
        for (size_t x = 0; x < (size_t)c->nx; x++) {
            size_t start = x * (size_t)c->bin, count = start + (size_t)c->bin < width ? (size_t)c->bin : width - start;
            memset(line + start, c->seed[(size_t)y * (size_t)c->nx + x], count);
            set += count * c->seed[(size_t)y * (size_t)c->nx + x];
        }
        for (int copy = first + 1; copy < end; copy++)
            memcpy(mask + (size_t)copy * work + a->x0, line, width);
        marked += set * (size_t)(end - first);
    }
    return marked;
}

/* table[y][x] = sum over rows < y and columns < x of values (squared), where `skip` is not set; NULL values: ones. */
static void sum_table(const float *values, bool square, const uint8_t *skip, int nx, int ny, double *table) {
    memset(table, 0, ((size_t)nx + 1) * sizeof *table);
    for (int y = 0; y < ny; y++) {
        const double *above = table + (size_t)y * (nx + 1);
        double *here = table + (size_t)(y + 1) * (nx + 1), sum = 0;
        here[0] = 0;
        for (int x = 0; x < nx; x++) {
            size_t at = (size_t)y * nx + x;
            double value = values ? values[at] : 1;
            if (!skip || !skip[at]) sum += square ? value * value : value;
            here[x + 1] = above[x + 1] + sum;
        }
    }
}

MULTIVERSION static void subtract(const double *a, const double *b, int count, double *out) {
    for (int i = 0; i < count; i++)
        out[i] = a[i] - b[i];
}

/* Computes sums over the boxes of ±half around the pixels of row y, cut at the edges, from a table. line: nx + 1,
 * scratch. */
static void box_row(const double *table, int nx, int ny, int y, int half, double *line, double *sums) {
    size_t y0 = y > half ? y - half : 0, y1 = y + half + 1 < ny ? y + half + 1 : ny, stride = (size_t)nx + 1;
    subtract(table + y1 * stride, table + y0 * stride, nx + 1, line);
    int inner = nx - 2 * half;
    if (inner > 0) subtract(line + 2 * half + 1, line, inner, sums + half);
    for (int x = 0; x < nx; x++) {
        if (x == half && inner > 0) x += inner;
        if (x >= nx) break;
        sums[x] = line[x + half + 1 < nx ? x + half + 1 : nx] - line[x > half ? x - half : 0];
    }
}

/* Returns the number of pixels of such a box. */
static int box_count(int nx, int ny, int x, int y, int half) {
    int width = (x + half + 1 < nx ? x + half + 1 : nx) - (x > half ? x - half : 0);
    return width * ((y + half + 1 < ny ? y + half + 1 : ny) - (y > half ? y - half : 0));
}

static int half_of(double width) {
    int half = (int)lround((width - 1) / 2);
    return half > 0 ? half : 0;
}

/* Finds the densest interval of `need` values in a histogram; with `from` > 0, the densest one above that bin. Returns
 * its first bin and the one behind its last; false if there are too few values. */
static bool densest(const uint32_t *bins, size_t need, int from, int *ret_first, int *ret_end) {
    size_t sum = 0;
    int first = from, best = BINS + 1;
    for (int end = from; end < BINS; end++) {
        sum += bins[end];
        while (sum - bins[first] >= need)
            sum -= bins[first++];
        if (sum < need || end + 1 - first >= best) continue;
        best = end + 1 - first;
        *ret_first = first;
        *ret_end = end + 1;
    }
    return best <= BINS;
}

void contamination_usual(uint32_t *bins, const float *values, size_t count, bool brighter, float *ret_middle,
                         float *ret_spread) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
        squares += (double)values[i] * values[i];
    }
    double mean = sum / (double)count, deviation = sqrt(fmax(squares / (double)count - mean * mean, 0));
    *ret_middle = (float)mean;
    *ret_spread = 1;
    if (!(deviation > 1e-6 * fabs(mean))) return;
    float least = (float)(mean - BINS_REACH * deviation), factor = (float)(BINS / (2 * BINS_REACH * deviation));
    memset(bins, 0, BINS * sizeof *bins);
    for (size_t i = 0; i < count; i++) {
        float at = (values[i] - least) * factor;
        bins[at > 0 ? at < BINS - 1 ? (int)at : BINS - 1 : 0]++;
    }
    size_t need = (size_t)(USUAL * (double)count) + 1;
    int first = 0, end = BINS;
    densest(bins, need, 0, &first, &end);
    int gap = (int)fmin(MODE_GAP * (end - first), BINS), other = 0, other_end = 0;
    if (brighter && end + gap < BINS && densest(bins, need, end + gap, &other, &other_end) &&
        other_end - other <= MODE_WIDTH * (end - first)) {
        first = other;
        end = other_end;
    }
    *ret_middle = least + 0.5f * (float)(first + end) / factor;
    *ret_spread = (float)fmax((end - first) / (double)factor / USUAL_WIDTH, LEAST_SPREAD * deviation);
}

MULTIVERSION static void larger(float *out, const float *in, int count) {
    for (int i = 0; i < count; i++)
        out[i] = in[i] > out[i] ? in[i] : out[i];
}

/* widest = maximum of mean within ±half. */
static void maximum(struct contamination *c, int half) {
    int nx = c->nx, ny = c->ny;
    memcpy(c->rows, c->mean, pixels_of(c) * sizeof *c->rows);
    for (int y = 0; y < ny; y++)
        for (int shift = 1; shift <= half && shift < nx; shift++) {
            larger(c->rows + (size_t)y * nx + shift, c->mean + (size_t)y * nx, nx - shift);
            larger(c->rows + (size_t)y * nx, c->mean + (size_t)y * nx + shift, nx - shift);
        }
    memcpy(c->widest, c->rows, pixels_of(c) * sizeof *c->rows);
    for (int y = 0; y < ny; y++)
        for (int shift = 1; shift <= half; shift++) {
            if (y >= shift) larger(c->widest + (size_t)y * nx, c->rows + (size_t)(y - shift) * nx, nx);
            if (y + shift < ny) larger(c->widest + (size_t)y * nx, c->rows + (size_t)(y + shift) * nx, nx);
        }
}

static void box_means(struct contamination *c, int half) {
    for (int y = 0; y < c->ny; y++) {
        double *sums = c->lines[0];
        box_row(c->sums, c->nx, c->ny, y, half, c->lines[CONTAMINATION_LINES], sums);
        for (int x = 0; x < c->nx; x++)
            c->mean[(size_t)y * c->nx + x] = (float)(sums[x] / box_count(c->nx, c->ny, x, y, half));
    }
}

MULTIVERSION static void score(float *values, size_t count, float middle, float factor) {
    for (size_t i = 0; i < count; i++)
        values[i] = fabsf(values[i] - middle) * factor;
}

/* Adds pixels that are above the level and inside their object. Strength is in units of the level. */
MULTIVERSION static void mark(const float *z, const float *widest, size_t count, float level, uint8_t *set,
                              float *strength) {
    float factor = 1 / level;
    for (size_t i = 0; i < count; i++)
        set[i] |= (z[i] > EDGE * widest[i]) & (z[i] > level);
    for (size_t i = 0; strength && i < count; i++)
        strength[i] = strength[i] > z[i] * factor ? strength[i] : z[i] * factor;
}

/* Subtracts the background if that makes the usual values narrower: the slopes of a large ice crystal are not
 * illumination. */
static void flatten(struct contamination *c, double diameter) {
    double fit[BACKGROUND_TERMS];
    float middle, spread, flat;
    background_fit(c->map, c->nx, c->ny, fit);
    sum_table(c->map, false, NULL, c->nx, c->ny, c->sums);
    box_means(c, half_of(diameter));
    contamination_usual(c->bins, c->mean, pixels_of(c), true, &middle, &spread);
    background_subtract(fit, c->mean, c->nx, c->ny);
    contamination_usual(c->bins, c->mean, pixels_of(c), true, &middle, &flat);
    if (!(flat < spread)) return;
    background_subtract(fit, c->map, c->nx, c->ny);
    sum_table(c->map, false, NULL, c->nx, c->ny, c->sums);
}

/* Marks what differs from the usual in the boxes of one scale. */
static void mark_scale(struct contamination *c, int scale, double diameter) {
    int half = half_of(BOXES[scale] * diameter);
    float middle, spread, threshold = (float)c->options.threshold, level = threshold * LEVELS[scale];
    box_means(c, half);
    contamination_usual(c->bins, c->mean, pixels_of(c), true, &middle, &spread);
    score(c->mean, pixels_of(c), middle, 1 / spread);
    maximum(c, half);
    mark(c->mean, c->widest, pixels_of(c), level, c->seed, c->strength);
    if (scale == GROWTH) mark(c->mean, c->widest, pixels_of(c), LEVEL * threshold, c->grown, NULL);
}

/* Sets out[] where any pixel within ±half is set (is_set) or not set (otherwise). */
static void near(struct contamination *c, const uint8_t *set, bool is_set, int half, uint8_t *out) {
    sum_table(NULL, false, set, c->nx, c->ny, c->counts);
    for (int y = 0; y < c->ny; y++) {
        double *sums = c->lines[0];
        box_row(c->counts, c->nx, c->ny, y, half, c->lines[CONTAMINATION_LINES], sums);
        for (int x = 0; x < c->nx; x++)
            out[(size_t)y * c->nx + x] = is_set ? sums[x] < box_count(c->nx, c->ny, x, y, half) - 0.5 : sums[x] > 0.5;
    }
}

/* Marks unmarked regions that are rougher than the rest over more than a particle's width. */
static void mark_rough(struct contamination *c, double diameter) {
    int nx = c->nx, ny = c->ny, half = half_of(diameter) > 0 ? half_of(diameter) : 1;
    size_t count = 0;
    near(c, c->seed, true, EDGE_WIDTH, c->rough);
    sum_table(c->map, false, c->rough, nx, ny, c->sums);
    sum_table(c->map, true, c->rough, nx, ny, c->squares);
    sum_table(NULL, false, c->rough, nx, ny, c->counts);
    for (int y = 0; y < ny; y++) {
        double *const *l = c->lines;
        box_row(c->counts, nx, ny, y, half, l[CONTAMINATION_LINES], l[0]);
        box_row(c->sums, nx, ny, y, half, l[CONTAMINATION_LINES], l[1]);
        box_row(c->squares, nx, ny, y, half, l[CONTAMINATION_LINES], l[2]);
        for (int x = 0; x < nx; x++) {
            double n = l[0][x] > 1 ? 1 / l[0][x] : 1, mean = l[1][x] * n, variance = l[2][x] * n - mean * mean;
            size_t at = (size_t)y * nx + x;
            bool known = !c->seed[at] && 2 * l[0][x] > box_count(nx, ny, x, y, half) && variance > 1e-12;
            c->mean[at] = known ? logf((float)variance) : -INFINITY;
            if (known) c->values[count++] = c->mean[at];
        }
    }
    if (count < 100) return;
    float middle, spread;
    contamination_usual(c->bins, c->values, count, false, &middle, &spread);
    float level =
        (float)fmax(middle + ROUGH_LEVEL * spread, quantile_rank(c->values, count, count / 2) + log(ROUGH_RATIO));
    for (size_t i = 0; i < pixels_of(c); i++)
        c->rough[i] = c->mean[i] > level || c->seed[i];
    /* Marks whole squares of that width that are rough everywhere. */
    half = half_of(ROUGH_WIDTH * diameter) > 0 ? half_of(ROUGH_WIDTH * diameter) : 1;
    near(c, c->rough, false, half, c->grown);
    near(c, c->grown, false, half, c->rough_core);
    for (size_t i = 0; i < pixels_of(c); i++)
        c->seed[i] |= c->rough[i] & c->rough_core[i];
}

static void mark_islands(struct contamination *c) {
    int count = regions_label(c->seed, 0, c->nx, c->ny, c->labels, c->stack), most = 0;
    contamination_measure(c, count);
    for (int k = 1; k <= count; k++)
        most = c->area[k] > most ? c->area[k] : most;
    for (size_t i = 0; i < pixels_of(c); i++)
        if (c->labels[i] > 0 && c->area[c->labels[i]] < ISLAND * most) c->seed[i] = 1;
}

double contamination_run(struct contamination *c, const float *map, const struct contamination_area *area,
                         uint8_t *mask) {
    size_t work = (size_t)c->options.work;
    int width = area->x1 - area->x0, height = area->y1 - area->y0;
    memset(mask, 0, work * work);
    if (width < 1 || height < 1) return 0;
    fill_bins(c, map, area);
    double diameter = c->options.diameter / c->bin;
    flatten(c, diameter);
    memset(c->seed, 0, pixels_of(c));
    memset(c->grown, 0, pixels_of(c));
    memset(c->strength, 0, pixels_of(c) * sizeof *c->strength);
    for (int scale = 0; scale < SCALES; scale++)
        mark_scale(c, scale, diameter);
    contamination_spare(c, diameter);
    int steps = (int)(REACH * diameter);
    regions_grow(c->seed, c->grown, c->nx, c->ny, steps > 1 ? steps : 1, c->stack);
    mark_rough(c, diameter);
    mark_islands(c);
    return (double)unbin(c, area, mask) / ((double)width * height);
}
