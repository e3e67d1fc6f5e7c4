#include "stages/lowpass-picker/round_templates.h"

#include <math.h>

#include "common/memory.h"

/* Shapes of three sizes, sampled so that the largest diameter is DIAMETER px; the box leaves room for the background.
 * PADDED is the box in which spheres are blurred. */
enum { SIZES = 3, SHAPES = 2, DIAMETER = 48, BOX = 94, PADDED = 2 * BOX };
/* Width of a Gaussian blur, in diameters. The blurred sphere is subtracted from the sphere, as defocus removes low
 * frequencies. */
static const double HIGH_PASS = 0.2;

/* Draws a Laplacian of Gaussian with its zeros on a circle of the diameter: for filled particles. */
static void draw_log(double diameter, float *image) {
    double variance2 = diameter * diameter / 4;
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            double i = x - BOX / 2, j = y - BOX / 2, s = (i * i + j * j) / variance2;
            image[y * BOX + x] = (float)((1 - s) * exp(-s));
        }
}

/* Blurs along one dimension; values outside the line are 0. */
static void blur_line(const float *in, size_t stride, const float *weights, int reach, float *out) {
    for (int at = 0; at < PADDED; at++) {
        float sum = 0;
        for (int k = at - reach < 0 ? -at : -reach; k <= reach && at + k < PADDED; k++)
            sum += weights[k < 0 ? -k : k] * in[(size_t)(at + k) * stride];
        out[(size_t)at * stride] = sum;
    }
}

/* Draws the projection of a solid sphere without its low frequencies: the part that defocus leaves of compact
 * particles, also hollow ones. scratch: three images of PADDED². */
static void draw_sphere(double diameter, float *scratch, float *image) {
    float *sphere = scratch, *rows = sphere + PADDED * PADDED, *blurred = rows + PADDED * PADDED, weights[PADDED],
          sum = 0;
    double width = HIGH_PASS * diameter;
    int reach = (int)(4 * width);
    for (int k = 0; k <= reach; k++) {
        weights[k] = (float)exp(-0.5 * k * k / (width * width));
        sum += k == 0 ? weights[k] : 2 * weights[k];
    }
    for (int k = 0; k <= reach; k++)
        weights[k] /= sum;
    for (int y = 0; y < PADDED; y++)
        for (int x = 0; x < PADDED; x++) {
            double i = x - BOX, j = y - BOX, left = diameter * diameter / 4 - i * i - j * j;
            sphere[y * PADDED + x] = left > 0 ? (float)(sqrt(left) / diameter) : 0;
        }
    for (int y = 0; y < PADDED; y++)
        blur_line(sphere + y * PADDED, 1, weights, reach, rows + y * PADDED);
    for (int x = 0; x < PADDED; x++)
        blur_line(rows + x, PADDED, weights, reach, blurred + x);
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            int at = (y + BOX / 2) * PADDED + x + BOX / 2;
            image[y * BOX + x] = sphere[at] - blurred[at];
        }
}

static void normalise(float *image) {
    double sum = 0, squares = 0;
    for (int i = 0; i < BOX * BOX; i++) {
        sum += image[i];
        squares += (double)image[i] * image[i];
    }
    sum /= BOX * BOX;
    float factor = (float)(1 / sqrt(squares / (BOX * BOX) - sum * sum));
    for (int i = 0; i < BOX * BOX; i++)
        image[i] *= factor;
}

enum status round_templates_draw(double low, double high, const struct pick_geometry *g, float **ret_shapes,
                                 struct picker_templates *ret_templates, struct err *err) {
    FAIL_IF(!(low > 0) || !(high >= low), err, STATUS_BAD_ARGUMENT,
            "without templates the particle's diameter is needed: set diameter, or log_diameter to the least and the "
            "greatest, in Å");
    double box = high / g->pixel_size * BOX / DIAMETER;
    FAIL_IF(box >= g->nx - 2 || box >= g->ny - 2, err, STATUS_BAD_ARGUMENT,
            "particles of %.3g Å (%.0f px) and their background do not fit into a micrograph of %d × %d px: check "
            "pixel_size and diameter",
            high, high / g->pixel_size, g->nx, g->ny);
    _cleanup_(mem_free) float *scratch = NULL;
    TRY(mem_new((size_t)3 * PADDED * PADDED, sizeof *scratch, "shapes", &scratch, err));
    TRY(mem_new((size_t)SIZES * SHAPES * BOX * BOX, sizeof **ret_shapes, "shapes", ret_shapes, err));
    const double sizes[SIZES] = {low, (low + high) / 2, high};
    for (int i = 0; i < SIZES; i++) {
        float *image = *ret_shapes + (size_t)SHAPES * i * BOX * BOX;
        draw_log(sizes[i] / high * DIAMETER, image);
        draw_sphere(sizes[i] / high * DIAMETER, scratch, image + BOX * BOX);
        normalise(image);
        normalise(image + BOX * BOX);
    }
    *ret_templates = (struct picker_templates){
        .data = *ret_shapes,
        .box = BOX,
        .count = SIZES * SHAPES,
        .pixel_size = high / DIAMETER,
    };
    return STATUS_OK;
}
