#include "stages/lowpass-picker/picker.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/fourier/window.h"
#include "kernels/normalise/normalise.h"
#include "stages/lowpass-picker/picker_private.h"
#include "stages/lowpass-picker/threshold.h"

/* z-scores beyond this are dead pixels and gold. */
static const double OUTLIERS = 8;
/* Of the diameter: touching particles stay two, even where the diameter is a third too large, and the side peaks of one
 * do not become more. */
static const double MIN_DISTANCE = 0.7;

void pick_list_destroy(struct pick_list *list) {
    free(list->items);
    *list = (struct pick_list){0};
}

enum status picker_allocate(struct picker *p, struct err *err) {
    size_t size = (size_t)p->size, work = (size_t)p->work, maps = (size_t)p->template_count * work * work;
    TRY(mem_new(size * size, sizeof(float), "micrograph", &p->square, err));
    TRY(mem_new(size * (size + 2), sizeof(float), "micrograph transform", &p->half, err));
    TRY(mem_new(work * (work + 2), sizeof(float), "micrograph transform", &p->image, err));
    TRY(mem_new(work * (work + 2), sizeof(float), "micrograph transform", &p->image2, err));
    TRY(mem_new(maps, sizeof(float), "figures of merit", &p->merit, err));
    TRY(mem_new(maps, sizeof(uint16_t), "best rotations", &p->rotation, err));
    TRY(mem_new(work * work, sizeof(uint8_t), "contamination", &p->bad, err));
    TRY(mem_new(work * work, sizeof(float), "order statistics", &p->sorted, err));
    struct fft_options options = {
        .rank = 2, .shape = {p->size, p->size}, .direction = FFT_FORWARD, .threads = p->settings.threads};
    return fft_create(&options, &p->forward, err);
}

static enum status build(struct picker *p, const struct picker_templates *templates, struct err *err) {
    const struct picker_settings *s = &p->settings;
    FAIL_IF(!(s->pixel_size > 0), err, STATUS_BAD_ARGUMENT, "the micrographs' pixel size is %g Å: set pixel_size",
            s->pixel_size);
    FAIL_IF(p->nx < 16 || p->ny < 16 || p->nx > 32000 || p->ny > 32000, err, STATUS_UNSUPPORTED,
            "a micrograph of %d × %d px: from 16 to 32000 can be picked", p->nx, p->ny);
    p->size = fft_good_size(p->nx > p->ny ? p->nx : p->ny);
    p->work = p->size;
    /* The low-pass is the Nyquist frequency of the work size. */
    if (s->lowpass > 0) {
        int work = fft_good_size(2 * (int)lround(p->size * s->pixel_size / s->lowpass));
        if (work < p->size) p->work = work < 16 ? 16 : work;
    }
    p->scale = (double)p->work / p->size;
    p->scores = s->method == PICKER_LOG || isnan(s->threshold);
    p->rotations = (int)lround(360 / s->angle_step);
    if (p->rotations < 1) p->rotations = 1;
    TRY(s->method == PICKER_TEMPLATE ? picker_template_create(p, templates, err) : picker_log_create(p, err));
    p->min_distance = isnan(s->min_distance) ? MIN_DISTANCE * p->diameter : s->min_distance / s->pixel_size;
    return STATUS_OK;
}

enum status picker_create(const struct picker_settings *settings, const struct picker_templates *templates, int nx,
                          int ny, struct picker **ret_picker, struct err *err) {
    struct picker *p = NULL;
    TRY(mem_new(1, sizeof *p, "picker", &p, err));
    p->settings = *settings;
    if (p->settings.threads < 1) p->settings.threads = 1;
    p->nx = nx;
    p->ny = ny;
    enum status status = build(p, templates, err);
    if (status != STATUS_OK) {
        picker_destroy(&p);
        return status;
    }
    *ret_picker = p;
    return STATUS_OK;
}

void picker_destroy(struct picker **picker) {
    struct picker *p = *picker;
    if (!p) return;
    float *buffers[] = {p->square, p->half, p->image, p->image2,  p->merit,  p->sorted,
                        p->mu,     p->sigma, p->best,  p->ctf, p->product, p->rotated};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
    free(p->rotation);
    free(p->bad);
    free(p->terms);
    free(p->terms_here);
    fft_destroy(&p->forward);
    peak_list_destroy(&p->peaks);
    template_spectra_destroy(&p->spectra);
    local_stats_destroy(&p->stats);
    correlate_destroy(&p->correlate);
    merit_window_destroy(&p->window);
    mem_free(picker);
}

struct peak_search picker_search(const struct picker *p, float threshold) {
    int x = normalise_offset(p->size, p->nx), y = normalise_offset(p->size, p->ny);
    return (struct peak_search){
        .nx = p->work,
        .ny = p->work,
        .x0 = (int)ceil((x + p->border) * p->scale),
        .y0 = (int)ceil((y + p->border) * p->scale),
        .x1 = (int)floor((x + p->nx - 1 - p->border) * p->scale) + 1,
        .y1 = (int)floor((y + p->ny - 1 - p->border) * p->scale) + 1,
        .threshold = threshold,
        .bad = p->bad,
        .fractional = p->settings.prune == PICKER_PRUNE_GREEDY,
        .all_neighbours = p->settings.prune == PICKER_PRUNE_RELION && p->scale >= 1,
    };
}

static int ascending(const void *a, const void *b) {
    float p = *(const float *)a, q = *(const float *)b;
    return (p > q) - (p < q);
}

void picker_robust(struct picker *p, const float *map, float *ret_median, float *ret_deviation) {
    struct peak_search s = picker_search(p, 0);
    size_t count = 0;
    for (int y = s.y0; y < s.y1; y++)
        for (int x = s.x0; x < s.x1; x++)
            if (!p->bad[(size_t)y * p->work + x]) p->sorted[count++] = map[(size_t)y * p->work + x];
    *ret_median = *ret_deviation = 0;
    if (count == 0) return;
    qsort(p->sorted, count, sizeof *p->sorted, ascending);
    float median = p->sorted[count / 2];
    for (size_t i = 0; i < count; i++)
        p->sorted[i] = fabsf(p->sorted[i] - median);
    qsort(p->sorted, count, sizeof *p->sorted, ascending);
    *ret_median = median;
    *ret_deviation = 1.4826f * p->sorted[count / 2];
}

MULTIVERSION static void square_values(float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] *= values[i];
}

/* I and I² as transforms at the work size; whether there is anything in the micrograph. */
static bool prepare(struct picker *p, const float *micrograph, uint64_t seed) {
    size_t pixels = (size_t)p->size * p->size;
    float factor = 1.0f / (float)pixels;
    float deviation =
        normalise_micrograph(micrograph, p->nx, p->ny, OUTLIERS, p->size, seed, p->settings.threads, p->square);
    fft_run(p->forward, p->square, p->half);
    fourier_window_crop(p->half, p->size, p->work, factor, p->image);
    picker_template_noise(p);
    square_values(p->square, pixels);
    fft_run(p->forward, p->square, p->half);
    fourier_window_crop(p->half, p->size, p->work, factor, p->image2);
    memset(p->bad, 0, (size_t)p->work * p->work);
    return deviation > 0;
}

/* Peaks of all templates, of close ones the best. */
static enum status find_peaks(struct picker *p, float threshold, struct err *err) {
    size_t pixels = (size_t)p->work * p->work;
    struct peak_search search = picker_search(p, threshold);
    p->peaks.count = 0;
    for (int t = 0; t < p->template_count; t++)
        TRY(peaks_find(&search, p->merit + t * pixels, p->rotation + t * pixels, t, &p->peaks, err));
    double distance = p->min_distance * p->scale, radius = p->diameter / 2 * p->scale;
    if (p->settings.prune == PICKER_PRUNE_GREEDY) {
        peaks_prune_greedy(&p->peaks, distance);
        return STATUS_OK;
    }
    /* One list for all templates: pruning each first and then all leaves the same kind of set. */
    TRY(peaks_prune_clusters(&p->peaks, radius, distance, err));
    return peaks_drop_close_pairs(&p->peaks, distance, err);
}

static enum status report(const struct picker *p, float threshold, struct pick_list *picks, struct err *err) {
    if (picks->capacity < p->peaks.count) {
        struct pick *items = realloc(picks->items, 2 * p->peaks.count * sizeof *items);
        FAIL_IF(items == NULL, err, STATUS_NO_MEMORY, "no memory for %zu picks", p->peaks.count);
        picks->items = items;
        picks->capacity = 2 * p->peaks.count;
    }
    bool templates = p->settings.method == PICKER_TEMPLATE, scores = templates && p->scores;
    picks->count = 0;
    picks->scale = scores ? picker_template_scale(p, &p->peaks) : 1;
    picks->threshold = scores && isfinite(threshold) ? picker_template_merit(p, 0, picks->scale, threshold) : threshold;
    int x = normalise_offset(p->size, p->nx), y = normalise_offset(p->size, p->ny);
    for (size_t i = 0; i < p->peaks.count; i++) {
        const struct peak *peak = &p->peaks.items[i];
        if (!(peak->merit >= threshold)) continue;
        picks->items[picks->count++] = (struct pick){
            .x = (float)(peak->x / p->scale - x),
            .y = (float)(peak->y / p->scale - y),
            .merit = scores ? picker_template_merit(p, peak->template, picks->scale, peak->merit) : peak->merit,
            .psi = templates ? (float)(peak->rotation * 360.0 / p->rotations) : 0,
            .class_number = templates ? peak->template + 1 : 0,
        };
    }
    return STATUS_OK;
}

enum status picker_scores(struct picker *p, const float *merit, const uint16_t *rotation, int count, float threshold,
                          struct peak_list *list, float *ret_scores, size_t *ret_count, struct err *err) {
    size_t pixels = (size_t)p->work * p->work;
    struct peak_search search = picker_search(p, threshold);
    list->count = 0;
    for (int t = 0; t < count; t++)
        TRY(peaks_find(&search, merit + t * pixels, rotation + t * pixels, t, list, err));
    peaks_prune_greedy(list, p->min_distance * p->scale);
    *ret_count = list->count < pixels ? list->count : pixels;
    for (size_t i = 0; i < *ret_count; i++)
        ret_scores[i] = list->items[i].merit;
    return STATUS_OK;
}

static enum status automatic_threshold(struct picker *p, float *ret_threshold, struct err *err) {
    size_t count = 0;
    TRY(picker_scores(p, p->merit, p->rotation, p->template_count, -INFINITY, &p->peaks, p->sorted, &count, err));
    *ret_threshold = threshold_over_noise(p->sorted, count, p->noise);
    return STATUS_OK;
}

enum status picker_run(struct picker *p, const float *micrograph, const struct ctf *ctf, uint64_t seed,
                       struct pick_list *picks, struct err *err) {
    p->peaks.count = 0;
    if (!prepare(p, micrograph, seed)) return report(p, INFINITY, picks, err);
    TRY(picker_template_run(p, p->settings.method == PICKER_TEMPLATE ? ctf : NULL, err));
    float threshold = (float)p->settings.threshold;
    if (isnan(threshold)) TRY(automatic_threshold(p, &threshold, err));
    TRY(find_peaks(p, threshold, err));
    return report(p, threshold, picks, err);
}

struct picker_view picker_view(const struct picker *p) {
    return (struct picker_view){.size = p->size,
                                .work = p->work,
                                .offset_x = normalise_offset(p->size, p->nx),
                                .offset_y = normalise_offset(p->size, p->ny),
                                .diameter = p->diameter,
                                .min_distance = p->min_distance,
                                .template_count = p->template_count,
                                .spectrum = p->image,
                                .merit = p->merit,
                                .rotation = p->rotation,
                                .mu = p->mu,
                                .sigma = p->sigma,
                                .rotations = p->rotations};
}
