/* Reads the optics of items and sessions, and writes the optics of items. */
#ifndef ICESTREAM_COMMON_HARNESS_ITEM_OPTICS_H
#define ICESTREAM_COMMON_HARNESS_ITEM_OPTICS_H

#include "common/formats/optics.h"
#include "common/harness/stage.h"

/* Returns the optics of the session. A value that the session does not set is NaN. */
struct optics session_optics(const struct stage_session *session);
/* Returns the optics of an item (optics_of_item): its own values, else those of the session, else the defaults. */
struct optics item_optics(const struct item *item, const struct stage_session *session);
/* Writes the optics into an item, without the values that are NaN. original_pixel_size: Å, before binning; NaN:
 * unknown. */
enum status item_set_optics(struct item *item, const struct optics *optics, double original_pixel_size,
                            struct err *err);

#endif
