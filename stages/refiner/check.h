/* Checks the parameters of a refinement, and the headers of the maps that they name. */
#ifndef ICESTREAM_STAGES_REFINER_CHECK_H
#define ICESTREAM_STAGES_REFINER_CHECK_H

#include "common/harness/stage.h"

/* The check of the descriptor. */
void refiner_check(const void *params, const struct stage_session *session, struct stage_checks *checks);

#endif
