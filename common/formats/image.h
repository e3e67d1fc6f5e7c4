/* An image, stack or volume in memory, and reading one from any file format that icestream knows.
 *
 * data[(z * ny + y) * nx + x], x fastest, row 0 = first row of the file; float32; 64-byte aligned. The logical centre
 * of an N-box is index N/2. pixel_size in Å/px, 0 when the file does not say. */
#ifndef ICESTREAM_COMMON_FORMATS_IMAGE_H
#define ICESTREAM_COMMON_FORMATS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct image {
    int nx, ny, nz;
    float pixel_size;
    float *data;
    size_t capacity; /* floats that data can hold */
};

enum image_format { IMAGE_MRC, IMAGE_TIFF, IMAGE_PNG, IMAGE_JPEG };

struct image_info {
    enum image_format format;
    int nx, ny, nz;
    float pixel_size; /* Å/px, 0 when the file does not say */
};

/* Gives `image` that shape. Memory is kept when it is large enough (contents undefined), so a lane's image is
 * allocated once. An image starts as {0}. */
enum status image_resize(struct image *image, int nx, int ny, int nz, struct err *err);
/* As image_resize, for pixels that are all written: new memory is not zeroed. */
enum status image_resize_unset(struct image *image, int nx, int ny, int nz, struct err *err);
void image_destroy(struct image *image);

/* Of a colour (ITU-R BT.709's weights), in an order in which grey that is stored as a colour stays what it is, to the
 * last bit. */
static inline float image_luminance(float red, float green, float blue) {
    return red + 0.7152f * (green - red) + 0.0722f * (blue - red);
}

/* Larger values are not taken for an image's: their squares have no place in a float. */
#define IMAGE_VALUE_MAX 1e12f

/* Whether all of them are numbers below that. */
bool image_values_fit(const float *values, size_t count);

static inline size_t image_count(const struct image *image) {
    return (size_t)image->nx * (size_t)image->ny * (size_t)image->nz;
}

/* Format (by content, not by name), shape and pixel size, and whether the file is whole: an MRC as long as its header
 * says, a TIFF whose directories and strips lie inside the file, a PNG or JPEG with its end marker. STATUS_TRUNCATED
 * when it may still be growing, STATUS_BAD_FORMAT when it cannot become an image. Reads no pixels. */
enum status image_probe(const char *path, struct image_info *ret_info, struct err *err);

/* Reads all pixels as float32 into `image`, reusing its memory. Colour pictures become luminance. */
enum status image_read(const char *path, struct image *image, struct err *err);

/* As image_read, but TIFF is turned over: it begins with the top line, where MRC begins with the bottom line, and IMOD,
 * SerialEM and RELION write and read it so. Coordinates count from row 0, and unturned what is reconstructed is the mirror
 * image. PNG and JPEG, for which there is no such rule, are taken as they are. */
enum status image_read_micrograph(const char *path, struct image *image, struct err *err);

/* "path" or "NNNNNN@path" (1-based slice of a stack): reads that one slice. */
enum status image_read_slice(const char *name, struct image *image, struct err *err);

#endif
