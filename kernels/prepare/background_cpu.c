#include "kernels/prepare/background.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/memory.h"

static const double MEAN_MOST = 0.3, DEVIATION_LEAST = 0.6, DEVIATION_MOST = 1.6, OFF_SHARE = 0.1;
static const double ROUNDING = 1e-6; /* of floats, over the value: a smaller deviation is none */

struct background {
    int box;
    int *inner;            /* [box]: columns inner .. box − inner of a row are inside the circle; box: none are */
    size_t pixels;         /* that are background */
    double inverse_fit[9]; /* of the normal equations of a plane */
    bool plane;            /* the equations have a solution */
};

/* Columns 0 .. left − 1 and right .. box − 1 of row y are background. */
static void spans(const struct background *b, int y, int *ret_left, int *ret_right) {
    *ret_left = b->inner[y];
    *ret_right = b->inner[y] < b->box ? b->box + 1 - b->inner[y] : b->box;
}

static bool invert(const double m[9], double ret[9]) {
    double c[3] = {m[4] * m[8] - m[5] * m[7], m[5] * m[6] - m[3] * m[8], m[3] * m[7] - m[4] * m[6]};
    double determinant = m[0] * c[0] + m[1] * c[1] + m[2] * c[2];
    if (!(fabs(determinant) > 1e-9 * fabs(m[0] * m[4] * m[8]))) return false;
    const double adjugate[9] = {c[0], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
                                c[1], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
                                c[2], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]};
    for (int i = 0; i < 9; i++)
        ret[i] = adjugate[i] / determinant;
    return true;
}

enum status background_create(int box, double radius, struct background **ret_background, struct err *err) {
    struct background *b = NULL;
    int half = box / 2;
    double fit[9] = {0};
    TRY(mem_new(1, sizeof *b, "the background of particles", &b, err));
    b->box = box;
    enum status status = mem_new((size_t)box, sizeof *b->inner, "the background of particles", &b->inner, err);
    if (status != STATUS_OK) {
        background_destroy(&b);
        return status;
    }
    for (int y = 0; y < box; y++) {
        double chord = radius * radius - (double)(y - half) * (y - half);
        int reach = chord >= 0 ? (int)floor(sqrt(chord)) : -1; /* columns half ± reach are inside */
        int left, right;
        b->inner[y] = reach < 0 ? box : reach >= half ? 0 : half - reach;
        if (reach >= half) reach = half;
        spans(b, y, &left, &right);
        for (int x = 0; x < box; x++) {
            if (x >= left && x < right) continue;
            double at[3] = {x - half, y - half, 1};
            b->pixels++;
            for (int i = 0; i < 9; i++)
                fit[i] += at[i / 3] * at[i % 3];
        }
    }
    b->plane = invert(fit, b->inverse_fit);
    *ret_background = b;
    return STATUS_OK;
}

void background_destroy(struct background **background) {
    if (*background == NULL) return;
    mem_free(&(*background)->inner);
    mem_free(background);
}

size_t background_pixels(const struct background *b) {
    return b->pixels;
}

/* Sums about the value of the first pixel, so that a large offset costs no digits. */
struct background_values background_measure(const struct background *b, const float *image) {
    double origin = image[0], sum = 0, squares = 0, count = (double)b->pixels;
    if (b->pixels == 0) return (struct background_values){.constant = true};
    for (int y = 0; y < b->box; y++) {
        const float *row = image + (size_t)y * (size_t)b->box;
        double part = 0, part2 = 0;
        int left, right;
        spans(b, y, &left, &right);
        for (int x = 0; x < left; x++) {
            double v = row[x] - origin;
            part += v, part2 += v * v;
        }
        for (int x = right; x < b->box; x++) {
            double v = row[x] - origin;
            part += v, part2 += v * v;
        }
        sum += part, squares += part2;
    }
    double mean = sum / count, deviation = sqrt(fmax(squares / count - mean * mean, 0));
    return (struct background_values){.mean = origin + mean,
                                      .deviation = deviation,
                                      .constant =
                                          !(deviation > ROUNDING * fabs(origin + mean)) || !(deviation > 1e-30)};
}

/* Fits value = plane[0] (x − half) + plane[1] (y − half) + plane[2] to the background. */
static void fit_plane(const struct background *b, const float *image, double plane[3]) {
    double at[3] = {0};
    int half = b->box / 2;
    for (int y = 0; y < b->box; y++) {
        const float *row = image + (size_t)y * (size_t)b->box;
        int left, right;
        spans(b, y, &left, &right);
        for (int x = 0; x < b->box; x++) {
            if (x >= left && x < right) continue;
            at[0] += (double)row[x] * (x - half);
            at[1] += (double)row[x] * (y - half);
            at[2] += row[x];
        }
    }
    for (int i = 0; i < 3; i++)
        plane[i] =
            b->inverse_fit[3 * i] * at[0] + b->inverse_fit[3 * i + 1] * at[1] + b->inverse_fit[3 * i + 2] * at[2];
}

/* Returns Σ (value − plane)² over the background. */
static double plane_residual(const struct background *b, const float *image, const double plane[3]) {
    double sum = 0;
    int half = b->box / 2;
    for (int y = 0; y < b->box; y++) {
        int left, right;
        spans(b, y, &left, &right);
        for (int x = 0; x < b->box; x++) {
            if (x >= left && x < right) continue;
            double v = image[(size_t)y * (size_t)b->box + (size_t)x] -
                       (plane[0] * (x - half) + plane[1] * (y - half) + plane[2]);
            sum += v * v;
        }
    }
    return sum;
}

bool background_normalise(const struct background *b, bool ramp, float *image) {
    const struct background_values values = background_measure(b, image);
    double plane[3] = {0, 0, values.mean}, deviation = values.deviation;
    int half = b->box / 2;
    if (values.constant) return false;
    if (ramp && b->plane) {
        fit_plane(b, image, plane);
        deviation = sqrt(plane_residual(b, image, plane) / (double)b->pixels);
        if (!(deviation > ROUNDING * fabs(values.mean))) return false;
    }
    for (int y = 0; y < b->box; y++) {
        float *row = image + (size_t)y * (size_t)b->box;
        double level = plane[1] * (y - half) + plane[2];
        for (int x = 0; x < b->box; x++)
            row[x] = (float)((row[x] - (plane[0] * (x - half) + level)) / deviation);
    }
    return true;
}

static int by_mean(const void *a, const void *b) {
    double x = ((const struct background_values *)a)->mean, y = ((const struct background_values *)b)->mean;
    return (x > y) - (x < y);
}

static int by_deviation(const void *a, const void *b) {
    double x = ((const struct background_values *)a)->deviation, y = ((const struct background_values *)b)->deviation;
    return (x > y) - (x < y);
}

/* Returns how many of `count` images are off in a set of which OFF_SHARE is, and three standard deviations more. */
static double most_off(double count) {
    return OFF_SHARE * count + 3 * sqrt(OFF_SHARE * (1 - OFF_SHARE) * count);
}

struct background_judgement background_judge(struct background_values *values, size_t count) {
    struct background_judgement j = {.count = count};
    size_t constant = 0, offset = 0;
    if (count == 0) return j;
    for (size_t i = 0; i < count; i++) {
        const struct background_values *v = &values[i];
        constant += v->constant;
        offset += v->constant && v->mean != 0;
        j.off += !v->constant && (fabs(v->mean) > MEAN_MOST * v->deviation || v->deviation < DEVIATION_LEAST ||
                                  v->deviation > DEVIATION_MOST);
    }
    qsort(values, count, sizeof *values, by_mean);
    j.mean = values[count / 2].mean;
    j.mean_low = values[count / 20].mean;
    j.mean_high = values[count - 1 - count / 20].mean;
    qsort(values, count, sizeof *values, by_deviation);
    j.deviation = values[count / 2].deviation;
    j.deviation_low = values[count / 20].deviation;
    j.deviation_high = values[count - 1 - count / 20].deviation;
    if (2 * offset > count)
        j.verdict = BACKGROUND_CONSTANT;
    else if ((double)j.off > most_off((double)(count - constant)))
        j.verdict = BACKGROUND_NOT_NORMALISED;
    return j;
}

void background_describe(const struct background_judgement *j, char *text, size_t size) {
    snprintf(text, size,
             "in %zu of %zu images that were examined the background outside the diameter is not near mean 0 and "
             "standard deviation 1: means are %.4g to %.4g, deviations %.3g to %.3g",
             j->off, j->count, j->mean_low, j->mean_high, j->deviation_low, j->deviation_high);
}
