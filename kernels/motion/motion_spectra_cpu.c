/* Stacks of planar spectra on the CPU, and their shifts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/motion/motion_align_cpu_private.h"

static void shape(const struct motion_align_plan *plan, enum motion_set set, struct motion_spectra *s) {
    bool whole = set == MOTION_WHOLE;
    s->members = whole ? 1 : plan->patches_x * plan->patches_y;
    s->count = whole ? plan->task.frames : plan->groups;
    s->side_x = whole ? plan->window_x : plan->patch_x;
    s->side_y = whole ? plan->window_y : plan->patch_y;
    s->half = (size_t)s->side_x / 2 + 1;
    s->pad = (s->half + MOTION_LANES - 1) / MOTION_LANES * MOTION_LANES;
}

static size_t stack_floats(const struct motion_spectra *s) {
    return (size_t)s->count * (size_t)s->side_y * 2 * s->pad;
}

size_t motion_spectra_bytes(const struct motion_align_plan *plan, enum motion_set set) {
    struct motion_spectra s = {0};
    shape(plan, set, &s);
    size_t members = (size_t)s.members, rows = members * (size_t)s.side_y;
    return sizeof(float) * (members * stack_floats(&s) + rows * s.pad +
                            members * (size_t)s.count * 2 * (s.pad + (size_t)s.side_y)) +
           (size_t)s.side_y * s.pad * sizeof(int);
}

static void fill_frequencies(const struct motion_align_plan *plan, struct motion_spectra *s) {
    for (size_t x = 0; x < s->half; x++)
        s->frequency_x[x] = (double)x / (s->side_x * plan->pitch_x);
    for (int y = 0; y < s->side_y; y++)
        s->frequency_y[y] = (y <= s->side_y / 2 ? y : y - s->side_y) / (s->side_y * plan->pitch_y);
    for (int y = 0; y < s->side_y; y++)
        for (size_t x = 0; x < s->pad; x++) {
            bool inside = x < s->half - 1 && y != s->side_y / 2; /* the greatest frequencies have no sign */
            s->ring[(size_t)y * s->pad + x] =
                inside ? motion_align_ring(plan, s->frequency_x[x], s->frequency_y[y]) : MOTION_RINGS;
        }
}

enum status motion_spectra_create(const struct motion_align_plan *plan, enum motion_set set, struct motion_spectra *s,
                                  struct err *err) {
    const char *what = set == MOTION_WHOLE ? "spectra of frames" : "spectra of patches";
    shape(plan, set, s);
    size_t members = (size_t)s->members, stacks = members * (size_t)s->count, rows = (size_t)s->side_y;
    TRY(mem_new(members, stack_floats(s) * sizeof(float), what, &s->values, err));
    TRY(mem_new(members * rows, s->pad * sizeof(float), what, &s->power, err));
    TRY(mem_new(stacks, 2 * s->pad * sizeof(float), what, &s->columns, err));
    TRY(mem_new(stacks, 2 * rows * sizeof(float), what, &s->rows, err));
    TRY(mem_new(rows, s->pad * sizeof(int), what, &s->ring, err));
    TRY(mem_new(s->half, sizeof(double), what, &s->frequency_x, err));
    TRY(mem_new(rows, sizeof(double), what, &s->frequency_y, err));
    fill_frequencies(plan, s);
    return STATUS_OK;
}

void motion_spectra_clear(struct motion_spectra *s) {
    free(s->values);
    free(s->power);
    free(s->columns);
    free(s->rows);
    free(s->ring);
    free(s->frequency_x);
    free(s->frequency_y);
    *s = (struct motion_spectra){0};
}

float *motion_spectra_at(const struct motion_spectra *s, int member, int index) {
    return s->values + ((size_t)member * (size_t)s->count + (size_t)index) * (size_t)s->side_y * 2 * s->pad;
}

void motion_spectra_store(const struct motion_spectra *s, int member, int index, const float *transform) {
    float *values = motion_spectra_at(s, member, index);
    for (int y = 0; y < s->side_y; y++) {
        const float *from = transform + (size_t)y * 2 * s->half;
        float *re = values + (size_t)y * 2 * s->pad, *im = re + s->pad;
        for (size_t x = 0; x < s->half; x++) {
            re[x] = from[2 * x];
            im[x] = from[2 * x + 1];
        }
    }
}

void motion_spectra_shift(const struct motion_spectra *s, int member, const float *x, const float *y) {
    for (int j = 0; j < s->count; j++) {
        size_t stack = (size_t)member * (size_t)s->count + (size_t)j;
        float *columns = s->columns + stack * 2 * s->pad, *rows = s->rows + stack * 2 * (size_t)s->side_y;
        for (size_t i = 0; i < s->half; i++) {
            double angle = -2 * M_PI * s->frequency_x[i] * (double)x[j];
            columns[i] = (float)cos(angle);
            columns[s->pad + i] = (float)sin(angle);
        }
        for (int i = 0; i < s->side_y; i++) {
            double angle = -2 * M_PI * s->frequency_y[i] * (double)y[j];
            rows[2 * i] = (float)cos(angle);
            rows[2 * i + 1] = (float)sin(angle);
        }
    }
}

MULTIVERSION static void add_squares(const float *restrict row, size_t pad, float *restrict sum) {
    for (size_t x = 0; x < pad; x++)
        sum[x] += row[x] * row[x] + row[pad + x] * row[pad + x];
}

void motion_spectra_add_power(const struct motion_spectra *s, int member, int row) {
    float *sum = s->power + ((size_t)member * (size_t)s->side_y + (size_t)row) * s->pad;
    memset(sum, 0, s->pad * sizeof *sum);
    for (int j = 0; j < s->count; j++)
        add_squares(motion_spectra_at(s, member, j) + (size_t)row * 2 * s->pad, s->pad, sum);
}

/* Multiplies a row by its phase factors, and adds it to the sum. */
MULTIVERSION static void shift_row(const float *restrict row, const float *restrict columns, float c, float d,
                                   size_t pad, float *restrict t, float *restrict sum) {
    for (size_t x = 0; x < pad; x++) {
        float a = columns[x] * c - columns[pad + x] * d, b = columns[x] * d + columns[pad + x] * c;
        float re = row[x] * a - row[pad + x] * b, im = row[x] * b + row[pad + x] * a;
        t[x] = re;
        t[pad + x] = im;
        sum[x] += re;
        sum[pad + x] += im;
    }
}

void motion_spectra_row(const struct motion_spectra *s, int member, int row, float *t, float *sum) {
    memset(sum, 0, 2 * s->pad * sizeof *sum);
    for (int j = 0; j < s->count; j++) {
        size_t stack = (size_t)member * (size_t)s->count + (size_t)j;
        const float *factor = s->rows + 2 * (stack * (size_t)s->side_y + (size_t)row);
        shift_row(motion_spectra_at(s, member, j) + (size_t)row * 2 * s->pad, s->columns + stack * 2 * s->pad,
                  factor[0], factor[1], s->pad, t + (size_t)j * 2 * s->pad, sum);
    }
}
