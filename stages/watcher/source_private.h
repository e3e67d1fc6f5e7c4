/* What the parts of the source share: how it looks around (source.c), and what becomes of a file (source_items.c). */
#ifndef ICESTREAM_STAGES_WATCHER_SOURCE_PRIVATE_H
#define ICESTREAM_STAGES_WATCHER_SOURCE_PRIVATE_H

#include <stdint.h>

#include "stages/watcher/ctf_rows.h"
#include "stages/watcher/notices.h"
#include "stages/watcher/record.h"
#include "stages/watcher/source.h"
#include "stages/watcher/tilt_names.h"
#include "stages/watcher/watcher.h"

/* A whole micrograph whose CTF values, or whose tilt angle, are still awaited. */
struct held {
    char *path, *id, *relative;
    struct image_info image;
    double until;
};

struct source {
    struct stage *stage;
    const struct watcher_params *params;
    struct watcher *watcher;
    struct notices *notices;  /* NULL: sweeps only */
    struct ctf_rows *rows;    /* NULL: no CTF file */
    struct tilt_names *tilts; /* NULL: images are no tilts */
    struct held *held;
    size_t held_count, held_capacity;
    double held_until; /* none of them has waited long enough before */
    double started, next_sweep, next_round, next_mdoc;
    double last_busy;
    int64_t passed;
    bool was_busy, is_started, is_paused, pixel_size_differs, has_pixel_size, watches_ran_out;
};

void held_clear(struct held *held);
/* What is to become of a file that is whole, twice there, or hopeless. */
enum status source_handle(struct source *source, const struct watcher_find *find, double now, struct err *err);
/* Those whose row or angle has come, and those that have waited long enough. The order stays. */
enum status source_release_held(struct source *source, double now, struct err *err);
/* Where nothing but the CTF file tells the pixel size, that file is needed. */
bool source_may_go_without(const struct source *source);

/* Nothing new is taken in while the disk is nearly full: what is on its way needs the rest. Once there is space it must
 * be a little more than the limit, or intake would stop and go with every file. */
void source_look_for_space(struct source *source);

#endif
