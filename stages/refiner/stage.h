/* The refiner as a stage: collects particles, refines while nothing else is to be done, and to the end at the end. */
#ifndef ICESTREAM_STAGES_REFINER_STAGE_H
#define ICESTREAM_STAGES_REFINER_STAGE_H

#include "common/harness/stage.h"

extern const struct stage_descriptor refiner_stage;

#endif
