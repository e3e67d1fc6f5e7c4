/* Records what an iteration takes of the device's memory, if options.memory_trace is set. */
#ifndef ICESTREAM_STAGES_REFINER_TRACE_H
#define ICESTREAM_STAGES_REFINER_TRACE_H

#include "stages/refiner/refiner_private.h"

/* Call these around an iteration. refiner_write_trace (refiner.h) writes the record. */
enum status trace_begin(struct refiner *refiner, struct err *err);
void trace_end(struct refiner *refiner);

#endif
