/* The parameters that a user sets. The table fills a struct crystal_scorer_options. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_PARAMETERS_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_PARAMETERS_H

#include "common/harness/params.h"

enum { CRYSTAL_SCORER_PARAMETERS = 13 };

extern const struct param crystal_scorer_parameters[CRYSTAL_SCORER_PARAMETERS];

#endif
