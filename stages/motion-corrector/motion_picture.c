#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/formats/picture.h"
#include "common/memory.h"
#include "stages/motion-corrector/motion_record.h"

/* The picture is WIDTH px wide. Tracks are drawn up to LONGER times as long as they are, and cover at most the part
 * LONGEST of its width. */
enum { WIDTH = 512, GRID = 5, WHITE = 255, FRAME = 254, COLOURS_A_TRACK = 127 };
static const double LONGER = 40, LONGEST = 0.18;

struct canvas {
    uint8_t *pixels; /* [ny][nx] entries of the palette */
    int nx, ny;
    double scale; /* picture px a px of the movie */
    double longer;
};

/* The palette: 0 to 126 the whole frame's track, red; 127 to 253 that of a place, blue; both begin dark. */
static void fill_palette(uint8_t palette[PICTURE_COLOURS][3]) {
    for (int i = 0; i < COLOURS_A_TRACK; i++) {
        uint8_t rise = (uint8_t)(i * 190 / (COLOURS_A_TRACK - 1));
        const uint8_t red[3] = {(uint8_t)(110 + rise * 145 / 190), rise, (uint8_t)(rise / 2)};
        const uint8_t blue[3] = {rise, (uint8_t)(40 + rise), (uint8_t)(120 + rise * 135 / 190)};
        memcpy(palette[i], red, 3);
        memcpy(palette[COLOURS_A_TRACK + i], blue, 3);
    }
    memset(palette[FRAME], 200, 3);
    memset(palette[WHITE], 255, 3);
}

static void dot(const struct canvas *c, double x, double y, double radius, uint8_t colour) {
    int reach = (int)ceil(radius);
    for (int dy = -reach; dy <= reach; dy++)
        for (int dx = -reach; dx <= reach; dx++) {
            /* Row 0 of a micrograph is at the bottom, row 0 of a picture at its top. */
            int px = (int)lround(x) + dx, py = c->ny - 1 - ((int)lround(y) + dy);
            if (dx * dx + dy * dy <= radius * radius && px >= 0 && px < c->nx && py >= 0 && py < c->ny)
                c->pixels[(size_t)py * (size_t)c->nx + (size_t)px] = colour;
        }
}

static void line(const struct canvas *c, const double from[2], const double to[2], double radius, uint8_t colour) {
    int steps = 1 + (int)ceil(2 * hypot(to[0] - from[0], to[1] - from[1]));
    for (int i = 0; i <= steps; i++) {
        double part = (double)i / steps;
        dot(c, from[0] + part * (to[0] - from[0]), from[1] + part * (to[1] - from[1]), radius, colour);
    }
}

/* Finds where the specimen is in frame j: opposite to the shift that corrects it. whole: of the frame as a whole, else
 * at pixel (x, y). */
static void position(const struct motion_model *model, bool whole, double x, double y, int j, double ret[2]) {
    double shift[2] = {(double)model->x[j], (double)model->y[j]};
    if (!whole) motion_model_at(model, x, y, j, shift);
    ret[0] = -shift[0];
    ret[1] = -shift[1];
}

static void track(const struct canvas *c, const struct motion_model *model, bool whole, double x, double y) {
    double first[2], last[2] = {x * c->scale, y * c->scale};
    int steps = model->frames > 1 ? model->frames - 1 : 1;
    position(model, whole, x, y, 0, first);
    for (int j = 0; j < model->frames; j++) {
        double at[2];
        int colour = (whole ? 0 : COLOURS_A_TRACK) + j * (COLOURS_A_TRACK - 1) / steps;
        position(model, whole, x, y, j, at);
        for (int axis = 0; axis < 2; axis++)
            at[axis] = (axis == 0 ? x : y) * c->scale + (at[axis] - first[axis]) * c->scale * c->longer;
        line(c, last, at, 0.5, (uint8_t)colour);
        dot(c, at[0], at[1], whole ? 2.5 : 1.5, (uint8_t)colour);
        memcpy(last, at, sizeof last);
    }
}

static double place(int index, int side) {
    return (index + 0.5) * side / GRID;
}

/* Returns how far the specimen gets from its first position, px of the movie. */
static double farthest(const struct motion_model *model) {
    double most = 0;
    for (int i = 0; i < GRID * GRID; i++)
        for (int j = 0; j < model->frames; j++) {
            double at[2], first[2], x = place(i % GRID, model->nx), y = place(i / GRID, model->ny);
            position(model, false, x, y, 0, first);
            position(model, false, x, y, j, at);
            most = fmax(most, hypot(at[0] - first[0], at[1] - first[1]));
        }
    return most;
}

static void draw(const struct canvas *c, const struct motion_model *model) {
    memset(c->pixels, WHITE, (size_t)c->nx * (size_t)c->ny);
    for (int x = 0; x < c->nx; x++)
        c->pixels[x] = c->pixels[(size_t)(c->ny - 1) * (size_t)c->nx + (size_t)x] = FRAME;
    for (int y = 0; y < c->ny; y++)
        c->pixels[(size_t)y * (size_t)c->nx] = c->pixels[(size_t)(y + 1) * (size_t)c->nx - 1] = FRAME;
    if (model->local)
        for (int i = 0; i < GRID * GRID; i++)
            track(c, model, false, place(i % GRID, model->nx), place(i / GRID, model->ny));
    track(c, model, true, model->nx / 2.0, model->ny / 2.0);
}

enum status motion_picture_write(const struct corrected *corrected, const char *path, struct err *err) {
    const struct motion_model *model = &corrected->model;
    _cleanup_(mem_free) uint8_t *pixels = NULL;
    uint8_t palette[PICTURE_COLOURS][3];
    struct canvas c = {.nx = WIDTH, .scale = (double)WIDTH / model->nx};
    c.ny = (int)lround(model->ny * c.scale);
    double reach = farthest(model);
    c.longer = reach > 0 ? fmin(LONGER, LONGEST * model->nx / reach) : LONGER;
    TRY(mem_new_unset((size_t)c.nx * (size_t)c.ny, 1, "a picture of motion", &pixels, err));
    c.pixels = pixels;
    fill_palette(palette);
    draw(&c, model);
    return picture_write_palette(path, c.nx, c.ny, pixels, (const uint8_t(*)[3])palette, err);
}
