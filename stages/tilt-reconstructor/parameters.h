/* Lists the parameters that a user sets, and where struct tilt_reconstructor_options holds each value. settings.h
 * checks the values and derives the settings of a reconstruction. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PARAMETERS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PARAMETERS_H

#include "common/harness/params.h"

enum { TILT_RECONSTRUCTOR_PARAMETERS = 27 };

extern const struct param tilt_reconstructor_parameters[TILT_RECONSTRUCTOR_PARAMETERS];

#endif
