/* Makes the plan, and what the groups have in common. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/drop_features/drop_features_private.h"
#include "kernels/quantile/quantile.h"

enum { ANGLES = 36 };

static enum status make_buffers(struct drop_features *plan, struct err *err) {
    size_t area = (size_t)plan->side * (size_t)plan->side;
    TRY(mem_new(area, sizeof(int), "a drop", &plan->inside, err));
    TRY(mem_new(area, sizeof(int), "a drop", &plan->label, err));
    TRY(mem_new(2 * area, sizeof(int), "a drop", &plan->queue, err));
    TRY(mem_new(area, 1, "a drop", &plan->is_inside, err));
    TRY(mem_new(area, sizeof(float), "a drop", &plan->grey, err));
    TRY(mem_new(area, sizeof(float), "a drop", &plan->values, err));
    TRY(mem_new(area, sizeof(float), "a drop", &plan->sorted, err));
    TRY(mem_new((size_t)ANGLES * (size_t)(plan->side + 2), sizeof(int), "a drop's lines", &plan->votes, err));
    for (int i = 0; i < DROP_PLANES; i++)
        TRY(mem_new(area, sizeof(float), "a drop", &plan->plane[i], err));
    return STATUS_OK;
}

enum status drop_features_create(int diameter, struct drop_features **ret_plan, struct err *err) {
    FAIL_IF(diameter < 16 || diameter > 4096, err, STATUS_BAD_ARGUMENT,
            "the circle that is evaluated must be 16 to 4096 px wide, not %d", diameter);
    _cleanup_(drop_features_destroy) struct drop_features *plan = calloc(1, sizeof *plan);
    FAIL_IF(plan == NULL, err, STATUS_NO_MEMORY, "no memory for the features of a drop");
    plan->diameter = diameter;
    plan->radius = diameter / 2;
    plan->side = 2 * (plan->radius + DROP_MARGIN) + 1;
    TRY(make_buffers(plan, err));
    int middle = plan->side / 2;
    for (int y = 0; y < plan->side; y++)
        for (int x = 0; x < plan->side; x++) {
            int dx = x - middle, dy = y - middle;
            if (4 * (dx * dx + dy * dy) > diameter * diameter) continue;
            plan->is_inside[y * plan->side + x] = 1;
            plan->inside[plan->count++] = y * plan->side + x;
        }
    *ret_plan = plan;
    plan = NULL;
    return STATUS_OK;
}

void drop_features_destroy(struct drop_features **address) {
    struct drop_features *plan = *address;
    if (plan == NULL) return;
    free(plan->inside);
    free(plan->label);
    free(plan->queue);
    free(plan->is_inside);
    free(plan->grey);
    free(plan->values);
    free(plan->sorted);
    free(plan->votes);
    for (int i = 0; i < DROP_PLANES; i++)
        free(plan->plane[i]);
    free(plan);
    *address = NULL;
}

/* One pass of the filter: line after line, each `step` apart from the next pixel of a line. If step is a row, lines are
 * neighbours in memory, and vector instructions run over them. */
MULTIVERSION static void blur_rows(const float *restrict in, float *restrict out, int side, const float *weights,
                                   int reach) {
    for (int y = 0; y < side; y++) {
        float *to = out + (size_t)y * (size_t)side;
        for (int x = 0; x < side; x++)
            to[x] = weights[0] * in[(size_t)y * (size_t)side + (size_t)x];
        for (int k = 1; k <= reach; k++) {
            const float *above = in + (size_t)(y - k < 0 ? 0 : y - k) * (size_t)side;
            const float *below = in + (size_t)(y + k >= side ? side - 1 : y + k) * (size_t)side;
            for (int x = 0; x < side; x++)
                to[x] += weights[k] * (above[x] + below[x]);
        }
    }
}

static void transpose(const float *in, float *out, int side) {
    enum { TILE = 16 };
    for (int y0 = 0; y0 < side; y0 += TILE)
        for (int x0 = 0; x0 < side; x0 += TILE)
            for (int y = y0; y < y0 + TILE && y < side; y++)
                for (int x = x0; x < x0 + TILE && x < side; x++)
                    out[x * side + y] = in[y * side + x];
}

void drop_blur(const struct drop_features *plan, const float *in, float *out, float *scratch, float sigma) {
    float weights[DROP_REACH_MAX + 1];
    double sum = 0;
    int reach = (int)ceilf(4 * sigma);
    if (reach > DROP_REACH_MAX) reach = DROP_REACH_MAX;
    for (int k = 0; k <= reach; k++) {
        weights[k] = expf(-0.5F * (float)(k * k) / (sigma * sigma));
        sum += (k == 0 ? 1 : 2) * (double)weights[k];
    }
    for (int k = 0; k <= reach; k++)
        weights[k] = (float)((double)weights[k] / sum);
    blur_rows(in, scratch, plan->side, weights, reach);
    transpose(scratch, out, plan->side);
    blur_rows(out, scratch, plan->side, weights, reach);
    transpose(scratch, out, plan->side);
}

MULTIVERSION void drop_sobel(const struct drop_features *plan, const float *in, float *ret_x, float *ret_y) {
    int side = plan->side;
    memset(ret_x, 0, (size_t)side * (size_t)side * sizeof *ret_x);
    memset(ret_y, 0, (size_t)side * (size_t)side * sizeof *ret_y);
    for (int y = 1; y < side - 1; y++)
        for (int x = 1; x < side - 1; x++) {
            const float *p = in + y * side + x;
            float left = p[-side - 1] + 2 * p[-1] + p[side - 1], right = p[-side + 1] + 2 * p[1] + p[side + 1];
            float above = p[-side - 1] + 2 * p[-side] + p[-side + 1], below = p[side - 1] + 2 * p[side] + p[side + 1];
            ret_x[y * side + x] = 0.25F * (right - left);
            ret_y[y * side + x] = 0.25F * (below - above);
        }
}

struct drop_moments drop_moments_of(const float *values, int count) {
    double sum = 0, second = 0, third = 0, fourth = 0;
    if (count == 0) return (struct drop_moments){0};
    for (int i = 0; i < count; i++)
        sum += (double)values[i];
    double mean = sum / count;
    for (int i = 0; i < count; i++) {
        double d = (double)values[i] - mean, square = d * d;
        second += square;
        third += square * d;
        fourth += square * square;
    }
    second /= count;
    /* A variance this small is the rounding of a constant. */
    if (second <= 1e-12 * mean * mean) return (struct drop_moments){.mean = mean};
    return (struct drop_moments){mean, sqrt(second), third / count / (second * sqrt(second)),
                                 fourth / count / (second * second) - 3};
}

void drop_gather(struct drop_features *plan, const float *plane) {
    for (int i = 0; i < plan->count; i++)
        plan->values[i] = plane[plan->inside[i]];
}

/* Sorts by digits from the last to the first (radix sort), ten times as fast as by comparisons. Floats are mapped to
 * unsigned integers of the same order. */
void drop_sort(struct drop_features *plan) {
    enum { BITS = 11, BINS = 1 << BITS, PASSES = 3 };
    uint32_t *keys = (uint32_t *)plan->queue, *other = keys + plan->count;
    int starts[PASSES][BINS] = {{0}};
    for (int i = 0; i < plan->count; i++) {
        uint32_t bits;
        memcpy(&bits, &plan->values[i], sizeof bits);
        keys[i] = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
        for (int pass = 0; pass < PASSES; pass++)
            starts[pass][keys[i] >> (pass * BITS) & (BINS - 1)]++;
    }
    for (int pass = 0; pass < PASSES; pass++) {
        for (int bin = 0, sum = 0; bin < BINS; bin++) {
            int count = starts[pass][bin];
            starts[pass][bin] = sum;
            sum += count;
        }
        for (int i = 0; i < plan->count; i++)
            other[starts[pass][keys[i] >> (pass * BITS) & (BINS - 1)]++] = keys[i];
        uint32_t *swap = keys;
        keys = other;
        other = swap;
    }
    for (int i = 0; i < plan->count; i++) {
        uint32_t bits = keys[i] & 0x80000000U ? keys[i] & 0x7fffffffU : ~keys[i];
        memcpy(&plan->sorted[i], &bits, sizeof bits);
    }
}

float drop_quantile(const struct drop_features *plan, double percent) {
    return plan->sorted[(int)(percent / 100 * (plan->count - 1))];
}

static double entropy_of(const int *bins, int count, int total) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        if (bins[i] > 0) sum -= (double)bins[i] / total * log((double)bins[i] / total);
    return sum;
}

void drop_image_statistics(struct drop_features *plan, const float *grey_levels, float *out) {
    enum { FINE = 64, COARSE = 16 };
    static const double percents[] = {1, 5, 25, 50, 75, 95, 99};
    int fine[FINE] = {0};
    drop_gather(plan, grey_levels);
    drop_sort(plan);
    struct drop_moments m = drop_moments_of(plan->values, plan->count);
    float low = plan->sorted[0], high = plan->sorted[plan->count - 1];
    *out++ = (float)m.mean;
    *out++ = (float)m.deviation;
    *out++ = (float)m.skew;
    *out++ = (float)m.kurtosis;
    *out++ = low;
    *out++ = high;
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
        *out++ = drop_quantile(plan, percents[i]);
    for (int i = 0; i < plan->count; i++) {
        int level = high > low ? (int)(FINE * ((plan->values[i] - low) / (high - low))) : 0;
        fine[level < FINE ? level : FINE - 1]++;
    }
    *out++ = (float)entropy_of(fine, FINE, plan->count);
    for (int i = 0; i < COARSE; i++) {
        int sum = 0;
        for (int k = 0; k < FINE / COARSE; k++)
            sum += fine[i * (FINE / COARSE) + k];
        *out++ = (float)sum / (float)plan->count;
    }
}

static void take_patch(struct drop_features *plan, const float *picture, int nx, int ny, int x0, int y0, float *patch) {
    int middle = plan->side / 2;
    for (int y = 0; y < plan->side; y++) {
        int from = y0 + y - middle;
        from = from < 0 ? 0 : from >= ny ? ny - 1 : from;
        for (int x = 0; x < plan->side; x++) {
            int at = x0 + x - middle;
            at = at < 0 ? 0 : at >= nx ? nx - 1 : at;
            patch[y * plan->side + x] = picture[(size_t)from * (size_t)nx + (size_t)at];
        }
    }
}

void drop_features_run(struct drop_features *plan, const float *picture, int nx, int ny, int x, int y,
                       float features[DROP_FEATURES_COUNT]) {
    float *levels = plan->grey;
    take_patch(plan, picture, nx, ny, x, y, levels);
    drop_image_statistics(plan, levels, features + DROP_FEATURES_IMAGE);
    struct drop_moments m = drop_moments_of(plan->values, plan->count);
    float scale = m.deviation > 0 ? (float)(1 / m.deviation) : 0;
    for (int i = 0; i < plan->side * plan->side; i++)
        plan->grey[i] = (float)((double)plan->grey[i] - m.mean) * scale;
    drop_changes(plan, features + DROP_FEATURES_GRADIENT);
    drop_lines(plan, features + DROP_FEATURES_LINES);
    drop_strips(plan, features + DROP_FEATURES_STRIPS);
    drop_topology(plan, features + DROP_FEATURES_TOPOLOGY);
}
