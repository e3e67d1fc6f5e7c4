/* The parameters that a user sets. The table fills a struct superposer_options. */
#ifndef ICESTREAM_STAGES_SUPERPOSER_PARAMETERS_H
#define ICESTREAM_STAGES_SUPERPOSER_PARAMETERS_H

#include "common/harness/params.h"

enum { SUPERPOSER_PARAMETERS = 15 };

extern const struct param superposer_parameters[SUPERPOSER_PARAMETERS];

#endif
