#include "stages/lowpass-picker/pick_picture.h"

#include <math.h>
#include <stdlib.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/fourier/window.h"

enum { WIDTH = 1000 };
/* Grey from so many standard deviations below to above the mean. */
static const float CONTRAST = 3;
static const uint8_t COLOUR[3] = {80, 220, 60};

struct pick_picture {
    int nx, ny;         /* of the micrograph */
    int size, work;     /* of the picture of the square, of the transform */
    double scale;       /* picture px per micrograph px */
    float *half, *grey; /* size (size+2), size² */
    struct fft_plan *inverse;
};

void picture_buffer_destroy(struct picture_buffer *buffer) {
    free(buffer->pixels);
    *buffer = (struct picture_buffer){0};
}

static enum status build(struct pick_picture *p, const struct picker_view *view, struct err *err) {
    int size = fft_good_size(view->size < WIDTH ? view->size : WIDTH);
    p->work = view->work;
    /* The transform is filled up, never cut: the picture shows all that was searched. */
    p->size = size > view->work ? size : view->work;
    p->scale = (double)p->size / view->size;
    TRY(mem_new((size_t)p->size * (p->size + 2), sizeof(float), "picture", &p->half, err));
    TRY(mem_new((size_t)p->size * p->size, sizeof(float), "picture", &p->grey, err));
    struct fft_options options = {.rank = 2, .shape = {p->size, p->size}, .direction = FFT_INVERSE};
    return fft_create(&options, &p->inverse, err);
}

enum status pick_picture_create(const struct picker *picker, int nx, int ny, struct pick_picture **ret_picture,
                                struct err *err) {
    struct pick_picture *p = NULL;
    struct picker_view view = picker_view(picker);
    TRY(mem_new(1, sizeof *p, "picture", &p, err));
    p->nx = nx;
    p->ny = ny;
    enum status status = build(p, &view, err);
    if (status != STATUS_OK) {
        pick_picture_destroy(&p);
        return status;
    }
    *ret_picture = p;
    return STATUS_OK;
}

void pick_picture_destroy(struct pick_picture **picture) {
    if (!*picture) return;
    fft_destroy(&(*picture)->inverse);
    free((*picture)->half);
    free((*picture)->grey);
    mem_free(picture);
}

static enum status shape(struct picture_buffer *buffer, int nx, int ny, struct err *err) {
    if (buffer->nx == nx && buffer->ny == ny) return STATUS_OK;
    picture_buffer_destroy(buffer);
    TRY(mem_new((size_t)nx * ny * 3, 1, "picture", &buffer->pixels, err));
    buffer->nx = nx;
    buffer->ny = ny;
    return STATUS_OK;
}

/* The micrograph's part of the square, mean ± CONTRAST standard deviations to 0..255. */
static void paint_grey(const struct pick_picture *p, int x0, int y0, struct picture_buffer *buffer) {
    size_t count = (size_t)buffer->nx * buffer->ny;
    double sum = 0, squares = 0;
    for (int y = 0; y < buffer->ny; y++)
        for (int x = 0; x < buffer->nx; x++) {
            double value = p->grey[(size_t)(y + y0) * p->size + x + x0];
            sum += value;
            squares += value * value;
        }
    float mean = (float)(sum / count), deviation = (float)sqrt(fmax(squares / count - (sum / count) * (sum / count), 0));
    float factor = deviation > 0 ? 127.5f / (CONTRAST * deviation) : 0;
    uint8_t *out = buffer->pixels;
    for (int y = 0; y < buffer->ny; y++)
        for (int x = 0; x < buffer->nx; x++, out += 3) {
            float value = 127.5f + factor * (p->grey[(size_t)(y + y0) * p->size + x + x0] - mean);
            out[0] = out[1] = out[2] = (uint8_t)fmaxf(0, fminf(255, value));
        }
}

static void dot(struct picture_buffer *buffer, int x, int y) {
    if (x < 0 || y < 0 || x >= buffer->nx || y >= buffer->ny) return;
    for (int c = 0; c < 3; c++)
        buffer->pixels[((size_t)y * buffer->nx + x) * 3 + c] = COLOUR[c];
}

static void circle(struct picture_buffer *buffer, double x, double y, double radius) {
    int steps = (int)ceil(2 * M_PI * radius * 1.5) + 8;
    for (int i = 0; i < steps; i++) {
        double angle = 2 * M_PI * i / steps;
        dot(buffer, (int)lround(x + radius * cos(angle)), (int)lround(y + radius * sin(angle)));
    }
}

enum status pick_picture_draw(struct pick_picture *p, const struct picker *picker, const struct pick_list *picks,
                              struct picture_buffer *buffer, struct err *err) {
    struct picker_view view = picker_view(picker);
    int nx = (int)(p->nx * p->scale), ny = (int)(p->ny * p->scale);
    TRY(shape(buffer, nx > 0 ? nx : 1, ny > 0 ? ny : 1, err));
    fourier_window_fill(view.spectrum, p->work, p->size, 1, p->half);
    fft_run(p->inverse, p->half, p->grey);
    paint_grey(p, (int)(view.offset_x * p->scale), (int)(view.offset_y * p->scale), buffer);
    for (size_t i = 0; i < picks->count; i++) {
        double x = picks->items[i].x * p->scale, y = picks->items[i].y * p->scale;
        double radius = view.diameter / 2 * p->scale;
        circle(buffer, x, y, radius);
        if (radius > 8) circle(buffer, x, y, radius - 1);
    }
    return STATUS_OK;
}
