/* Reads TIFF files with libtiff: integers of 1 to 64 bits, floats of 16, 32 and 64, any compression of the libtiff
 * build, strips and tiles, several pages (slices of the image), BigTIFF, both byte orders.
 *
 * Row 0 of the file, the top line, is row 0 of the image (see image_read_micrograph). Colour becomes luminance (0.2126
 * R + 0.7152 G + 0.0722 B), palettes are applied, an alpha channel is ignored, min-is-white becomes min-is-black.
 * Previews and masks among the pages are skipped; the other pages must have one shape. The pixel size comes from the
 * resolution tags if they give 0.01 to 100 Å, else it is 0 (most programs write 72 dots an inch). */
#ifndef ICESTREAM_COMMON_FORMATS_TIFF_H
#define ICESTREAM_COMMON_FORMATS_TIFF_H

#include "common/formats/image.h"
#include "common/status.h"

/* As image_probe. */
enum status tiff_probe(const char *path, struct image_info *ret_info, struct err *err);
/* Reads all pages as float32 into `image` and reuses its memory. */
enum status tiff_read(const char *path, struct image *image, struct err *err);
/* Reads one page. Pages count from 0, without previews and masks. */
enum status tiff_read_page(const char *path, int page, struct image *image, struct err *err);

/* An open file whose pages are read one by one, in any order. One thread at a time may use it; several threads open
 * one each. */
struct tiff_pages;
enum status tiff_pages_open(const char *path, struct tiff_pages **ret_pages, struct err *err);
/* Returns the shape, as tiff_probe gives it; nz is the number of pages. */
struct image_info tiff_pages_info(const struct tiff_pages *pages);
/* Reads page `page`, from 0 on, into out[ny * nx]. Allocates nothing after the first page. */
enum status tiff_pages_read(struct tiff_pages *pages, int page, float *out, struct err *err);
/* Reads a page of whole numbers (image_info.count_bytes) into out[ny * nx] of uint8_t or uint16_t, the last line of the
 * file first. STATUS_BAD_FORMAT: this page holds other pixels than the first. */
enum status tiff_pages_read_counts(struct tiff_pages *pages, int page, void *out, struct err *err);
void tiff_pages_close(struct tiff_pages **pages);

#endif
