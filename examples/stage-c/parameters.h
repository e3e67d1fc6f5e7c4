/* The parameters that a user sets. The table fills a struct brightness_options. */
#ifndef ICESTREAM_EXAMPLES_STAGE_C_PARAMETERS_H
#define ICESTREAM_EXAMPLES_STAGE_C_PARAMETERS_H

#include "common/harness/params.h"

enum { BRIGHTNESS_PARAMETERS = 1 };

extern const struct param brightness_parameters[BRIGHTNESS_PARAMETERS];

#endif
