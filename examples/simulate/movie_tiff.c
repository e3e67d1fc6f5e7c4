#include <stdbool.h>
#include <stdlib.h>
#include <tiffio.h>

#include "common/memory.h"
#include "examples/simulate/lzw.h"
#include "examples/simulate/movie_files_private.h"

enum { STRIP_BYTES = 1 << 18 };
static const double CLASSIC_BYTES = 3.5e9; /* beyond this a file of random counts may not fit 32-bit offsets */

struct movie_tiff {
    struct movie_file_task task;
    int bytes, rows, strips; /* of a pixel; of a strip; strips a page */
    TIFF *file;
    const char *path;
    uint8_t *pixels; /* a page, the top line first */
    uint8_t *packed; /* [strips] of `bound` bytes */
    size_t *length;
    size_t bound;
};

void movie_tiff_destroy(struct movie_tiff **tiff) {
    if (tiff == NULL || *tiff == NULL) return;
    if ((*tiff)->file != NULL) TIFFClose((*tiff)->file);
    free((*tiff)->pixels);
    free((*tiff)->packed);
    free((*tiff)->length);
    mem_free(tiff);
}

enum status movie_tiff_create(const struct movie_file_task *task, struct movie_tiff **ret_tiff, struct err *err) {
    _cleanup_(movie_tiff_destroy) struct movie_tiff *t = NULL;
    TRY(mem_new(1, sizeof *t, "a TIFF movie", &t, err));
    t->task = *task;
    t->bytes = task->mode == MOVIE_FILE_INT8 ? 1 : 2;
    size_t row = (size_t)task->nx * (size_t)t->bytes;
    t->rows = row > STRIP_BYTES ? 1 : (int)(STRIP_BYTES / row);
    if (t->rows > task->ny) t->rows = task->ny;
    t->strips = (task->ny + t->rows - 1) / t->rows;
    t->bound = lzw_bound(row * (size_t)t->rows);
    TRY(mem_new(row * (size_t)task->ny, 1, "a page", &t->pixels, err));
    TRY(mem_new((size_t)t->strips, t->bound, "compressed strips", &t->packed, err));
    TRY(mem_new((size_t)t->strips, sizeof *t->length, "compressed strips", &t->length, err));
    *ret_tiff = t;
    t = NULL;
    return STATUS_OK;
}

enum status movie_tiff_begin(struct movie_tiff *t, const char *path, struct err *err) {
    double bytes = (double)t->task.nx * t->task.ny * t->task.frames * t->bytes;
    t->path = path;
    t->file = TIFFOpen(path, bytes > CLASSIC_BYTES ? "w8l" : "wl");
    FAIL_IF(t->file == NULL, err, STATUS_IO, "%s: cannot be written", path);
    return STATUS_OK;
}

/* Copies one line of the file, which begins with the top line. */
static void take_line(const struct movie_tiff *t, const uint16_t *counts, int line) {
    size_t nx = (size_t)t->task.nx;
    const uint16_t *from = counts + (size_t)(t->task.ny - 1 - line) * nx;
    uint8_t *to = t->pixels + (size_t)line * nx * (size_t)t->bytes;
    for (size_t x = 0; x < nx; x++)
        if (t->bytes == 1) {
            to[x] = from[x] > UINT8_MAX ? UINT8_MAX : (uint8_t)from[x];
        } else {
            to[2 * x] = (uint8_t)(from[x] & 255);
            to[2 * x + 1] = (uint8_t)(from[x] >> 8);
        }
}

static bool describe_page(const struct movie_tiff *t) {
    float per_centimetre = (float)(1e8 / t->task.pixel_size);
    return TIFFSetField(t->file, TIFFTAG_IMAGEWIDTH, (uint32_t)t->task.nx) == 1 &&
           TIFFSetField(t->file, TIFFTAG_IMAGELENGTH, (uint32_t)t->task.ny) == 1 &&
           TIFFSetField(t->file, TIFFTAG_BITSPERSAMPLE, (uint16_t)(8 * t->bytes)) == 1 &&
           TIFFSetField(t->file, TIFFTAG_SAMPLEFORMAT, (uint16_t)SAMPLEFORMAT_UINT) == 1 &&
           TIFFSetField(t->file, TIFFTAG_SAMPLESPERPIXEL, (uint16_t)1) == 1 &&
           TIFFSetField(t->file, TIFFTAG_PHOTOMETRIC, (uint16_t)PHOTOMETRIC_MINISBLACK) == 1 &&
           TIFFSetField(t->file, TIFFTAG_COMPRESSION, (uint16_t)COMPRESSION_LZW) == 1 &&
           TIFFSetField(t->file, TIFFTAG_ROWSPERSTRIP, (uint32_t)t->rows) == 1 &&
           TIFFSetField(t->file, TIFFTAG_RESOLUTIONUNIT, (uint16_t)RESUNIT_CENTIMETER) == 1 &&
           TIFFSetField(t->file, TIFFTAG_XRESOLUTION, per_centimetre) == 1 &&
           TIFFSetField(t->file, TIFFTAG_YRESOLUTION, per_centimetre) == 1;
}

enum status movie_tiff_append(struct movie_tiff *t, const uint16_t *counts, struct err *err) {
    size_t row = (size_t)t->task.nx * (size_t)t->bytes;
#pragma omp parallel for num_threads(t->task.threads) schedule(dynamic)
    for (int strip = 0; strip < t->strips; strip++) {
        int first = strip * t->rows, end = first + t->rows > t->task.ny ? t->task.ny : first + t->rows;
        for (int line = first; line < end; line++)
            take_line(t, counts, line);
        t->length[strip] = lzw_encode(t->pixels + (size_t)first * row, (size_t)(end - first) * row,
                                      t->packed + (size_t)strip * t->bound);
    }
    bool good = describe_page(t);
    for (int strip = 0; good && strip < t->strips; strip++)
        good = TIFFWriteRawStrip(t->file, (uint32_t)strip, t->packed + (size_t)strip * t->bound,
                                 (tmsize_t)t->length[strip]) == (tmsize_t)t->length[strip];
    FAIL_IF(!good || TIFFWriteDirectory(t->file) != 1, err, STATUS_IO, "%s: writing failed", t->path);
    return STATUS_OK;
}

enum status movie_tiff_finish(struct movie_tiff *t, struct err *err) {
    bool good = TIFFFlush(t->file) == 1;
    TIFFClose(t->file);
    t->file = NULL;
    FAIL_IF(!good, err, STATUS_IO, "%s: writing failed", t->path);
    return STATUS_OK;
}
