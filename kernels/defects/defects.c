/* Keeps the bad pixels of a detector, and replaces what they counted. */
#include "kernels/defects/defects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/defects/defects_private.h"

void defects_destroy(struct defects **defects) {
    if (defects == NULL || *defects == NULL) return;
    free((*defects)->mask);
    free((*defects)->found);
    free((*defects)->sum);
    free((*defects)->scratch);
    mem_free(defects);
}

size_t defects_bytes(int nx, int ny) {
    return sizeof(struct defects) + mem_bytes((size_t)nx * (size_t)ny, 2 * sizeof(uint8_t) + sizeof(float));
}

enum status defects_create(int nx, int ny, struct defects **ret_defects, struct err *err) {
    FAIL_IF(nx < 1 || ny < 1, err, STATUS_BAD_ARGUMENT, "a detector cannot have %d × %d pixels", nx, ny);
    _cleanup_(defects_destroy) struct defects *d = calloc(1, sizeof *d);
    FAIL_IF(d == NULL, err, STATUS_NO_MEMORY, "no memory for the bad pixels of a detector");
    d->nx = nx;
    d->ny = ny;
    TRY(mem_new((size_t)nx * (size_t)ny, sizeof *d->mask, "the bad pixels of a detector", &d->mask, err));
    TRY(mem_new((size_t)nx * (size_t)ny, sizeof *d->found, "the bad pixels of a movie", &d->found, err));
    TRY(mem_new((size_t)nx * (size_t)ny, sizeof *d->sum, "the sum of a movie's frames", &d->sum, err));
    *ret_defects = d;
    d = NULL;
    return STATUS_OK;
}

const uint8_t *defects_mask(const struct defects *defects) {
    return defects->mask;
}

const float *defects_sum(const struct defects *defects) {
    return defects->sum;
}

static bool positive(float value) {
    return value > 0 && isfinite(value);
}

void defects_add_gain(struct defects *d, const float *gain) {
    const double most = 5;
    size_t pixels = (size_t)d->nx * (size_t)d->ny, good = 0;
    double sum = 0;
    for (size_t i = 0; i < pixels; i++)
        if (positive(gain[i])) {
            sum += (double)gain[i];
            good++;
        }
    double mean = good > 0 ? sum / (double)good : 0;
    for (size_t i = 0; i < pixels; i++)
        if (!positive(gain[i]) || (double)gain[i] > most * mean || (double)gain[i] * most < mean)
            d->mask[i] |= DEFECT_GAIN;
}

void defects_add_map(struct defects *d, const uint8_t *map) {
    for (size_t i = 0; i < (size_t)d->nx * (size_t)d->ny; i++)
        if (map[i] != 0) d->mask[i] |= DEFECT_LISTED;
}

/* ---- neighbours ---- */

/* More than LEAST good pixels must be near; else the search goes on in a wider square. */
enum { LEAST = 6, NEAREST = 2, FARTHEST = 16, MOST = (2 * FARTHEST + 1) * (2 * FARTHEST + 1) };

static int good_within(const struct defects *d, int x, int y, int reach, size_t found[MOST]) {
    int count = 0;
    for (int v = y > reach ? y - reach : 0; v <= y + reach && v < d->ny; v++)
        for (int u = x > reach ? x - reach : 0; u <= x + reach && u < d->nx; u++) {
            size_t at = (size_t)v * (size_t)d->nx + (size_t)u;
            if (d->mask[at] == 0) found[count++] = at;
        }
    return count;
}

/* Finds the good pixels around a bad one. Returns their number: 0 in the middle of a large bad area. */
static int neighbours(const struct defects *d, int x, int y, size_t found[MOST]) {
    int count = 0;
    for (int reach = NEAREST; reach <= FARTHEST && count <= LEAST; reach *= 2)
        count = good_within(d, x, y, reach, found);
    return count;
}

void defects_repair_gain(const struct defects *d, float *gain) {
    size_t found[MOST], good = 0;
    double total = 0;
    for (size_t i = 0; i < (size_t)d->nx * (size_t)d->ny; i++)
        if (d->mask[i] == 0) {
            total += (double)gain[i];
            good++;
        }
    for (int y = 0; y < d->ny; y++)
        for (int x = 0; x < d->nx; x++) {
            size_t at = (size_t)y * (size_t)d->nx + (size_t)x;
            if (d->mask[at] == 0) continue;
            double sum = 0;
            int count = neighbours(d, x, y, found);
            for (int i = 0; i < count; i++)
                sum += (double)gain[found[i]];
            gain[at] = (float)(count > 0 ? sum / count : good > 0 ? total / (double)good : 1);
        }
}

/* ---- repair ---- */

/* splitmix64 (Steele et al. 2014): any counter gives an independent value, so pixels can be repaired in any order. */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Draws a good pixel from the whole detector. Returns `at` when there is hardly any. */
static size_t draw_anywhere(const struct defects *d, size_t at, uint64_t chance) {
    size_t pixels = (size_t)d->nx * (size_t)d->ny;
    for (int i = 0; i < 64; i++) {
        chance = mix(chance);
        if (d->mask[chance % pixels] == 0) return chance % pixels;
    }
    return at;
}

/* Rounds up or down, so that the mean is `value`. */
static float round_at_random(float value, uint64_t chance, float most) {
    float whole = floorf(value), rounded = whole + ((float)(chance >> 40) * 0x1p-24f < value - whole ? 1.0f : 0.0f);
    return rounded < most ? rounded : most;
}

/* Copies the count of pixel `from`, on the scale of the gain at pixel `at`. */
static void copy_count(const struct motion_frames *frames, void *frame, size_t at, size_t from, uint64_t chance) {
    float scale = 1;
    if (frames->gain != NULL && positive(frames->gain[at])) scale = frames->gain[from] / frames->gain[at];
    if (frames->pixels == MOTION_U8) {
        uint8_t *counts = frame;
        counts[at] = (uint8_t)round_at_random((float)counts[from] * scale, chance, UINT8_MAX);
    } else if (frames->pixels == MOTION_U16) {
        uint16_t *counts = frame;
        counts[at] = (uint16_t)round_at_random((float)counts[from] * scale, chance, UINT16_MAX);
    } else {
        float *counts = frame;
        counts[at] = counts[from] * scale;
    }
}

static void repair_row(const struct defects *d, const struct motion_frames *frames, int y, uint64_t seed) {
    size_t found[MOST];
    for (int x = 0; x < d->nx; x++) {
        size_t at = (size_t)y * (size_t)d->nx + (size_t)x;
        if (d->mask[at] == 0) continue;
        int count = neighbours(d, x, y, found);
        for (int f = 0; f < frames->count; f++) {
            uint64_t chance = mix(seed ^ mix((uint64_t)at * (uint64_t)frames->count + (uint64_t)f));
            size_t from = count > 0 ? found[(chance & UINT32_MAX) % (uint64_t)count] : draw_anywhere(d, at, chance);
            if (from != at) copy_count(frames, frames->frame[f], at, from, mix(chance));
        }
    }
}

void defects_repair(const struct defects *d, const struct motion_frames *frames, int threads, uint64_t seed) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 16)
    for (int y = 0; y < d->ny; y++)
        repair_row(d, frames, y, seed);
}
