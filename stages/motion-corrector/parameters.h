/* The parameters that a user sets. The table fills a struct motion_corrector_options. */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_PARAMETERS_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_PARAMETERS_H

#include "common/harness/params.h"

enum { MOTION_CORRECTOR_PARAMETERS = 20 };

extern const struct param motion_corrector_parameters[MOTION_CORRECTOR_PARAMETERS];

#endif
