/* An image, stack or volume in memory. common/formats/image_formats.h reads one from a file.
 *
 * data[(z * ny + y) * nx + x], float32, 64-byte aligned. x runs fastest; row 0 is the first row of the file. The
 * logical centre of an N-box is index N/2. pixel_size is in Å/px, 0 when the file does not say. */
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

/* Data of an image from the header of its file. */
struct image_info {
    enum image_format format;
    int nx, ny, nz;
    float pixel_size; /* Å/px, 0 when the file does not say */
    int count_bytes;  /* 1, 2: a TIFF whose pixels are whole numbers of so many bytes, from 0 on; else 0 */
    size_t bytes;     /* memory that image_read takes: the pixels as float32, and what decoding holds beside them */
};

/* Returns the bytes of nx × ny × nz pixels as float32; SIZE_MAX when they are more than can be counted. */
size_t image_bytes(int nx, int ny, int nz);
/* Gives `image` this shape. Keeps the memory when it is large enough (contents are undefined then), so that a lane
 * allocates its image once. An image starts as {0}. */
enum status image_resize(struct image *image, int nx, int ny, int nz, struct err *err);
/* As image_resize, for a caller that writes all pixels: new memory is not zeroed. */
enum status image_resize_unset(struct image *image, int nx, int ny, int nz, struct err *err);
/* Frees the pixels and resets the image to {0}. */
void image_destroy(struct image *image);

/* Returns the luminance of a colour (weights of ITU-R BT.709). The order of the sum keeps grey that is stored as a
 * colour the same to the last bit. */
static inline float image_luminance(float red, float green, float blue) {
    return red + 0.7152f * (green - red) + 0.0722f * (blue - red);
}

/* No image has larger values: their squares would overflow a float. */
#define IMAGE_VALUE_MAX 1e12f

/* Returns whether the magnitudes of all values are below IMAGE_VALUE_MAX; NaN is not. */
bool image_values_fit(const float *values, size_t count);

static inline size_t image_count(const struct image *image) {
    return (size_t)image->nx * (size_t)image->ny * (size_t)image->nz;
}

#endif
