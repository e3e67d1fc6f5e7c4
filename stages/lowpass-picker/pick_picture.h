/* A picture of a micrograph with its picks: low-passed as it was searched, stretched in contrast, a circle a pick. */
#ifndef ICESTREAM_PICK_PICTURE_H
#define ICESTREAM_PICK_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "stages/lowpass-picker/picker.h"

/* Keeps its memory; starts as {0}. pixels: [ny][nx][3]. */
struct picture_buffer {
    int nx, ny;
    uint8_t *pixels;
};
void picture_buffer_destroy(struct picture_buffer *buffer);

struct pick_picture;

/* For one picker: about 1,000 px wide, or the micrograph's size when that is less. */
enum status pick_picture_create(const struct picker *picker, int nx, int ny, struct pick_picture **ret_picture,
                                struct err *err);
void pick_picture_destroy(struct pick_picture **picture);
/* Of the picker's last run. */
enum status pick_picture_draw(struct pick_picture *picture, const struct picker *picker, const struct pick_list *picks,
                              struct picture_buffer *buffer, struct err *err);

#endif
