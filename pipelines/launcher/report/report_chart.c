/* Charts as SVG inside the page: no script draws them, and a printer shows them sharp. Colours are those of Okabe and
 * Ito, and a mark tells by its shape as well. */
#include <math.h>
#include <stdlib.h>

#include "pipelines/launcher/numbers.h"
#include "pipelines/launcher/report/report_private.h"

enum {
    WIDTH = 560,
    HEIGHT = 220,
    LEFT = 56,
    RIGHT = 10,
    TOP = 10,
    BOTTOM = 38,
    POINTS_MAX = 2000,
    BINS = 40,
    TICKS_MAX = 16
};

struct axes {
    double x0, x1, y0, y1;
};

static double at_x(const struct axes *a, double x) {
    return LEFT + (x - a->x0) / (a->x1 - a->x0) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct axes *a, double y) {
    return HEIGHT - BOTTOM - (y - a->y0) / (a->y1 - a->y0) * (HEIGHT - TOP - BOTTOM);
}

/* Returns a step of 1, 2 or 5 times a power of ten that gives about five ticks. */
static double step_of(double span) {
    double raw = span / 5, power = pow(10, floor(log10(raw))), part = raw / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static void widen(double *low, double *high) {
    if (*high > *low) return;
    double by = fabs(*low) > 0 ? 0.1 * fabs(*low) : 1;
    *low -= by;
    *high += by;
}

static void begin_chart(struct report *r, const char *title) {
    put(r, "<figure><figcaption>");
    put_text(r, title);
    put_format(r, "</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    put_text(r, title);
    put(r, "\">");
}

static void draw_axes(struct report *r, const struct axes *a, const char *x_label, const char *y_label) {
    double x_step = step_of(a->x1 - a->x0), y_step = step_of(a->y1 - a->y0);
    double x = ceil(a->x0 / x_step) * x_step, y = ceil(a->y0 / y_step) * y_step;
    /* Beside a very large number a step may vanish, so the ticks are counted. */
    for (int i = 0; i < TICKS_MAX && x <= a->x1 + 1e-9 * x_step; i++, x += x_step)
        put_format(r, "<path class=g d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" text-anchor=middle>%.6g</text>",
                   at_x(a, x), TOP, HEIGHT - BOTTOM, at_x(a, x), HEIGHT - BOTTOM + 14, fabs(x) < 1e-9 * x_step ? 0 : x);
    for (int i = 0; i < TICKS_MAX && y <= a->y1 + 1e-9 * y_step; i++, y += y_step)
        put_format(r, "<path class=g d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=end>%.6g</text>", LEFT,
                   at_y(a, y), WIDTH - RIGHT, LEFT - 5, at_y(a, y) + 4, fabs(y) < 1e-9 * y_step ? 0 : y);
    put_format(r, "<text x=\"%d\" y=\"%d\" text-anchor=middle>", (WIDTH + LEFT) / 2, HEIGHT - 6);
    put_text(r, x_label);
    put_format(r, "</text><text transform=\"translate(12 %d) rotate(-90)\" text-anchor=middle>", (HEIGHT - BOTTOM) / 2);
    put_text(r, y_label);
    put(r, "</text>");
}

static void end_chart(struct report *r) {
    put(r, "</svg></figure>\n");
}

void report_scatter(struct report *report, const char *title, const char *x_label, const char *y_label,
                    const struct points *points) {
    struct axes a = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    size_t finite = 0;
    for (size_t i = 0; i < points->count; i++) {
        if (!isfinite(points->x[i]) || !isfinite(points->y[i])) continue;
        finite++;
        a.x0 = fmin(a.x0, points->x[i]);
        a.x1 = fmax(a.x1, points->x[i]);
        a.y0 = fmin(a.y0, points->y[i]);
        a.y1 = fmax(a.y1, points->y[i]);
    }
    if (finite == 0) return;
    widen(&a.x0, &a.x1);
    widen(&a.y0, &a.y1);
    begin_chart(report, title);
    draw_axes(report, &a, x_label, y_label);
    /* Every so many-th point, so that a page of 100,000 exposures stays small. */
    size_t stride = (finite + POINTS_MAX - 1) / POINTS_MAX, seen = 0;
    for (size_t i = 0; i < points->count; i++) {
        if (!isfinite(points->x[i]) || !isfinite(points->y[i]) || seen++ % stride != 0) continue;
        double x = at_x(&a, points->x[i]), y = at_y(&a, points->y[i]);
        if (points->mark != NULL && points->mark[i])
            put_format(report, "<path class=x d=\"M%.1f %.1fl5 5m0-5l-5 5\"/>", x - 2.5, y - 2.5);
        else
            put_format(report, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>", x, y);
    }
    end_chart(report);
}

void report_bars(struct report *report, const char *title, const char *x_label, const char *y_label,
                 const double *heights, size_t count, double width) {
    struct axes a = {0, (double)count * width, 0, 0};
    for (size_t i = 0; i < count; i++)
        a.y1 = fmax(a.y1, heights[i]);
    if (count == 0 || !(a.y1 > 0)) return;
    begin_chart(report, title);
    draw_axes(report, &a, x_label, y_label);
    for (size_t i = 0; i < count; i++)
        if (heights[i] > 0)
            put_format(report, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>",
                       at_x(&a, (double)i * width), at_y(&a, heights[i]),
                       fmax(0.5, at_x(&a, width) - at_x(&a, 0) - (count < 200 ? 1 : 0)),
                       at_y(&a, 0) - at_y(&a, heights[i]));
    end_chart(report);
}

void report_histogram(struct report *report, const char *title, const char *label, const double *sorted, size_t count) {
    double low = numbers_quantile(sorted, count, 0.005), high = numbers_quantile(sorted, count, 0.995);
    double heights[BINS] = {0};
    if (count == 0) return;
    widen(&low, &high);
    for (size_t i = 0; i < count; i++) {
        double place = (sorted[i] - low) / (high - low) * BINS;
        heights[place < 0 ? 0 : place >= BINS ? BINS - 1 : (int)place]++;
    }
    struct axes a = {low, high, 0, 0};
    for (size_t i = 0; i < BINS; i++)
        a.y1 = fmax(a.y1, heights[i]);
    begin_chart(report, title);
    draw_axes(report, &a, label, "exposures");
    double width = (high - low) / BINS;
    for (size_t i = 0; i < BINS; i++)
        if (heights[i] > 0)
            put_format(report, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>",
                       at_x(&a, low + (double)i * width), at_y(&a, heights[i]), at_x(&a, low + width) - LEFT - 1,
                       at_y(&a, 0) - at_y(&a, heights[i]));
    end_chart(report);
}

void report_curves(struct report *report, const char *title, const char *x_label, const char *y_label, const double *x,
                   const struct curve *curves, size_t curve_count, size_t count) {
    static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7"};
    static const char *const dashes[] = {"", "6 3", "2 3", "8 3 2 3"};
    struct axes a = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (size_t i = 0; i < count; i++) {
        a.x0 = fmin(a.x0, x[i]);
        a.x1 = fmax(a.x1, x[i]);
        for (size_t c = 0; c < curve_count; c++)
            if (isfinite(curves[c].y[i])) {
                a.y0 = fmin(a.y0, curves[c].y[i]);
                a.y1 = fmax(a.y1, curves[c].y[i]);
            }
    }
    if (count == 0 || !(a.y1 >= a.y0)) return;
    if (a.y0 >= -1 && a.y1 <= 1) { /* correlations: the axis is whole */
        a.y0 = fmin(0, a.y0);
        a.y1 = 1;
    }
    widen(&a.x0, &a.x1);
    widen(&a.y0, &a.y1);
    begin_chart(report, title);
    draw_axes(report, &a, x_label, y_label);
    for (size_t c = 0; c < curve_count; c++) {
        put_format(report, "<path fill=none stroke=\"%s\" stroke-width=1.5 stroke-dasharray=\"%s\" d=\"",
                   colours[c % 4], dashes[c % 4]);
        bool pen = false;
        for (size_t i = 0; i < count; i++) {
            if (!isfinite(curves[c].y[i])) continue;
            put_format(report, "%c%.1f %.1f", pen ? 'L' : 'M', at_x(&a, x[i]), at_y(&a, curves[c].y[i]));
            pen = true;
        }
        put_format(report, "\"/><path stroke=\"%s\" stroke-width=1.5 stroke-dasharray=\"%s\" d=\"M%d %zuh26\"/>",
                   colours[c % 4], dashes[c % 4], WIDTH - 150, TOP + 8 + 14 * c);
        put_format(report, "<text x=\"%d\" y=\"%zu\">", WIDTH - 118, TOP + 12 + 14 * c);
        put_text(report, curves[c].name);
        put(report, "</text>");
    }
    end_chart(report);
}
