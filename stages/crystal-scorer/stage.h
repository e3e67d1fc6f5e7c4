#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_STAGE_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_STAGE_H

#include "common/harness/stage.h"

extern const struct stage_descriptor crystal_scorer_stage;

#endif
