/* The parameters that a user sets. The table fills a struct ctf_estimator_options. */
#ifndef ICESTREAM_STAGES_CTF_ESTIMATOR_PARAMETERS_H
#define ICESTREAM_STAGES_CTF_ESTIMATOR_PARAMETERS_H

#include "common/harness/params.h"

enum { CTF_ESTIMATOR_PARAMETERS = 8 };

extern const struct param ctf_estimator_parameters[CTF_ESTIMATOR_PARAMETERS];

#endif
