/* The parameters that a user sets. The table fills a struct refiner_options. */
#ifndef ICESTREAM_STAGES_REFINER_PARAMETERS_H
#define ICESTREAM_STAGES_REFINER_PARAMETERS_H

#include "common/harness/params.h"

enum { REFINER_PARAMETERS = 40 };

extern const struct param refiner_parameters[REFINER_PARAMETERS];

#endif
