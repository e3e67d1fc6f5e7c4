/* Checks the parameters of the picker against each other, and the header of the templates. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_CHECK_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_CHECK_H

#include "common/harness/stage.h"

/* The check of the descriptor. */
void lowpass_picker_check(const void *params, const struct stage_session *session, struct stage_checks *checks);
/* Reads a number, or NaN for "auto" and NULL. `name` is that of the parameter, for the message. */
enum status check_number_or_auto(const char *name, const char *text, double *ret_value, struct err *err);

#endif
