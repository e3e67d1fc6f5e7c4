/* Writes several files at a time. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_TOGETHER_H
#define ICESTREAM_STAGES_REFINER_FILES_TOGETHER_H

#include "common/status.h"

enum { TOGETHER_MOST = 32 };
typedef enum status together_write(const void *context, int index, struct err *err);

/* Calls write for each index 0 .. count − 1, by several threads; they are observed as the caller is (common/files.h). If
 * several fail, the error is that of the first index. */
enum status write_together(int count, int threads, together_write *write, const void *context, struct err *err);

#endif
