#ifndef ICESTREAM_STAGES_SUPERPOSER_STAGE_H
#define ICESTREAM_STAGES_SUPERPOSER_STAGE_H

#include "common/harness/stage.h"

extern const struct stage_descriptor superposer_stage;

#endif
