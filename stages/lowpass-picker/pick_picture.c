#include "stages/lowpass-picker/pick_picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/formats/picture.h"
#include "common/memory.h"
#include "kernels/fourier/window.h"
#include "kernels/normalise/normalise.h"

enum { WIDTH = 1000 };
/* Colours of a pixel: greys from black, the same greys tinted, and the colour of the circles. */
enum { GREYS = 127, TINTED = GREYS, MARK = 2 * GREYS };
/* Greys reach from so many standard deviations below the mean to as many above. */
static const float CONTRAST = 3;
static const uint8_t COLOUR[3] = {80, 220, 60};
/* Factor of green and blue where no picks may be. */
static const float TINT = 0.6f;

struct pick_picture {
    struct pick_geometry geometry; /* for which the picture was made */
    int size;                      /* of the picture of the square */
    int nx, ny;                    /* of the picture */
    double scale;                  /* picture px per micrograph px */
    float *in, *half;              /* work², its transform */
    float *wide, *grey;            /* transform at size, size² */
    struct fft_plan *forward, *inverse;
    uint8_t *pixels; /* [ny][nx] of GREYS, + TINTED, or MARK */
};

static enum status build(struct pick_picture *p, const struct pick_geometry *g, struct err *err) {
    p->geometry = *g;
    p->size = fft_good_size(g->size < WIDTH ? g->size : WIDTH);
    p->scale = (double)p->size / g->size;
    p->nx = g->nx * p->scale >= 1 ? (int)(g->nx * p->scale) : 1;
    p->ny = g->ny * p->scale >= 1 ? (int)(g->ny * p->scale) : 1;
    size_t work = (size_t)g->work, size = (size_t)p->size;
    TRY(mem_new(work * work, sizeof(float), "picture", &p->in, err));
    TRY(mem_new(work * (work + 2), sizeof(float), "picture", &p->half, err));
    TRY(mem_new(size * (size + 2), sizeof(float), "picture", &p->wide, err));
    TRY(mem_new(size * size, sizeof(float), "picture", &p->grey, err));
    TRY(mem_new((size_t)p->nx * p->ny, 1, "picture", &p->pixels, err));
    struct fft_options forward = {.rank = 2, .shape = {g->work, g->work}, .direction = FFT_FORWARD};
    struct fft_options inverse = {.rank = 2, .shape = {p->size, p->size}, .direction = FFT_INVERSE};
    TRY(fft_create(&forward, &p->forward, err));
    return fft_create(&inverse, &p->inverse, err);
}

void pick_picture_destroy(struct pick_picture **picture) {
    struct pick_picture *p = *picture;
    if (!p) return;
    fft_destroy(&p->forward);
    fft_destroy(&p->inverse);
    void *buffers[] = {p->in, p->half, p->wide, p->grey, p->pixels};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
    mem_free(picture);
}

static enum status shape(struct pick_picture **picture, const struct pick_geometry *g, struct err *err) {
    const struct pick_geometry *have = *picture ? &(*picture)->geometry : NULL;
    if (have && have->nx == g->nx && have->ny == g->ny && have->size == g->size && have->work == g->work)
        return STATUS_OK;
    struct pick_picture *p = NULL;
    pick_picture_destroy(picture);
    TRY(mem_new(1, sizeof *p, "picture", &p, err));
    enum status status = build(p, g, err);
    if (status != STATUS_OK) {
        pick_picture_destroy(&p);
        return status;
    }
    *picture = p;
    return STATUS_OK;
}

/* Paints the micrograph's part of the square, mean ± CONTRAST standard deviations from black to white. */
static void paint_grey(struct pick_picture *p) {
    int x0 = (int)(normalise_offset(p->geometry.size, p->geometry.nx) * p->scale);
    int y0 = (int)(normalise_offset(p->geometry.size, p->geometry.ny) * p->scale);
    size_t count = (size_t)p->nx * p->ny;
    double sum = 0, squares = 0;
    for (int y = 0; y < p->ny; y++)
        for (int x = 0; x < p->nx; x++) {
            double value = p->grey[(size_t)(y + y0) * p->size + x + x0];
            sum += value;
            squares += value * value;
        }
    float mean = (float)(sum / count),
          deviation = (float)sqrt(fmax(squares / count - (sum / count) * (sum / count), 0));
    const float white = GREYS - 1;
    float factor = deviation > 0 ? white / (2 * CONTRAST * deviation) : 0;
    uint8_t *out = p->pixels;
    for (int y = 0; y < p->ny; y++)
        for (int x = 0; x < p->nx; x++) {
            float value = white / 2 + factor * (p->grey[(size_t)(y + y0) * p->size + x + x0] - mean);
            *out++ = (uint8_t)fmaxf(0, fminf(white, value));
        }
}

/* Tints pixels where mask[work²] of the maps is not 0. */
static void tint(struct pick_picture *p, const uint8_t *mask) {
    int x0 = (int)(normalise_offset(p->geometry.size, p->geometry.nx) * p->scale);
    int y0 = (int)(normalise_offset(p->geometry.size, p->geometry.ny) * p->scale);
    int64_t work = p->geometry.work;
    for (int y = 0; y < p->ny; y++) {
        const uint8_t *line = mask + (size_t)((y + y0) * work / p->size * work);
        uint8_t *out = p->pixels + (size_t)y * p->nx;
        for (int x = 0; x < p->nx; x++)
            if (line[(x + x0) * work / p->size]) out[x] = (uint8_t)(out[x] + TINTED);
    }
}

static void dot(struct pick_picture *p, int x, int y) {
    if (x < 0 || y < 0 || x >= p->nx || y >= p->ny) return;
    p->pixels[(size_t)y * p->nx + x] = MARK;
}

static void circle(struct pick_picture *p, double x, double y, double radius) {
    int steps = (int)ceil(2 * M_PI * radius * 1.5) + 8;
    for (int i = 0; i < steps; i++) {
        double angle = 2 * M_PI * i / steps;
        dot(p, (int)lround(x + radius * cos(angle)), (int)lround(y + radius * sin(angle)));
    }
}

enum status pick_picture_draw(struct pick_picture **picture, const struct pick_maps *maps,
                              const struct pick_list *picks, struct err *err) {
    const struct pick_geometry *g = &maps->geometry;
    TRY(shape(picture, g, err));
    struct pick_picture *p = *picture;
    size_t work = (size_t)g->work;
    float factor = 1.0f / ((float)work * (float)work);
    memcpy(p->in, maps->maps.image, work * work * sizeof *p->in);
    fft_run(p->forward, p->in, p->half);
    if (p->size < g->work)
        fourier_window_crop(p->half, g->work, p->size, factor, p->wide);
    else
        fourier_window_fill(p->half, g->work, p->size, factor, p->wide);
    fft_run(p->inverse, p->wide, p->grey);
    paint_grey(p);
    if (picks->mask) tint(p, picks->mask);
    double radius = g->diameter / g->pixel_size / 2 * p->scale;
    for (size_t i = 0; i < picks->count; i++) {
        double x = picks->items[i].x * p->scale, y = picks->items[i].y * p->scale;
        circle(p, x, y, radius);
        if (radius > 8) circle(p, x, y, radius - 1);
    }
    return STATUS_OK;
}

enum status pick_picture_write(const struct pick_picture *p, const char *path, struct err *err) {
    uint8_t palette[PICTURE_COLOURS][3] = {{0}};
    for (int i = 0; i < GREYS; i++)
        for (int c = 0; c < 3; c++) {
            palette[i][c] = (uint8_t)(i * 255 / (GREYS - 1));
            palette[TINTED + i][c] = c == 0 ? palette[i][c] : (uint8_t)(TINT * palette[i][c]);
        }
    memcpy(palette[MARK], COLOUR, sizeof COLOUR);
    return picture_write_palette(path, p->nx, p->ny, p->pixels, palette, err);
}
