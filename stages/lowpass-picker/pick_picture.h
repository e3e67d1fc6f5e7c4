/* A picture of a micrograph with its picks: low-passed as it was searched, stretched in contrast, red where no
 * pick may be, a circle a pick. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PICK_PICTURE_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PICK_PICTURE_H

#include "common/status.h"
#include "stages/lowpass-picker/choose.h"

/* About 1,000 px wide, or the micrograph's size when that is less. */
struct pick_picture;

/* *picture starts as NULL; its plans and memory are kept while the maps keep their shape. */
enum status pick_picture_draw(struct pick_picture **picture, const struct pick_maps *maps,
                              const struct pick_list *picks, struct err *err);
/* The last drawing, as PNG. */
enum status pick_picture_write(const struct pick_picture *picture, const char *path, struct err *err);
void pick_picture_destroy(struct pick_picture **picture);

#endif
