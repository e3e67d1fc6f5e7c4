/* Reads the optics of items and sessions, and writes the optics of items. */
#ifndef ICESTREAM_COMMON_HARNESS_ITEM_OPTICS_H
#define ICESTREAM_COMMON_HARNESS_ITEM_OPTICS_H

#include "common/formats/optics.h"
#include "common/harness/stage.h"

/* NaN: not set in the session. */
struct optics session_optics(const struct stage_session *session);
/* Takes each value from the item, else from the session, else from the defaults. The pixel size may stay NaN. */
struct optics item_optics(const struct item *item, const struct stage_session *session);
/* Writes the values that are known. original_pixel_size: Å, before binning; NaN: unknown. */
enum status item_set_optics(struct item *item, const struct optics *optics, double original_pixel_size,
                            struct err *err);

#endif
