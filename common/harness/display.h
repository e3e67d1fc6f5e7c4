/* Writes small pictures beside the products of an item, for pages that show a session, and names them in the item:
 *   "display": {"thumb": "STAGE/MIC_thumb.jpg", "spectrum": "STAGE/MIC_spectrum.png", "ctf": "STAGE/MIC_ctf.json",
 *               "motion": "STAGE/MIC_motion.json"}
 * Nobody looks at them on files and in process, so there only the JSON, which others read too, is written. */
#ifndef ICESTREAM_COMMON_HARNESS_DISPLAY_H
#define ICESTREAM_COMMON_HARNESS_DISPLAY_H

#include <stdbool.h>

#include "common/formats/image.h"
#include "common/harness/stage.h"

/* Returns whether display_micrograph would write something for an item, so that its pixels are needed in `store`. */
bool display_wants_micrograph(const struct stage *stage, const struct item *item);
/* Writes MIC_thumb.jpg of a micrograph for `store`, unless a stage before this one has: each stage that holds the pixels
 * calls it. Does nothing for an image without pixels. */
enum status display_micrograph(struct stage *stage, struct item *item, const struct image *micrograph, struct err *err);

#endif
