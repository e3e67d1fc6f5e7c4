/* TIFF files through libtiff: integers of 1 to 64 bits, floats of 16, 32 and 64, any compression that libtiff was built
 * with, strips and tiles, several pages (slices of the image), BigTIFF, both byte orders.
 *
 * Row 0 of the file, the top line, is row 0 of the image (see image_read_micrograph). Colour becomes luminance
 * (0.2126 R + 0.7152 G + 0.0722 B), palettes are applied, an alpha channel is left out, min-is-white becomes
 * min-is-black. Pages that are previews or masks are skipped; the others must have one shape. The pixel size is that of
 * the resolution tags where they give between 0.01 and 100 Å, else 0 (most programs write 72 dots an inch). */
#ifndef ICESTREAM_COMMON_FORMATS_TIFF_H
#define ICESTREAM_COMMON_FORMATS_TIFF_H

#include "common/formats/image.h"
#include "common/status.h"

/* As image_probe. */
enum status tiff_probe(const char *path, struct image_info *ret_info, struct err *err);
enum status tiff_read(const char *path, struct image *image, struct err *err);
/* One page, from 0, previews and masks not counted. */
enum status tiff_read_page(const char *path, int page, struct image *image, struct err *err);

#endif
