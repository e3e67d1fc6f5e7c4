/* The parameters that a user sets. The table fills a struct classifier_options. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_PARAMETERS_H
#define ICESTREAM_STAGES_CLASSIFIER_PARAMETERS_H

#include "common/harness/params.h"

enum { CLASSIFIER_PARAMETERS = 23 };

extern const struct param classifier_parameters[CLASSIFIER_PARAMETERS];

#endif
