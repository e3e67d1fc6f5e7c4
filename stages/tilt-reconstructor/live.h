/* Series whose tilts come one by one: makes previews, and the tomogram once a series is complete. Only the products are
 * kept on disk for a restart: the record SERIES.json says of which tilts a tomogram was made. If a series fails, its
 * tilts fail. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_LIVE_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_LIVE_H

#include "common/files.h"
#include "stages/tilt-reconstructor/groups.h"
#include "stages/tilt-reconstructor/products.h"
#include "stages/tilt-reconstructor/settings.h"

struct live;

/* plan: shared with the tomograms of whole stacks. Only the compute thread uses it. */
enum status live_create(struct stage *stage, const struct settings *settings, struct reconstruction_plan *plan,
                        struct live **ret_live, struct err *err);
void live_destroy(struct live **live);

/* Takes a tilt. Any thread. */
enum status live_submit(struct live *live, const struct arrival *arrival, struct err *err);
/* Notes that the tomogram of a series exists; the next step sends its item on. Any thread. */
enum status live_announce(struct live *live, const char *series, int tilts, double pixel_size, struct err *err);

/* Makes one preview or one tomogram. final: the stream has ended, so every series is complete. */
enum status live_step(struct live *live, bool final, enum stage_work *ret_work, struct err *err);

/* Logs a finished tomogram and the notes on its series. */
void live_tell(struct stage *stage, const char *series, const struct reconstruction *reconstruction);

/* The paths of a series' products. */
struct product_paths {
    char relative[PATH_SIZE]; /* the tomogram's, below the session folder */
    char tomogram[PATH_SIZE], slices[PATH_SIZE], residuals[PATH_SIZE], record[PATH_SIZE];
    struct products products;
};
/* Makes the paths of a series, or of its preview. */
enum status product_paths_of(const struct stage *stage, const char *series, bool preview,
                             struct product_paths *ret_paths, struct err *err);

#endif
