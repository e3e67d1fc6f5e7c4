/* Asks the system for what a library is about to need, and gives it back: ZeroMQ and OpenMP end the process when they
 * get no descriptor or no thread, and that would count as a crash. */
#ifndef ICESTREAM_COMMON_SPARE_H
#define ICESTREAM_COMMON_SPARE_H

#include "common/status.h"

/* Succeeds if the process can open so many more descriptors (at most 64) at this moment; else STATUS_UNAVAILABLE. */
enum status spare_descriptors(int count, struct err *err);
/* Succeeds if the process can start so many more threads (at most 256) at this moment; else STATUS_UNAVAILABLE. */
enum status spare_threads(int count, struct err *err);

#endif
