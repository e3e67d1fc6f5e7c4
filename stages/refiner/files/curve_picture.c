#include "stages/refiner/files/curve_picture.h"

#include <math.h>
#include <stdio.h>

#include "kernels/fsc/fsc.h"

enum { SCALE = 2, LEFT = 76, BELOW = 56, WORDS = 400, LINE = 26, LEAST_GAP = 64 };
static const double LOWEST = -0.08, HIGHEST = 1.04, THRESHOLDS[] = {0.5, 0.143};
enum { THRESHOLD_COUNT = sizeof THRESHOLDS / sizeof *THRESHOLDS, GREY = 110, DARK = 60 };

/* The part of the place inside the axes. */
struct axes {
    int x, y, nx, ny;
    double nyquist; /* 1/Å */
};

static double place_x(const struct axes *a, double frequency) {
    return a->x + frequency / a->nyquist * a->nx;
}

static double place_y(const struct axes *a, double value) {
    double inside = fmin(fmax(value, LOWEST), HIGHEST);
    return a->y + (HIGHEST - inside) / (HIGHEST - LOWEST) * a->ny;
}

static void draw_level(struct canvas *c, const struct axes *a, double value, uint8_t colour) {
    char text[16];
    int y = (int)lround(place_y(a, value));
    snprintf(text, sizeof text, value == 0.143 ? "%.3f" : "%.1f", value);
    canvas_line(c, a->x, y, a->x + a->nx, y, 1, colour);
    canvas_text(c, a->x - 8 - canvas_text_width(text, SCALE), y - CANVAS_CAPITAL, SCALE, CANVAS_WHITE, text);
}

/* Marks round resolutions on the axis, from coarse to fine, as closely as their texts allow. */
static void draw_resolutions(struct canvas *c, const struct axes *a) {
    static const double ROUND[] = {100, 50,  30, 20,  15,  12,  10, 9,   8,   7,   6,   5, 4.5,
                                   4,   3.5, 3,  2.8, 2.5, 2.2, 2,  1.8, 1.6, 1.4, 1.2, 1};
    double last = a->x - LEAST_GAP;
    int bottom = a->y + a->ny;
    for (size_t i = 0; i < sizeof ROUND / sizeof *ROUND; i++) {
        double x = place_x(a, 1 / ROUND[i]);
        char text[16];
        if (x > a->x + a->nx || x - last < LEAST_GAP) continue;
        snprintf(text, sizeof text, "%g", ROUND[i]);
        canvas_line(c, x, bottom, x, bottom + 6, 1, CANVAS_WHITE);
        canvas_text(c, (int)x - canvas_text_width(text, SCALE) / 2, bottom + 10, SCALE, CANVAS_WHITE, text);
        last = x;
    }
    static const char NAME[] = "resolution (Å)";
    canvas_text(c, a->x + (a->nx - canvas_text_width(NAME, SCALE)) / 2, bottom + 34, SCALE, CANVAS_WHITE, NAME);
}

static void draw_curve(struct canvas *c, const struct axes *a, const struct map_picture *p,
                       const struct map_curve *curve, uint8_t colour) {
    int shells = p->box / 2 + 1;
    for (int s = 1; s < shells; s++) {
        double before = s == 1 ? 1 : (double)curve->values[s - 1], value = (double)curve->values[s];
        if (!isfinite(before) || !isfinite(value)) continue;
        double step = a->nyquist / (shells - 1);
        canvas_line(c, place_x(a, (s - 1) * step), place_y(a, before), place_x(a, s * step), place_y(a, value), 2,
                    colour);
    }
}

/* Writes a curve's name and its resolutions: "unmasked", "8.42 Å at 0.143, 11.6 Å at 0.5". */
static void describe(struct canvas *c, int x, int y, const struct map_picture *p, const struct map_curve *curve,
                     uint8_t colour) {
    char text[96];
    canvas_fill(c, x, y + 4, 28, 5, colour);
    canvas_text(c, x + 40, y, SCALE, CANVAS_WHITE, curve->name);
    if (curve->values == NULL)
        snprintf(text, sizeof text, "after the last iteration");
    else if (p->doubt != NULL)
        snprintf(text, sizeof text, "no resolution");
    else if (curve->threshold < 0.5)
        snprintf(text, sizeof text, "%.2f Å at %g, %.2f Å at 0.5", curve->resolution, curve->threshold,
                 fsc_resolution(curve->values, p->box, p->pixel_size, 0.5));
    else
        snprintf(text, sizeof text, "%.2f Å at %g", curve->resolution, curve->threshold);
    canvas_text(c, x, y + LINE, SCALE, CANVAS_WHITE, text);
}

void curve_picture_draw(struct canvas *c, const struct curve_place *place, const struct map_picture *p) {
    static const uint8_t COLOURS[MAP_CURVES] = {CANVAS_BLUE, CANVAS_ORANGE};
    const struct axes axes = {.x = place->x + LEFT,
                              .y = place->y + 8,
                              .nx = place->nx - LEFT - WORDS - 16,
                              .ny = place->ny - BELOW - 8,
                              .nyquist = 1 / (2 * p->pixel_size)};
    draw_level(c, &axes, 1, DARK);
    draw_level(c, &axes, 0, GREY);
    for (int i = 0; i < THRESHOLD_COUNT; i++)
        draw_level(c, &axes, THRESHOLDS[i], CANVAS_YELLOW);
    int bottom = axes.y + axes.ny, words = axes.x + axes.nx + 16, y = axes.y;
    canvas_line(c, axes.x, axes.y, axes.x, bottom, 1, CANVAS_WHITE);
    canvas_line(c, axes.x, bottom, axes.x + axes.nx, bottom, 1, CANVAS_WHITE);
    draw_resolutions(c, &axes);
    for (int i = 0; i < MAP_CURVES; i++) {
        const struct map_curve *curve = &p->curves[i];
        if (curve->name == NULL) continue;
        if (curve->values != NULL) draw_curve(c, &axes, p, curve, COLOURS[i]);
        describe(c, words, y, p, curve, COLOURS[i]);
        y += 3 * LINE;
    }
}
