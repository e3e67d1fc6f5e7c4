/* The parameters of icestream-postprocess. The table fills a struct wishes. */
#ifndef ICESTREAM_STAGES_REFINER_POSTPROCESS_PARAMETERS_H
#define ICESTREAM_STAGES_REFINER_POSTPROCESS_PARAMETERS_H

#include "common/harness/params.h"
#include "stages/refiner/postprocess/postprocess.h"

enum { POSTPROCESS_PARAMETERS = 14 };

extern const struct param postprocess_parameters[POSTPROCESS_PARAMETERS];

#endif
