/* Command lines of the programs that simulate: "--key value", "--key=value", "--flag". */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_ARGUMENTS_H
#define ICESTREAM_EXAMPLES_SIMULATE_ARGUMENTS_H

#include "common/harness/params.h"

/* Into a struct that params_defaults has filled; required ones must be set. */
enum status arguments_read(const struct param *table, size_t count, void *options, int argc, char **argv,
                           struct err *err);

#endif
