#include "stages/lowpass-picker/even_scores.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/contamination/contamination.h"
#include "kernels/normalise/normalise.h"
#include "kernels/quantile/quantile.h"

/* Pixels so many deviations from the median do not belong to the background. */
static const float OUTLIER = 5;
/* A median so many deviations from the densest values is not that of ice. */
static const float FOREIGN = 3;
/* A plane is fitted so often; each time without the outliers of the last one. */
enum { PLANE_FITS = 4 };
/* Widths in particle diameters: of the window in which roughness is measured, and of what counts as rough. */
static const double ROUGH_WINDOW = 4, ROUGH_DETAIL = 0.5;
/* Roughness below the first value is that of particles; from the second on it counts in full. */
static const float ROUGH_LEAST = 1.1f, ROUGH_FULL = 1.3f;
/* Rank of the usual roughness: of ice with fewer particles than elsewhere. */
static const double USUAL = 0.25;
/* A window with a smaller part of background tells nothing. */
static const double KNOWN_LEAST = 0.1;
/* Pixels that give a median and a deviation. */
enum { SAMPLES = 1 << 16 };

struct even_scores {
    int work, count;
    struct contamination_area area; /* of the micrograph on the maps */
    int box, hole;                  /* half widths of the background and of the hole in it for the particle, px */
    int window, detail;             /* half widths, px */
    float ice;                      /* sign of ice beside what absorbs more */
    double *means;                  /* [count] Σ A / n over the circle: the response to a constant */
    double *table;                  /* [(work + 1)²] sums of all values above and to the left */
    uint32_t *counts;               /* [(work + 1)²] */
    float *flat, *background, *roughness, *samples; /* [work²] */
    uint8_t *known;                                 /* [work²] belongs to the background */
    uint32_t *bins;                                 /* [CONTAMINATION_BINS] */
};

static void measure_means(struct even_scores *e, const float *templates, int box, double radius, bool bright) {
    for (int t = 0; t < e->count; t++) {
        double sum = 0;
        int inside = 0;
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                int i = x - box / 2, j = y - box / 2;
                if (i * i + j * j >= radius * radius) continue;
                sum += templates[((size_t)t * box + y) * box + x];
                inside++;
            }
        e->means[t] = (bright ? sum : -sum) / inside;
    }
}

/* Returns the half width, without the middle, of a window of so many px. */
static int half_of(double width) {
    return width < 3 ? 1 : (int)lround(0.5 * (width - 1));
}

static void choose_windows(struct even_scores *e, const struct pick_geometry *g, int box) {
    double scale = (double)g->work / g->size, diameter = g->diameter / g->pixel_size * scale;
    int x = normalise_offset(g->size, g->nx), y = normalise_offset(g->size, g->ny);
    e->area = (struct contamination_area){.x0 = (int)ceil(x * scale),
                                          .y0 = (int)ceil(y * scale),
                                          .x1 = (int)fmin(g->work, floor((x + g->nx) * scale)),
                                          .y1 = (int)fmin(g->work, floor((y + g->ny) * scale))};
    e->hole = half_of(sqrt(M_PI) * g->radius * scale); /* as large as the particle's circle */
    e->box = half_of(box * scale);
    if (e->box <= e->hole) e->box = e->hole + 1;
    e->window = half_of(ROUGH_WINDOW * diameter);
    e->detail = half_of(ROUGH_DETAIL * diameter);
}

enum status even_scores_create(const struct pick_geometry *g, const float *templates, int box, int count,
                               struct even_scores **ret_even, struct err *err) {
    struct even_scores *e = NULL;
    size_t pixels = (size_t)g->work * g->work, table = ((size_t)g->work + 1) * ((size_t)g->work + 1);
    TRY(mem_new(1, sizeof *e, "scores", &e, err));
    *ret_even = e;
    e->work = g->work;
    e->count = count;
    e->ice = g->bright ? -1 : 1;
    choose_windows(e, g, box);
    TRY(mem_new((size_t)count, sizeof *e->means, "scores", &e->means, err));
    TRY(mem_new(table, sizeof *e->table, "scores", &e->table, err));
    TRY(mem_new(table, sizeof *e->counts, "scores", &e->counts, err));
    TRY(mem_new(pixels, sizeof *e->flat, "scores", &e->flat, err));
    TRY(mem_new(pixels, sizeof *e->background, "scores", &e->background, err));
    TRY(mem_new(pixels, sizeof *e->roughness, "scores", &e->roughness, err));
    TRY(mem_new(pixels, sizeof *e->samples, "scores", &e->samples, err));
    TRY(mem_new(pixels, sizeof *e->known, "scores", &e->known, err));
    TRY(mem_new(CONTAMINATION_BINS, sizeof *e->bins, "scores", &e->bins, err));
    measure_means(e, templates, box, g->radius, g->bright);
    return STATUS_OK;
}

void even_scores_destroy(struct even_scores **even) {
    struct even_scores *e = *even;
    if (!e) return;
    void *buffers[] = {e->means,     e->table,   e->counts, e->flat, e->background,
                       e->roughness, e->samples, e->known,  e->bins};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
    mem_free(even);
}

/* Fills the samples with a map's known pixels; known: NULL for all. Returns their number. */
static size_t sample(const struct even_scores *e, const float *map, const uint8_t *known) {
    const struct contamination_area *a = &e->area;
    size_t count = 0;
    int step = 1 + (int)sqrt((double)(a->x1 - a->x0) * (a->y1 - a->y0) / SAMPLES);
    for (int y = a->y0; y < a->y1; y += step)
        for (int x = a->x0; x < a->x1; x += step) {
            size_t at = (size_t)y * e->work + x;
            if (known == NULL || known[at]) e->samples[count++] = map[at];
        }
    return count;
}

/* A plane about the middle of the area. */
struct plane {
    double level, x, y;
};

static double plane_at(const struct even_scores *e, const struct plane *p, int x, int y) {
    const struct contamination_area *a = &e->area;
    return p->level + p->x * (x - 0.5 * (a->x0 + a->x1 - 1)) + p->y * (y - 0.5 * (a->y0 + a->y1 - 1));
}

/* Adds to `plane` the plane of least squares through the known pixels of the flat map. */
static void add_plane(const struct even_scores *e, struct plane *plane) {
    const struct contamination_area *a = &e->area;
    const struct plane unit_x = {.x = 1}, unit_y = {.y = 1};
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0, s = 0, sxv = 0, syv = 0;
    for (int y = a->y0; y < a->y1; y++)
        for (int x = a->x0; x < a->x1; x++) {
            size_t at = (size_t)y * e->work + x;
            if (!e->known[at]) continue;
            double i = plane_at(e, &unit_x, x, y), j = plane_at(e, &unit_y, x, y), v = e->flat[at];
            n += 1, sx += i, sy += j, sxx += i * i, sxy += i * j, syy += j * j, s += v, sxv += i * v, syv += j * v;
        }
    if (n < 3) return;
    double xx = sxx - sx * sx / n, xy = sxy - sx * sy / n, yy = syy - sy * sy / n, xv = sxv - sx * s / n,
           yv = syv - sy * s / n, determinant = xx * yy - xy * xy;
    double dx = 0, dy = 0;
    if (determinant > 1e-6 * xx * yy) {
        dx = (xv * yy - yv * xy) / determinant;
        dy = (yv * xx - xv * xy) / determinant;
    }
    plane->x += dx;
    plane->y += dy;
    plane->level += (s - dx * sx - dy * sy) / n;
}

/* Finds the usual value of the flat map, and how much it deviates. Where gold or carbon hold the median, the usual value
 * is that of ice all the same. */
static void find_usual(struct even_scores *e, float *ret_median, float *ret_deviation) {
    float middle, spread;
    size_t count = sample(e, e->flat, NULL);
    for (size_t i = 0; i < count; i++)
        e->samples[i] *= e->ice;
    if (count > 0) contamination_usual(e->bins, e->samples, count, true, &middle, &spread);
    quantile_robust(e->samples, count, ret_median, ret_deviation);
    *ret_median *= e->ice;
    if (count == 0) return;
    float off = fabsf(e->ice * middle - *ret_median);
    if (off < FOREIGN * spread) return;
    *ret_median = e->ice * middle;
    *ret_deviation = fminf(spread, 0.5f / OUTLIER * off); /* what is nearer to the median is no ice */
}

/* Fills the flat map, image less plane, and marks the pixels that are background. */
static struct plane flatten(struct even_scores *e, const float *image) {
    const struct contamination_area *a = &e->area;
    struct plane plane = {0};
    for (int fit = 0; fit <= PLANE_FITS; fit++) {
        float median, deviation;
        for (int y = a->y0; y < a->y1; y++)
            for (int x = a->x0; x < a->x1; x++) {
                size_t at = (size_t)y * e->work + x;
                e->flat[at] = image[at] - (float)plane_at(e, &plane, x, y);
            }
        find_usual(e, &median, &deviation);
        for (int y = a->y0; y < a->y1; y++)
            for (int x = a->x0; x < a->x1; x++) {
                size_t at = (size_t)y * e->work + x;
                e->known[at] = fabsf(e->flat[at] - median) <= OUTLIER * deviation;
            }
        if (fit < PLANE_FITS) add_plane(e, &plane);
    }
    return plane;
}

/* Fills the table with sums of the map's known pixels. */
static void sum_values(struct even_scores *e, const float *map) {
    const struct contamination_area *a = &e->area;
    size_t stride = (size_t)e->work + 1;
    for (int y = a->y0; y < a->y1; y++) {
        double row = 0;
        for (int x = a->x0; x < a->x1; x++) {
            size_t at = (size_t)y * e->work + x, above = (size_t)y * stride + x + 1;
            row += e->known[at] ? map[at] : 0;
            e->table[above + stride] = row + (y > a->y0 ? e->table[above] : 0);
        }
    }
}

static void sum_counts(struct even_scores *e) {
    const struct contamination_area *a = &e->area;
    size_t stride = (size_t)e->work + 1;
    for (int y = a->y0; y < a->y1; y++) {
        uint32_t row = 0;
        for (int x = a->x0; x < a->x1; x++) {
            size_t above = (size_t)y * stride + x + 1;
            row += e->known[(size_t)y * e->work + x];
            e->counts[above + stride] = row + (y > a->y0 ? e->counts[above] : 0);
        }
    }
}

struct sum {
    double value, count;
    int pixels;
};

/* Returns the sum over the part of a window that lies in the micrograph. */
static struct sum sum_around(const struct even_scores *e, int x, int y, int half) {
    const struct contamination_area *a = &e->area;
    int x0 = x - half > a->x0 ? x - half : a->x0, x1 = x + half + 1 < a->x1 ? x + half + 1 : a->x1;
    int y0 = y - half > a->y0 ? y - half : a->y0, y1 = y + half + 1 < a->y1 ? y + half + 1 : a->y1;
    size_t stride = (size_t)e->work + 1, low = (size_t)y1 * stride, high = (size_t)y0 * stride;
    bool left = x0 > a->x0, top = y0 > a->y0;
    return (struct sum){
        .value = e->table[low + x1] - (left ? e->table[low + x0] : 0) - (top ? e->table[high + x1] : 0) +
                 (left && top ? e->table[high + x0] : 0),
        .count = (double)e->counts[low + x1] - (left ? e->counts[low + x0] : 0) - (top ? e->counts[high + x1] : 0) +
                 (left && top ? e->counts[high + x0] : 0),
        .pixels = (x1 - x0) * (y1 - y0),
    };
}

/* Fills the background: the plane and the mean around the particle. */
static void fill_background(struct even_scores *e, const struct plane *plane) {
    const struct contamination_area *a = &e->area;
    for (int y = a->y0; y < a->y1; y++)
        for (int x = a->x0; x < a->x1; x++) {
            struct sum all = sum_around(e, x, y, e->box), hole = sum_around(e, x, y, e->hole);
            double count = all.count - hole.count, mean = 0;
            if (count > KNOWN_LEAST * (all.pixels - hole.pixels)) mean = (all.value - hole.value) / count;
            e->background[(size_t)y * e->work + x] = (float)(plane_at(e, plane, x, y) + mean);
        }
}

/* Returns the factor by which noise is greater where the roughness is so many times the usual. */
static float factor_of(float roughness) {
    float counts = (roughness - ROUGH_LEAST) / (ROUGH_FULL - ROUGH_LEAST);
    return 1 + (roughness - 1) * fminf(fmaxf(counts, 0), 1);
}

/* Fills the roughness: how much the detail of the background deviates, relative to the usual; at least 1. */
static void fill_roughness(struct even_scores *e) {
    const struct contamination_area *a = &e->area;
    for (int y = a->y0; y < a->y1; y++)
        for (int x = a->x0; x < a->x1; x++) {
            size_t at = (size_t)y * e->work + x;
            struct sum s = sum_around(e, x, y, e->detail);
            float off = e->flat[at] - (float)(s.count > 0 ? s.value / s.count : 0);
            e->roughness[at] = off * off;
        }
    sum_values(e, e->roughness);
    for (int y = a->y0; y < a->y1; y++)
        for (int x = a->x0; x < a->x1; x++) {
            struct sum s = sum_around(e, x, y, e->window);
            bool known = s.count > KNOWN_LEAST * s.pixels;
            e->roughness[(size_t)y * e->work + x] = known ? (float)sqrt(fmax(s.value, 0) / s.count) : 0;
        }
    size_t count = sample(e, e->roughness, e->known);
    float usual = count > 0 ? quantile_rank(e->samples, count, (size_t)(USUAL * (double)count)) : 0;
    for (int y = a->y0; y < a->y1; y++)
        for (int x = a->x0; x < a->x1; x++) {
            size_t at = (size_t)y * e->work + x;
            e->roughness[at] = usual > 0 ? factor_of(e->roughness[at] / usual) : 1;
        }
}

void even_scores_run(struct even_scores *e, struct pick_maps *maps) {
    struct search_maps *m = &maps->maps;
    const struct contamination_area *a = &e->area;
    size_t pixels = (size_t)e->work * e->work;
    float sigma, spread;
    if (!(m->deviation > 0)) return;
    struct plane plane = flatten(e, m->image);
    size_t known = sample(e, m->sigma, e->known);
    if (known == 0) return;
    quantile_robust(e->samples, known, &sigma, &spread);
    if (!(sigma > 0)) return;
    sum_counts(e);
    sum_values(e, e->flat);
    fill_background(e, &plane);
    fill_roughness(e);
    for (int t = 0; t < e->count; t++) {
        /* The correlation with the template is what the search's score was made of. */
        double root = sqrt(m->terms[t].power);
        if (!(root > 0)) continue;
        float mean = (float)(m->terms[t].mean / root), own = (float)(e->means[t] / root);
        for (int y = a->y0; y < a->y1; y++)
            for (int x = a->x0; x < a->x1; x++) {
                size_t at = (size_t)y * e->work + x;
                float *score = &m->scores[t * pixels + at];
                float correlation = *score * m->sigma[at] + m->mu[at] * mean;
                *score = (correlation - e->background[at] * own) / (sigma * e->roughness[at]);
            }
    }
    search_maps_combine(m);
}
