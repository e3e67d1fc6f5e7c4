#include "pipelines/launcher/api/shrink.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"

void shrink_bin(const float *in, int nx, int ny, int factor, float *out) {
    const int across = nx / factor, down = ny / factor;
    const float scale = 1.0f / ((float)factor * (float)factor);
    for (int y = 0; y < down; y++)
        for (int x = 0; x < across; x++) {
            float sum = 0;
            for (int dy = 0; dy < factor; dy++)
                for (int dx = 0; dx < factor; dx++)
                    sum += in[(size_t)(y * factor + dy) * (size_t)nx + (size_t)(x * factor + dx)];
            out[(size_t)y * (size_t)across + (size_t)x] = sum * scale;
        }
}

void shrink_grey(const float *values, size_t count, double deviations, uint8_t *out) {
    double sum = 0, squares = 0;
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
        known++;
    }
    const double mean = known > 0 ? sum / (double)known : 0;
    const double variance = known > 0 ? squares / (double)known - mean * mean : 0;
    const double scale = variance > 0 ? 127.5 / (deviations * sqrt(variance)) : 0;
    for (size_t i = 0; i < count; i++) {
        double grey = isfinite(values[i]) ? 127.5 + ((double)values[i] - mean) * scale : 127.5;
        out[i] = (uint8_t)(grey < 0 ? 0 : grey > 255 ? 255 : lround(grey));
    }
}

void shrink_grey_span(const float *values, size_t count, double left_out, uint8_t *out) {
    enum { BINS = 2048 };
    size_t counts[BINS] = {0}, known = 0, below = 0;
    float lowest = INFINITY, highest = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        lowest = fminf(lowest, values[i]);
        highest = fmaxf(highest, values[i]);
        known++;
    }
    const double width = ((double)highest - (double)lowest) / BINS;
    const bool flat = known == 0 || width <= 0 || !isfinite(width);
    for (size_t i = 0; !flat && i < count; i++) {
        if (!isfinite(values[i])) continue;
        int bin = (int)(((double)values[i] - (double)lowest) / width);
        counts[bin < BINS ? bin : BINS - 1]++;
    }
    const double least = left_out * (double)known, most = (double)known - least;
    int first = 0, last = BINS;
    for (int bin = 0; !flat && bin < BINS; bin++) {
        if ((double)below <= least) first = bin;
        if ((double)below < most) last = bin + 1;
        below += counts[bin];
    }
    const double low = (double)lowest + first * width, scale = flat ? 0 : 255 / ((last - first) * width);
    for (size_t i = 0; i < count; i++) {
        double grey = flat || !isfinite(values[i]) ? 127.5 : ((double)values[i] - low) * scale;
        out[i] = (uint8_t)(grey < 0 ? 0 : grey > 255 ? 255 : lround(grey));
    }
}

struct shrink_lines {
    int size, kept;
    struct fft_plan *forward, *inverse;
    float *in, *spectrum, *cut, *out;
};

enum status shrink_lines_create(int size, int kept, struct shrink_lines **ret_lines, struct err *err) {
    FAIL_IF(kept < 2 || kept > size || kept % 2 != 0 || size % 2 != 0, err, STATUS_UNSUPPORTED,
            "%d values cannot be cut to %d frequencies: both must be even", size, kept);
    _cleanup_(shrink_lines_destroy) struct shrink_lines *lines = calloc(1, sizeof *lines);
    FAIL_IF(lines == NULL, err, STATUS_NO_MEMORY, "no memory to shrink a volume");
    *lines = (struct shrink_lines){.size = size, .kept = kept};
    TRY(fft_create(&(struct fft_options){.rank = 1, .shape = {size}, .direction = FFT_FORWARD}, &lines->forward, err));
    TRY(fft_create(&(struct fft_options){.rank = 1, .shape = {kept}, .direction = FFT_INVERSE}, &lines->inverse, err));
    TRY(mem_new((size_t)size, sizeof(float), "a line of a volume", &lines->in, err));
    TRY(mem_new((size_t)size + 2, sizeof(float), "a line of a volume", &lines->spectrum, err));
    TRY(mem_new((size_t)kept + 2, sizeof(float), "a line of a volume", &lines->cut, err));
    TRY(mem_new((size_t)kept, sizeof(float), "a line of a volume", &lines->out, err));
    *ret_lines = lines;
    lines = NULL;
    return STATUS_OK;
}

void shrink_lines_destroy(struct shrink_lines **lines) {
    if (*lines == NULL) return;
    fft_destroy(&(*lines)->forward);
    fft_destroy(&(*lines)->inverse);
    mem_free(&(*lines)->in);
    mem_free(&(*lines)->spectrum);
    mem_free(&(*lines)->cut);
    mem_free(&(*lines)->out);
    mem_free(lines);
}

void shrink_line(struct shrink_lines *lines, const float *in, size_t stride, float *out, size_t out_stride) {
    const int size = lines->size, kept = lines->kept;
    for (int i = 0; i < size; i++)
        lines->in[i] = in[(size_t)i * stride];
    fft_run(lines->forward, lines->in, lines->spectrum);
    const float scale = 1.0f / (float)size;
    for (int i = 0; i < kept + 2; i++)
        lines->cut[i] = lines->spectrum[i] * scale;
    /* The highest frequency of an even line stands for both of its signs: it has no phase. */
    if (kept < size) lines->cut[kept] = lines->cut[kept + 1] = 0;
    fft_run(lines->inverse, lines->cut, lines->out);
    for (int i = 0; i < kept; i++)
        out[(size_t)i * out_stride] = lines->out[i];
}

/* Buffers of one volume. */
struct volume {
    struct shrink_lines *x, *y, *z;
    float *slice, *rows, *planes; /* [ny][nx], [ny][kept], [nz][kept][kept] */
};

static void volume_clear(struct volume *volume) {
    shrink_lines_destroy(&volume->x);
    shrink_lines_destroy(&volume->y);
    shrink_lines_destroy(&volume->z);
    mem_free(&volume->slice);
    mem_free(&volume->rows);
    mem_free(&volume->planes);
}

enum status shrink_volume(shrink_read *read, void *context, const int shape[3], int kept, float *out, struct err *err) {
    const int nz = shape[0], ny = shape[1], nx = shape[2];
    const size_t n = (size_t)kept;
    _cleanup_(volume_clear) struct volume v = {0};
    TRY(shrink_lines_create(nx, kept, &v.x, err));
    TRY(shrink_lines_create(ny, kept, &v.y, err));
    TRY(shrink_lines_create(nz, kept, &v.z, err));
    TRY(mem_new((size_t)ny * (size_t)nx, sizeof(float), "a slice", &v.slice, err));
    TRY(mem_new((size_t)ny * n, sizeof(float), "a slice", &v.rows, err));
    TRY(mem_new((size_t)nz * n * n, sizeof(float), "a volume", &v.planes, err));
    for (int z = 0; z < nz; z++) {
        TRY(read(context, z, v.slice, err));
        for (size_t y = 0; y < (size_t)ny; y++)
            shrink_line(v.x, v.slice + y * (size_t)nx, 1, v.rows + y * n, 1);
        for (size_t x = 0; x < n; x++)
            shrink_line(v.y, v.rows + x, n, v.planes + (size_t)z * n * n + x, n);
    }
    for (size_t i = 0; i < n * n; i++)
        shrink_line(v.z, v.planes + i, n * n, out + i, n * n);
    return STATUS_OK;
}
