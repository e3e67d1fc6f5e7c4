/* Declares the functions that the files of manual share. */
#ifndef ICESTREAM_COMMON_HARNESS_MANUAL_PRIVATE_H
#define ICESTREAM_COMMON_HARNESS_MANUAL_PRIVATE_H

#include "common/harness/manual.h"

/* Returns the word for a parameter's value in a line of help: its unit, or the kind of value. */
const char *manual_value(const struct param *param);
void manual_print_completion(const struct manual *manual, FILE *out);

#endif
