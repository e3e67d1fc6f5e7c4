/* The parameters that a user sets. The table fills a struct lowpass_picker_options. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PARAMETERS_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PARAMETERS_H

#include "common/harness/params.h"

enum { LOWPASS_PICKER_PARAMETERS = 23 };

extern const struct param lowpass_picker_parameters[LOWPASS_PICKER_PARAMETERS];

#endif
