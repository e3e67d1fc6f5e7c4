#ifndef ICESTREAM_STAGES_CLASSIFIER_CLASSIFIER_STAGE_H
#define ICESTREAM_STAGES_CLASSIFIER_CLASSIFIER_STAGE_H

#include "common/stage.h"

extern const struct stage_descriptor classifier_stage;

#endif
