/* Fills a folder with simulated movies. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_MOVIES_H
#define ICESTREAM_EXAMPLES_SIMULATE_MOVIES_H

#include "examples/simulate/micrograph.h"
#include "examples/simulate/output.h"
#include "examples/simulate/parameters.h"

/* Makes each movie before its time comes, writes its truth, and releases it. layouts: [scene->micrographs]; moved while
 * they are painted. */
enum status movies_fill(const struct simulate_options *options, const struct scene *scene,
                        const struct phantom *phantom, struct layout *layouts, const struct output *output,
                        struct err *err);

#endif
