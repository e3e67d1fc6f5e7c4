/* The parameters that a user sets. The table fills a struct extractor_options. */
#ifndef ICESTREAM_STAGES_EXTRACTOR_PARAMETERS_H
#define ICESTREAM_STAGES_EXTRACTOR_PARAMETERS_H

#include "common/harness/params.h"

enum { EXTRACTOR_PARAMETERS = 9 };

extern const struct param extractor_parameters[EXTRACTOR_PARAMETERS];

#endif
