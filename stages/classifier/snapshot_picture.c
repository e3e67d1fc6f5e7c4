#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/picture.h"
#include "common/memory.h"
#include "stages/classifier/snapshot.h"

enum { FRAME = 3, DIGIT_WIDTH = 3, DIGIT_HEIGHT = 5 };

/* Digits as rows of three bits, the top row first. */
static const unsigned char DIGITS[10][DIGIT_HEIGHT] = {
    {7, 5, 5, 5, 7}, {2, 6, 2, 2, 7}, {7, 1, 7, 4, 7}, {7, 1, 7, 1, 7}, {5, 5, 7, 1, 1},
    {7, 4, 7, 1, 7}, {7, 4, 7, 5, 7}, {7, 1, 2, 2, 2}, {7, 5, 7, 5, 7}, {7, 5, 7, 1, 7},
};

struct canvas {
    uint8_t *pixels;
    int nx, ny;
};

static void set_pixel(struct canvas *c, int x, int y, const uint8_t colour[3]) {
    if (x >= 0 && y >= 0 && x < c->nx && y < c->ny)
        memcpy(c->pixels + 3 * ((size_t)y * (size_t)c->nx + (size_t)x), colour, 3);
}

static void draw_number(struct canvas *c, int x, int y, int scale, long number, const uint8_t colour[3]) {
    char text[24];
    snprintf(text, sizeof text, "%ld", number);
    for (int i = 0; text[i] != '\0'; i++, x += (DIGIT_WIDTH + 1) * scale)
        for (int row = 0; row < DIGIT_HEIGHT * scale; row++)
            for (int column = 0; column < DIGIT_WIDTH * scale; column++)
                if (DIGITS[text[i] - '0'][row / scale] >> (DIGIT_WIDTH - 1 - column / scale) & 1)
                    set_pixel(c, x + column, y + row, colour);
}

/* Draws a class in grey, from -3 to 3 standard deviations of the pixels inside the mask. */
static void draw_class(struct canvas *canvas, const struct model *m, int k, int x0, int y0, int zoom) {
    const struct model_class *c = &m->classes[k];
    int box = m->options.box, half = box / 2;
    double sum = 0, squares = 0, count = 0, radius = m->options.mask_radius;
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++)
            if (hypot(x - half, y - half) < radius) {
                double v = c->map[y * box + x];
                sum += v, squares += v * v, count++;
            }
    double mean = count > 0 ? sum / count : 0;
    double deviation = count > 0 ? sqrt(fmax(squares / count - mean * mean, 1e-30)) : 1;
    static const uint8_t green[3] = {40, 200, 80}, grey[3] = {90, 90, 90};
    const uint8_t *frame = c->kept ? green : grey;
    int side = box * zoom;
    for (int y = -FRAME; y < side + FRAME; y++)
        for (int x = -FRAME; x < side + FRAME; x++) {
            if (x < 0 || y < 0 || x >= side || y >= side) {
                set_pixel(canvas, x0 + x, y0 + y, frame);
                continue;
            }
            double v = (c->map[(y / zoom) * box + x / zoom] - mean) / deviation;
            double level = fmin(fmax((v + 3) / 6, 0), 1) * (c->kept ? 255 : 140);
            const uint8_t value = (uint8_t)level, colour[3] = {value, value, value};
            set_pixel(canvas, x0 + x, y0 + y, colour);
        }
    static const uint8_t yellow[3] = {255, 220, 60}, white[3] = {235, 235, 235};
    int scale = side >= 120 ? 2 : 1;
    draw_number(canvas, x0 + 2, y0 + 2, scale, k + 1, yellow);
    draw_number(canvas, x0 + 2, y0 + side - 2 - DIGIT_HEIGHT * scale, scale, (long)c->members, white);
}

enum status snapshot_picture(const struct model *m, const char *path, struct err *err) {
    int count = m->class_count, columns = (int)ceil(sqrt(count)), rows = (count + columns - 1) / columns;
    int box = m->options.box, zoom = box < 100 ? (100 + box - 1) / box : 1, cell = box * zoom + 2 * FRAME + 4;
    struct canvas canvas = {.nx = columns * cell, .ny = rows * cell};
    _cleanup_(mem_free) uint8_t *pixels = NULL;
    _cleanup_(mem_free) int *order = NULL;
    TRY(mem_new((size_t)canvas.nx * (size_t)canvas.ny, 3, "montage of classes", &pixels, err));
    TRY(mem_new((size_t)count, sizeof *order, "montage of classes", &order, err));
    canvas.pixels = pixels;
    for (int i = 0; i < count; i++) { /* insertion sort: there are few classes */
        int at = i;
        while (at > 0 && m->classes[order[at - 1]].members < m->classes[i].members) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    for (int i = 0; i < count; i++)
        draw_class(&canvas, m, order[i], i % columns * cell + FRAME + 2, i / columns * cell + FRAME + 2, zoom);
    return picture_write_rgb(path, canvas.nx, canvas.ny, pixels, err);
}
