#include "stages/refiner/files/map_picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/canvas.h"
#include "common/memory.h"
#include "stages/refiner/files/curve_picture.h"

enum {
    WIDTH = MAP_PICTURE_WIDTH,
    MARGIN = 12,
    VIEWS = 3,
    PANEL = (WIDTH - (VIEWS + 1) * MARGIN) / VIEWS, /* px of a view */
    SCALE = 2,
    LINE = 26, /* px from one line of text to the next */
    PLOT = 360,
    HEIGHT = LINE + MARGIN + 2 * (PANEL + LINE) + PLOT + 2 * MARGIN
};

/* Fills three planes of n²: central slices across z, y and x, and the sums along them. Rows rise with y, or with z
 * where the view shows z. */
static void fill_views(int box, const float *map, float *slices, float *sums) {
    size_t n = (size_t)box, c = n / 2, plane = n * n;
    memset(sums, 0, VIEWS * plane * sizeof *sums);
    for (size_t z = 0; z < n; z++)
        for (size_t y = 0; y < n; y++) {
            const float *row = map + (z * n + y) * n;
            float sum = 0;
            for (size_t x = 0; x < n; x++) {
                sums[y * n + x] += row[x];
                sums[plane + z * n + x] += row[x];
                sum += row[x];
            }
            sums[2 * plane + z * n + y] = sum;
            slices[2 * plane + z * n + y] = row[c];
            if (z == c) memcpy(slices + y * n, row, n * sizeof *row);
            if (y == c) memcpy(slices + plane + z * n, row, n * sizeof *row);
        }
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Finds the values that become black and white. room: [count]. */
static void find_range(const float *values, size_t count, float *room, float *ret_low, float *ret_high) {
    size_t finite = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i])) room[finite++] = values[i];
    *ret_low = 0, *ret_high = 1;
    if (finite == 0) return;
    qsort(room, finite, sizeof *room, by_value);
    float low = room[finite * 5 / 1000], high = room[(finite - 1) - finite * 2 / 1000];
    *ret_low = low;
    *ret_high = high > low ? high : low + 1;
}

/* Draws a plane of box² as a square of PANEL px. Interpolates between pixels. */
static void draw_view(struct canvas *c, int x0, int y0, int box, const float *view, float low, float high) {
    for (int y = 0; y < PANEL; y++) {
        double v = fmin(fmax((y + 0.5) * box / PANEL - 0.5, 0), box - 1);
        int row = (int)v, next_row = row + 1 < box ? row + 1 : row;
        for (int x = 0; x < PANEL; x++) {
            double u = fmin(fmax((x + 0.5) * box / PANEL - 0.5, 0), box - 1);
            int column = (int)u, next = column + 1 < box ? column + 1 : column;
            double fx = u - column, fy = v - row;
            const float *a = view + (size_t)row * (size_t)box, *b = view + (size_t)next_row * (size_t)box;
            double upper = (1 - fx) * (double)a[column] + fx * (double)a[next];
            double lower = (1 - fx) * (double)b[column] + fx * (double)b[next];
            double value = (1 - fy) * upper + fy * lower;
            canvas_set(c, x0 + x, y0 + y, canvas_grey((value - (double)low) / (double)(high - low)));
        }
    }
}

/* Returns a round length (Å) of about a quarter of the view. */
static double round_length(double side) {
    double most = side / 4, power = pow(10, floor(log10(most)));
    double first = most / power;
    return power * (first >= 5 ? 5 : first >= 2 ? 2 : 1);
}

static void draw_bar(struct canvas *c, int x0, int y0, double side) {
    char text[32];
    double length = round_length(side);
    int px = (int)lround(length / side * PANEL), y = y0 + PANEL - 16;
    snprintf(text, sizeof text, "%g Å", length);
    int width = canvas_text_width(text, SCALE), wide = px > width ? px : width;
    canvas_fill(c, x0 + 6, y - 26, wide + 12, 36, CANVAS_BLACK);
    canvas_fill(c, x0 + 12, y, px, 4, CANVAS_WHITE);
    canvas_text(c, x0 + 12, y - 22, SCALE, CANVAS_WHITE, text);
}

static void draw_row(struct canvas *c, int y, const struct map_picture *p, const float *views, const char *what,
                     float *room) {
    static const char *const AXES[VIEWS] = {"z", "y", "x"};
    size_t plane = (size_t)p->box * (size_t)p->box;
    float low, high;
    find_range(views, VIEWS * plane, room, &low, &high);
    for (int i = 0; i < VIEWS; i++) {
        char text[32];
        int x = MARGIN + i * (PANEL + MARGIN);
        snprintf(text, sizeof text, "%s %s", what, AXES[i]);
        canvas_text(c, x, y, SCALE, CANVAS_WHITE, text);
        draw_view(c, x, y + LINE - 4, p->box, views + (size_t)i * plane, low, high);
        draw_bar(c, x, y + LINE - 4, p->box * p->pixel_size);
    }
}

enum status map_picture_write(const struct map_picture *p, const char *path, struct err *err) {
    _cleanup_(canvas_destroy) struct canvas canvas = {0};
    _cleanup_(mem_free) float *views = NULL;
    size_t plane = (size_t)p->box * (size_t)p->box;
    char title[160];
    TRY(canvas_create(WIDTH, p->doubt != NULL ? HEIGHT + LINE : HEIGHT, &canvas, err));
    TRY(mem_new_unset(3 * VIEWS * plane, sizeof *views, "a picture", &views, err));
    float *sums = views + VIEWS * plane, *room = sums + VIEWS * plane;
    fill_views(p->box, p->map, views, sums);
    snprintf(title, sizeof title, "%s, %s, box %d px of %.4g Å", p->title, p->parts, p->box, p->pixel_size);
    canvas_text(&canvas, MARGIN, MARGIN, SCALE, CANVAS_WHITE, title);
    int y = MARGIN + LINE;
    if (p->doubt != NULL) {
        canvas_text(&canvas, MARGIN, y, SCALE, CANVAS_ORANGE, p->doubt);
        y += LINE;
    }
    draw_row(&canvas, y, p, views, "slice across", room);
    y += PANEL + LINE;
    draw_row(&canvas, y, p, sums, "projection along", room);
    y += PANEL + LINE;
    const struct curve_place place = {.x = MARGIN, .y = y, .nx = WIDTH - 2 * MARGIN, .ny = PLOT};
    curve_picture_draw(&canvas, &place, p);
    return canvas_write(&canvas, path, err);
}
