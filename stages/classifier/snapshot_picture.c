#include <math.h>
#include <stdio.h>

#include "common/formats/canvas.h"
#include "common/memory.h"
#include "stages/classifier/snapshot.h"

/* A class takes a square of at least SIDE px, a frame and two lines of text below. */
enum { SIDE = 160, FRAME = 3, GAP = 4, SCALE = 2, LINE = 20, TEXT = 2 * LINE + 4 };
static const double DIM = 0.55; /* brightness of classes that are not kept */

/* Draws a class in grey, from -3 to 3 standard deviations of the pixels inside the mask. */
static void draw_class(struct canvas *canvas, const struct model *m, int k, int x0, int y0, int zoom) {
    const struct model_class *c = &m->classes[k];
    int box = m->options.box, half = box / 2, side = box * zoom;
    double sum = 0, squares = 0, count = 0, radius = m->options.mask_radius;
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++)
            if (hypot(x - half, y - half) < radius) {
                double v = c->map[y * box + x];
                sum += v, squares += v * v, count++;
            }
    double mean = count > 0 ? sum / count : 0;
    double deviation = count > 0 ? sqrt(fmax(squares / count - mean * mean, 1e-30)) : 1;
    const uint8_t frame = c->kept ? CANVAS_GREEN : canvas_grey(0.35);
    canvas_fill(canvas, x0 - FRAME, y0 - FRAME, side + 2 * FRAME, side + 2 * FRAME, frame);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            double v = (c->map[(y / zoom) * box + x / zoom] - mean) / deviation;
            double level = fmin(fmax((v + 3) / 6, 0), 1) * (c->kept ? 1 : DIM);
            canvas_set(canvas, x0 + x, y0 + y, canvas_grey(level));
        }
}

/* Writes number and members of a class, and below its share of all particles and its resolution. */
static void describe_class(struct canvas *canvas, const struct model *m, int k, int x, int y, size_t particles) {
    const struct model_class *c = &m->classes[k];
    char number[24], rest[48];
    const uint8_t colour = c->kept ? CANVAS_WHITE : canvas_grey(0.6);
    snprintf(number, sizeof number, "#%d ", k + 1);
    canvas_text(canvas, x, y, SCALE, c->kept ? CANVAS_YELLOW : colour, number);
    snprintf(rest, sizeof rest, "%.0f", c->members);
    canvas_text(canvas, x + canvas_text_width(number, SCALE), y, SCALE, colour, rest);
    double share = particles > 0 ? 100 * c->members / (double)particles : 0;
    snprintf(rest, sizeof rest, c->resolution < 999 ? "%.1f%% %.1f Å" : "%.1f%%", share, c->resolution);
    canvas_text(canvas, x, y + LINE, SCALE, colour, rest);
}

enum status snapshot_picture(const struct model *m, size_t particles, const char *path, struct err *err) {
    int count = m->class_count, columns = (int)ceil(sqrt(count)), rows = (count + columns - 1) / columns;
    int box = m->options.box, zoom = box < SIDE ? (SIDE + box - 1) / box : 1, side = box * zoom;
    int nx = side + 2 * FRAME + GAP, ny = nx + TEXT;
    _cleanup_(canvas_destroy) struct canvas canvas = {0};
    _cleanup_(mem_free) int *order = NULL;
    TRY(canvas_create(columns * nx, rows * ny, &canvas, err));
    TRY(mem_new((size_t)count, sizeof *order, "montage of classes", &order, err));
    for (int i = 0; i < count; i++) { /* insertion sort: there are few classes */
        int at = i;
        while (at > 0 && m->classes[order[at - 1]].members < m->classes[i].members) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    for (int i = 0; i < count; i++) {
        int x = i % columns * nx + FRAME + GAP / 2, y = i / columns * ny + FRAME + GAP / 2;
        draw_class(&canvas, m, order[i], x, y, zoom);
        describe_class(&canvas, m, order[i], x, y + side + FRAME + GAP, particles);
    }
    return canvas_write(&canvas, path, err);
}
