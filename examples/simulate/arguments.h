/* Reads the command lines of the simulators: "--key value", "--key=value", "--flag". */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_ARGUMENTS_H
#define ICESTREAM_EXAMPLES_SIMULATE_ARGUMENTS_H

#include "common/harness/params.h"

/* Fills a struct that params_defaults has prepared. Fails if a required parameter is missing. */
enum status arguments_read(const struct param *table, size_t count, void *options, int argc, char **argv,
                           struct err *err);

#endif
