/* Does pieces of one work at the same time, for formats and tables that are long. Threads last as long as the call:
 * starting them takes a tenth of a millisecond. Kernels use OpenMP. */
#ifndef ICESTREAM_COMMON_TOGETHER_H
#define ICESTREAM_COMMON_TOGETHER_H

#include <stddef.h>

#include "common/status.h"

/* Threads for a long file, whatever the machine: more gain little, as they wait for its memory. */
enum { TOGETHER_FILE = 4, TOGETHER_MOST = 32 };

/* Does the piece at `index`. */
typedef enum status together_work(void *context, size_t index, struct err *err);

/* Calls `work` for each index 0 … count − 1, in this order, on up to `threads` threads (at most TOGETHER_MOST), one of
 * which is the caller's. A thread that cannot be started is done without. All observe files as the caller does
 * (common/files.h). After a failure no further piece begins. The error is that of the lowest index that fails, whatever
 * the number of threads. */
enum status work_together(size_t count, int threads, together_work *work, void *context, struct err *err);

#endif
