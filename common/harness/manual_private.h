/* Declares the functions that the files of manual share. */
#ifndef ICESTREAM_COMMON_HARNESS_MANUAL_PRIVATE_H
#define ICESTREAM_COMMON_HARNESS_MANUAL_PRIVATE_H

#include "common/harness/manual.h"

/* Prints the bash completion of a program. */
void manual_print_completion(const struct manual *manual, FILE *out);

#endif
