/* Draws a micrograph with its picks: low-passed as in the search, stretched in contrast, red where no pick may be, and
 * a circle for each pick. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PICK_PICTURE_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PICK_PICTURE_H

#include "common/status.h"
#include "stages/lowpass-picker/choose.h"

/* A picture, about 1,000 px wide, or as wide as the micrograph if the micrograph is smaller. */
struct pick_picture;

/* Draws into *picture, which starts as NULL. Plans and memory are kept while the maps keep their shape. */
enum status pick_picture_draw(struct pick_picture **picture, const struct pick_maps *maps,
                              const struct pick_list *picks, struct err *err);
/* Writes the last drawing as PNG. */
enum status pick_picture_write(const struct pick_picture *picture, const char *path, struct err *err);
void pick_picture_destroy(struct pick_picture **picture);

#endif
