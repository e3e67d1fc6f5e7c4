/* Writes the instance file (NAME.instance.json), which tells one process of a stage what to do. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_INSTANCE_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_INSTANCE_H

#include <stdint.h>

#include "pipelines/launcher/plan.h"
#include "pipelines/launcher/run/listeners.h"
#include "pipelines/launcher/session.h"

/* Orders that are the same for all instances of a run. */
struct instance_orders {
    double until_idle;                       /* s; negative: none */
    int64_t log_size;                        /* bytes */
    const char *recorded;                    /* the folder of a replay, to which files may be linked; NULL: none */
    const char *curve_public, *curve_secret; /* NULL: no encryption */
    const struct listeners *listeners;       /* of the launcher's own host; NULL: none, without tcp */
    const char *endpoints;                   /* the record of endpoints that have moved; NULL: no host may join */
    bool shared;          /* hosts share the session's files: a stage waits for those that come late */
    int endpoints_number; /* of the last change that the plan's endpoints have */
};
/* Writes the file of one instance of the plan. */
enum status instance_write(const struct session *session, const struct plan *plan, size_t instance,
                           const struct instance_orders *orders, struct err *err);
/* Writes a whole file that no other user may read. */
enum status instance_write_private(const char *path, const char *text, struct err *err);

#endif
