/* Shared by tiff.c, tiff_pages.c, tiff_walk.c and tiff_pixels.c. */
#ifndef ICESTREAM_COMMON_FORMATS_TIFF_PRIVATE_H
#define ICESTREAM_COMMON_FORMATS_TIFF_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tiffio.h>

#include "common/status.h"

/* Checks that each directory of the file, and each value that a directory points to, lies inside the file. So a growing
 * file (STATUS_TRUNCATED) differs from a broken one, which libtiff cannot tell. */
enum status tiff_walk(const char *path, int descriptor, int64_t size, struct err *err);

enum tiff_sample { SAMPLE_UNSIGNED, SAMPLE_SIGNED, SAMPLE_FLOAT };

/* Converts count samples of `bits` bits to float32. libtiff packs whole bytes in machine order, other samples from the
 * highest bit of each byte. */
void tiff_to_float(enum tiff_sample sample, int bits, const void *packed, size_t count, float *out);

/* Shape and type of a directory. */
struct tiff_page {
    uint32_t nx, ny;
    enum tiff_sample sample;
    uint16_t bits, samples, planar, photometric, compression;
    bool tiled;
    uint32_t block_nx, block_ny; /* a tile, or a strip */
    const uint16_t *palette[3];  /* libtiff's; NULL without one */
    float pixel_size;
};

struct tiff_reader {
    TIFF *tiff;
    const char *path;
    int descriptor;
    int64_t size;
    char message[256]; /* the first error message of libtiff */
    struct err *err;
};

struct tiff_buffers {
    unsigned char *block; /* one decoded strip or tile */
    float *row;           /* one row of the block */
    size_t block_bytes, row_samples;
};

/* Opens a file. path and err are kept: they must outlive the reader, or be replaced. */
enum status tiff_reader_open(struct tiff_reader *r, const char *path, struct err *err);
void tiff_reader_close(struct tiff_reader *r);
/* Fails with a message about a directory, which counts from 0. */
enum status tiff_bad_page(const struct tiff_reader *r, uint32_t directory, const char *what);
/* Returns whether the current directory holds a preview or a mask. */
bool tiff_is_extra(TIFF *tiff);
/* Reads shape and type of the current directory. */
enum status tiff_page_shape(struct tiff_reader *r, struct tiff_page *ret_page);
/* Walks all pages for their shape and number. Leaves the reader at the last directory. */
enum status tiff_survey(struct tiff_reader *r, struct tiff_page *ret_first, int *ret_count);
/* Returns the bytes of a pixel that is a whole number from 0 on: 1 or 2; 0 for all other pixels. */
int tiff_count_bytes(const struct tiff_page *page);

void tiff_buffers_free(struct tiff_buffers *b);
/* Makes the buffers anew where they are too small for a page. */
enum status tiff_buffers_fit(struct tiff_reader *r, const struct tiff_page *p, struct tiff_buffers *b);
/* Decodes the strip or tile at pixel (x, y) into b->block. ret_row_bytes: from one row of the block to the next. */
enum status tiff_block_decode(struct tiff_reader *r, const struct tiff_page *p, struct tiff_buffers *b, uint32_t x,
                              uint32_t y, int plane, size_t *ret_row_bytes);
/* Reads the current directory into out[ny][nx]. */
enum status tiff_page_read(struct tiff_reader *r, const struct tiff_page *p, struct tiff_buffers *b, float *out);

#endif
