/* Reconstructs tomograms from tilt series, and previews while the tilts of a series are collected. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_TILT_RECONSTRUCTOR_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_TILT_RECONSTRUCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/edges/item.h"
#include "common/files.h"
#include "stages/tilt-reconstructor/live.h"
#include "stages/tilt-reconstructor/reconstruction.h"
#include "stages/tilt-reconstructor/settings.h"

struct stage;
struct stage_descriptor;

/* Options that a user sets (parameters.c). */
struct tilt_reconstructor_options {
    struct reconstruction_settings reconstruction; /* settings.h completes a copy of it */
    char *tilts, *transforms, *images, *exclude;   /* paths, or as the help says; NULL: not set */
    int precision;                                 /* 0: float32, 1: float16 */
    int preview_size;                              /* px */
    int tilts_per_series, devices;
    int memory;   /* MiB */
    double quiet; /* s */
    bool preview;
};

extern const struct stage_descriptor tilt_reconstructor_stage;

struct tilt_reconstructor {
    struct settings *settings;
    struct reconstruction_plan plan; /* the compute thread's */
    struct live *live;               /* series whose tilts come one by one */
};

/* One item: a whole series (a stack or an .mdoc), or a single tilt of a series. */
struct tilt_reconstructor_lane {
    struct reconstruction reconstruction; /* of a whole series */
    struct projections_source source;     /* of a single tilt */
    bool single;
    char id[PATH_SIZE], path[PATH_SIZE]; /* name of the series; file of the item */
    struct arrival arrival;              /* of a single tilt */
    uint64_t fingerprint;                /* of a whole series */
};

/* Finds out whether an item is a single tilt (*ret_single) and of which series. The item says so when the watcher made
 * it; else the .mdoc does that the user gave. id: the name of the series. *ret_arrival: angle, number, times and pixel
 * sizes of a single tilt. */
enum status tilt_reconstructor_find(const struct settings *settings, const struct item *item,
                                    struct arrival *ret_arrival, char id[PATH_SIZE], bool *ret_single, struct err *err);

/* Reads the images of an item. Looks at all pixels of a single tilt, so that a broken image fails and not its
 * series. */
enum status tilt_reconstructor_load(struct stage *stage, const struct tilt_reconstructor *reconstructor,
                                    struct tilt_reconstructor_lane *lane, const struct item *item, struct err *err);

/* Lets a tilt of an earlier run join its series again, without reading it: its file may be elsewhere once the tomogram
 * is made. failed: the tilt failed then, with its series. Ignores whole series and this stage's own items. */
enum status tilt_reconstructor_rejoin(struct stage *stage, struct tilt_reconstructor *reconstructor,
                                      const struct item *item, bool failed, struct err *err);

#endif
