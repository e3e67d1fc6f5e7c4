/* A picture of a micrograph with its picks: low-passed as it was searched, stretched in contrast, red where no
 * pick may be, a circle a pick. */
#ifndef ICESTREAM_PICK_PICTURE_H
#define ICESTREAM_PICK_PICTURE_H

#include <stdint.h>

#include "common/status.h"
#include "stages/lowpass-picker/choose.h"

/* About 1,000 px wide, or the micrograph's size when that is less. */
struct pick_picture;

/* *picture starts as NULL; its plans and memory are kept while the maps keep their shape. */
enum status pick_picture_draw(struct pick_picture **picture, const struct pick_maps *maps, const struct pick_list *picks,
                              struct err *err);
/* Of the last drawing: [ny][nx][3]. */
const uint8_t *pick_picture_pixels(const struct pick_picture *picture, int *ret_nx, int *ret_ny);
void pick_picture_destroy(struct pick_picture **picture);

#endif
