#include <stddef.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/fourier/forward.h"

/* Columns transformed together: as many as fit into one cache line of the rows. */
enum { GROUP = 8 };

struct fourier_forward {
    int size, columns, threads;
    struct fft_plan *row, *column;
    float **scratch; /* [threads]: a row and its transform, or a group of columns */
};

static enum status build(struct fourier_forward *f, struct err *err) {
    struct fft_options row = {.rank = 1, .shape = {f->size}, .direction = FFT_FORWARD};
    struct fft_options column = {.rank = 1, .shape = {f->size}, .direction = FFT_COMPLEX};
    TRY(fft_create(&row, &f->row, err));
    TRY(fft_create(&column, &f->column, err));
    TRY(mem_new((size_t)f->threads, sizeof *f->scratch, "Fourier transform", &f->scratch, err));
    for (int t = 0; t < f->threads; t++)
        TRY(mem_new((size_t)2 * GROUP * (size_t)f->size + 32, sizeof(float), "Fourier transform", &f->scratch[t], err));
    return STATUS_OK;
}

enum status fourier_forward_create(int size, int columns, int threads, struct fourier_forward **ret_forward,
                                   struct err *err) {
    struct fourier_forward *f = NULL;
    FAIL_IF(size < 2 || size % 2 || columns < 1 || columns > size / 2 + 1, err, STATUS_BAD_ARGUMENT,
            "%d columns cannot be transformed in a square of %d px", columns, size);
    TRY(mem_new(1, sizeof *f, "Fourier transform", &f, err));
    f->size = size;
    f->columns = columns;
    f->threads = threads > 0 ? threads : 1;
    enum status status = build(f, err);
    if (status != STATUS_OK) {
        fourier_forward_destroy(&f);
        return status;
    }
    *ret_forward = f;
    return STATUS_OK;
}

void fourier_forward_destroy(struct fourier_forward **forward) {
    struct fourier_forward *f = *forward;
    if (!f) return;
    fft_destroy(&f->row);
    fft_destroy(&f->column);
    for (int t = 0; f->scratch && t < f->threads; t++)
        free(f->scratch[t]);
    free(f->scratch);
    mem_free(forward);
}

static void transform_rows(const struct fourier_forward *f, const float *in, int first, int last, float *scratch,
                           float *out) {
    size_t n = (size_t)f->size;
    /* FFTW may overwrite its input, and needs the alignment that it planned for. */
    float *row = scratch, *spectrum = scratch + (n + 15) / 16 * 16;
    for (int y = first; y < last; y++) {
        memcpy(row, in + (size_t)y * n, n * sizeof *row);
        fft_run(f->row, row, spectrum);
        memcpy(out + 2 * (size_t)y * (size_t)f->columns, spectrum, 2 * (size_t)f->columns * sizeof *out);
    }
}

MULTIVERSION static void gather(const float *rows, size_t stride, int count, size_t n, float *group) {
    for (size_t y = 0; y < n; y++)
        for (int i = 0; i < count; i++) {
            group[2 * (i * n + y)] = rows[y * stride + 2 * i];
            group[2 * (i * n + y) + 1] = rows[y * stride + 2 * i + 1];
        }
}

MULTIVERSION static void scatter(const float *group, int count, size_t n, size_t stride, float *rows) {
    for (size_t y = 0; y < n; y++)
        for (int i = 0; i < count; i++) {
            rows[y * stride + 2 * i] = group[2 * (i * n + y)];
            rows[y * stride + 2 * i + 1] = group[2 * (i * n + y) + 1];
        }
}

static void transform_columns(const struct fourier_forward *f, int first, float *scratch, float *out) {
    size_t n = (size_t)f->size, stride = 2 * (size_t)f->columns;
    int count = f->columns - first < GROUP ? f->columns - first : GROUP;
    gather(out + 2 * (size_t)first, stride, count, n, scratch);
    for (int i = 0; i < count; i++)
        fft_run(f->column, scratch + 2 * i * n, scratch + 2 * i * n);
    scatter(scratch, count, n, stride, out + 2 * (size_t)first);
}

void fourier_forward_run(const struct fourier_forward *f, const float *in, float *out) {
    int groups = (f->columns + GROUP - 1) / GROUP;
#pragma omp parallel for num_threads(f->threads) schedule(static, 1)
    for (int t = 0; t < f->threads; t++)
        transform_rows(f, in, (int)((long)f->size * t / f->threads), (int)((long)f->size * (t + 1) / f->threads),
                       f->scratch[t], out);
#pragma omp parallel for num_threads(f->threads) schedule(static, 1)
    for (int t = 0; t < f->threads; t++)
        for (int group = t; group < groups; group += f->threads)
            transform_columns(f, group * GROUP, f->scratch[t], out);
}
