/* Draws pictures for people: grey values, a few colours, lines and text. Row 0 is the top row, and all lengths are px.
 * Whatever lies outside the canvas is left out. */
#ifndef ICESTREAM_COMMON_FORMATS_CANVAS_H
#define ICESTREAM_COMMON_FORMATS_CANVAS_H

#include <stdint.h>

#include "common/status.h"

/* Colours of a pixel: first greys from black to white, then the others. */
enum canvas_colour {
    CANVAS_BLACK = 0,
    CANVAS_WHITE = 239,
    CANVAS_YELLOW,
    CANVAS_GREEN,
    CANVAS_BLUE,
    CANVAS_ORANGE,
    CANVAS_COLOURS
};

struct canvas {
    int nx, ny;
    uint8_t *pixels; /* [ny][nx] of enum canvas_colour */
};

/* Makes a black canvas. The caller calls canvas_destroy, which accepts a canvas of zeros. */
enum status canvas_create(int nx, int ny, struct canvas *ret_canvas, struct err *err);
void canvas_destroy(struct canvas *canvas);

/* Returns the grey for a level from 0 (black) to 1 (white); NaN is black. */
uint8_t canvas_grey(double level);
void canvas_set(struct canvas *canvas, int x, int y, uint8_t colour);
/* Fills a rectangle with its upper left corner at (x, y). */
void canvas_fill(struct canvas *canvas, int x, int y, int nx, int ny, uint8_t colour);
/* Draws a line, `width` px thick. */
void canvas_line(struct canvas *canvas, double x0, double y0, double x1, double y1, int width, uint8_t colour);

/* Size of a character at scale 1: it takes CANVAS_ADVANCE px of the line; capitals are CANVAS_CAPITAL px high, and some
 * characters reach two px below. */
enum { CANVAS_ADVANCE = 6, CANVAS_CAPITAL = 7 };
/* Writes a text of ASCII and Å (UTF-8) with its upper left corner at (x, y). A character without a shape becomes a
 * rectangle. */
void canvas_text(struct canvas *canvas, int x, int y, int scale, uint8_t colour, const char *text);
/* Returns the width of a text in px. */
int canvas_text_width(const char *text, int scale);

/* Writes the canvas as PNG: under another name first, then synced and renamed. */
enum status canvas_write(const struct canvas *canvas, const char *path, struct err *err);

#endif
