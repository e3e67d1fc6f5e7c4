/* Series whose tilts come one by one: previews, and the tomogram once a series is complete. Nothing is kept on disk for
 * a restart but the products: a record (SERIES.json) says of which tilts a tomogram was made. The tilts of a series
 * that fails have failed. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_LIVE_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_LIVE_H

#include "common/files.h"
#include "stages/tilt-reconstructor/groups.h"
#include "stages/tilt-reconstructor/products.h"
#include "stages/tilt-reconstructor/settings.h"

struct live;

/* plan: shared with the tomograms of whole stacks; all of it is the compute thread's. */
enum status live_create(struct stage *stage, const struct settings *settings, struct reconstruction_plan *plan,
                        struct live **ret_live, struct err *err);
void live_destroy(struct live **live);

/* Any thread. */
enum status live_submit(struct live *live, const struct arrival *arrival, struct err *err);
/* Any thread: a tomogram of this series is there; it is sent on by the next step. */
enum status live_announce(struct live *live, const char *series, int tilts, double pixel_size, struct err *err);

/* One preview or one tomogram. final: the stream has ended: all of them. */
enum status live_step(struct live *live, bool final, enum stage_work *ret_work, struct err *err);

/* Logs what a person should know of a tomogram that was made. */
void live_tell(struct stage *stage, const char *series, const struct reconstruction *reconstruction);

/* The places of a series' products. */
struct product_paths {
    char relative[PATH_SIZE]; /* of the tomogram */
    char tomogram[PATH_SIZE], slices[PATH_SIZE], residuals[PATH_SIZE], record[PATH_SIZE];
    struct products products;
};
enum status product_paths_of(const struct stage *stage, const char *series, bool preview,
                             struct product_paths *ret_paths, struct err *err);

#endif
