/* The parameters that a user sets. The table fills a struct tilt_reconstructor_options; settings.h says what follows
 * from them. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PARAMETERS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_PARAMETERS_H

#include "common/harness/params.h"

enum { TILT_RECONSTRUCTOR_PARAMETERS = 27 };

extern const struct param tilt_reconstructor_parameters[TILT_RECONSTRUCTOR_PARAMETERS];

#endif
