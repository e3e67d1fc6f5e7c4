#include "stages/lowpass-picker/round_templates.h"

#include <math.h>

#include "common/memory.h"

/* From this ratio of the diameters on, particles may be as long as the greater and as wide as the smaller one. */
static const double ELONGATED = 2;
/* Orientations of elongated shapes over half a turn. */
enum { ORIENTATIONS = 12 };
/* Shapes of three sizes, sampled so that the largest diameter is DIAMETER px; the box leaves room for the background.
 * PADDED is the box in which spheres are blurred. */
enum { SIZES = 3, SHAPES = 2, DIAMETER = 48, BOX = 94, PADDED = 2 * BOX };
/* Width of a Gaussian blur, in diameters. The blurred sphere is subtracted from the sphere, as defocus removes low
 * frequencies. */
static const double HIGH_PASS = 0.2;

/* Draws a Laplacian of Gaussian, stretched to a length along a direction, with its zeros on an ellipse: for filled
 * particles. angle: of the length to the x axis, radians. */
static void draw_log(double length, double width, double angle, float *image) {
    double c = cos(angle), s = sin(angle);
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            double i = x - BOX / 2, j = y - BOX / 2;
            double along = 2 * (c * i + s * j) / length, across = 2 * (c * j - s * i) / width;
            double squares = along * along + across * across;
            image[y * BOX + x] = (float)((1 - squares) * exp(-squares));
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

int round_templates_count(double low, double high) {
    return SIZES * SHAPES + (high >= ELONGATED * low ? ORIENTATIONS : 0);
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
    int round = SIZES * SHAPES, elongated = round_templates_count(low, high) - round;
    TRY(mem_new((size_t)(round + elongated) * BOX * BOX, sizeof **ret_shapes, "shapes", ret_shapes, err));
    const double sizes[SIZES] = {low, (low + high) / 2, high};
    for (int i = 0; i < SIZES; i++) {
        float *image = *ret_shapes + (size_t)SHAPES * i * BOX * BOX;
        double diameter = sizes[i] / high * DIAMETER;
        draw_log(diameter, diameter, 0, image);
        draw_sphere(diameter, scratch, image + BOX * BOX);
        normalise(image);
        normalise(image + BOX * BOX);
    }
    for (int i = 0; i < elongated; i++) {
        float *image = *ret_shapes + (size_t)(round + i) * BOX * BOX;
        draw_log(DIAMETER, low / high * DIAMETER, i * M_PI / ORIENTATIONS, image);
        normalise(image);
    }
    *ret_templates = (struct picker_templates){
        .data = *ret_shapes,
        .box = BOX,
        .count = round + elongated,
        .pixel_size = high / DIAMETER,
    };
    return STATUS_OK;
}
