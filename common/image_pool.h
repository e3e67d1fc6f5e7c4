/* Memory for a great number of images of one size, in large pages where the system has them: a new page of the usual
 * size costs more than the image that is written into it. One thread at a time. */
#ifndef ICESTREAM_COMMON_IMAGE_POOL_H
#define ICESTREAM_COMMON_IMAGE_POOL_H

#include <stddef.h>

#include "common/status.h"

struct image_pool;
/* floats: of an image. */
enum status image_pool_create(size_t floats, struct image_pool **ret_pool, struct err *err);
/* Frees the memory of all images, those that were taken too. Accepts NULL. */
void image_pool_destroy(struct image_pool **pool);

size_t image_pool_floats(const struct image_pool *pool);
/* Returns room for an image, aligned to 64 bytes and not set; NULL: there is no memory. */
float *image_pool_take(struct image_pool *pool);
/* Takes an image back; its room is given out again. Accepts NULL. */
void image_pool_give(struct image_pool *pool, float *image);

#endif
