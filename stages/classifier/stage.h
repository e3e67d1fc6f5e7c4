#ifndef ICESTREAM_STAGES_CLASSIFIER_STAGE_H
#define ICESTREAM_STAGES_CLASSIFIER_STAGE_H

#include "common/harness/stage.h"

extern const struct stage_descriptor classifier_stage;

#endif
