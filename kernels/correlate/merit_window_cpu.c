#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/correlate/correlate.h"
#include "kernels/fourier/window.h"

/* A is band-limited to work/2, and so A² to work: a grid of twice the work size samples both without aliasing. By
 * Parseval their sums over the pixels of the circle are sums over that grid, with the circle cut to its band. */
struct merit_window {
    int size, work, grid;
    double count;  /* pixels of the circle */
    float *circle; /* grid², centred at index 0 */
    float *product, *spectrum, *real;
    struct fft_plan *inverse;
};

static enum status make_circle(struct merit_window *w, int box, double radius, int threads, struct err *err) {
    int size = w->size;
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *half = NULL;
    struct fft_plan *forward = NULL;
    TRY(mem_new((size_t)size * size, sizeof *real, "particle mask", &real, err));
    TRY(mem_new((size_t)size * (size + 2), sizeof *half, "particle mask", &half, err));
    for (int j = -box / 2; j < box / 2; j++)
        for (int i = -box / 2; i < box / 2; i++)
            if (i * i + j * j < radius * radius) {
                real[(size_t)((j + size) % size) * size + (i + size) % size] = 1;
                w->count++;
            }
    struct fft_options options = {.rank = 2, .shape = {size, size}, .direction = FFT_FORWARD, .threads = threads};
    TRY(fft_create(&options, &forward, err));
    fft_run(forward, real, half);
    fft_destroy(&forward);
    fourier_window_crop(half, size, w->grid, 1.0f / ((float)size * (float)size), w->spectrum);
    fft_run(w->inverse, w->spectrum, w->circle);
    return STATUS_OK;
}

static enum status build(struct merit_window *w, int box, double radius, int threads, struct err *err) {
    size_t floats = (size_t)w->grid * (w->grid + 2);
    TRY(mem_new((size_t)w->work * (w->work + 2), sizeof(float), "template power", &w->product, err));
    TRY(mem_new(floats, sizeof(float), "template power", &w->spectrum, err));
    TRY(mem_new(floats, sizeof(float), "template power", &w->real, err));
    TRY(mem_new(floats, sizeof(float), "template power", &w->circle, err));
    struct fft_options options = {.rank = 2, .shape = {w->grid, w->grid}, .direction = FFT_INVERSE, .threads = threads};
    TRY(fft_create(&options, &w->inverse, err));
    return make_circle(w, box, radius, threads, err);
}

enum status merit_window_create(int size, int work, int box, double radius, int threads,
                                struct merit_window **ret_window, struct err *err) {
    struct merit_window *w = NULL;
    TRY(mem_new(1, sizeof *w, "template power", &w, err));
    w->size = size;
    w->work = work;
    w->grid = 2 * work < size ? 2 * work : size;
    enum status status = build(w, box, radius, threads, err);
    if (status != STATUS_OK) {
        merit_window_destroy(&w);
        return status;
    }
    *ret_window = w;
    return STATUS_OK;
}

void merit_window_destroy(struct merit_window **window) {
    if (!*window) return;
    fft_destroy(&(*window)->inverse);
    free((*window)->circle);
    free((*window)->product);
    free((*window)->spectrum);
    free((*window)->real);
    mem_free(window);
}

MULTIVERSION static void sums(const float *image, const float *circle, size_t count, double *sum, double *squares) {
    double s = 0, q = 0;
#pragma omp simd reduction(+ : s, q)
    for (size_t i = 0; i < count; i++) {
        double value = image[i], weighted = value * circle[i];
        s += weighted;
        q += weighted * value;
    }
    *sum = s;
    *squares = q;
}

void merit_window_terms(struct merit_window *w, const float *spectrum, const float *ctf,
                        struct merit_terms *ret_terms) {
    size_t half = (size_t)w->work * (w->work / 2 + 1);
    float factor = 1.0f / ((float)w->size * (float)w->size);
    for (size_t i = 0; i < half; i++) {
        float scale = ctf ? ctf[i] : 1;
        w->product[2 * i] = spectrum[2 * i] * scale;
        w->product[2 * i + 1] = spectrum[2 * i + 1] * scale;
    }
    fourier_window_fill(w->product, w->work, w->grid, factor, w->spectrum);
    fft_run(w->inverse, w->spectrum, w->real);
    double sum = 0, squares = 0;
    sums(w->real, w->circle, (size_t)w->grid * w->grid, &sum, &squares);
    double area = (double)w->size / w->grid;
    ret_terms->mean = sum * area * area / (w->count + 1);
    ret_terms->power = squares * area * area / (w->count + 1);
    /* Rounding may leave a power a little below 0. */
    if (ret_terms->power < 0) ret_terms->power = 0;
}
