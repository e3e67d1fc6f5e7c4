#ifndef ICESTREAM_STAGES_WATCHER_STAGE_H
#define ICESTREAM_STAGES_WATCHER_STAGE_H

#include "common/harness/stage.h"

extern const struct stage_descriptor watcher_stage;

#endif
