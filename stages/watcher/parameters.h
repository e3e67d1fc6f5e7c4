/* The parameters that a user sets. The table fills a struct watcher_options. */
#ifndef ICESTREAM_STAGES_WATCHER_PARAMETERS_H
#define ICESTREAM_STAGES_WATCHER_PARAMETERS_H

#include "common/harness/params.h"

enum { WATCHER_PARAMETERS = 20 };

extern const struct param watcher_parameters[WATCHER_PARAMETERS];

#endif
