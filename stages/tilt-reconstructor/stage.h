#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_STAGE_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_STAGE_H

#include "common/harness/stage.h"

extern const struct stage_descriptor tilt_reconstructor_stage;

#endif
