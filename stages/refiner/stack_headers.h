/* Keeps the headers of stacks that were opened. A table that names a stack again need not open it, as long as its file
 * is the same one: device, number, size, and the times of its content and of its last change. File systems note times
 * in steps, and a file that changes twice in one step keeps its times. So the header of a file that has changed within
 * the last seconds is not kept. Any thread may call. */
#ifndef ICESTREAM_STAGES_REFINER_STACK_HEADERS_H
#define ICESTREAM_STAGES_REFINER_STACK_HEADERS_H

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "common/formats/particle_table.h"
#include "common/status.h"

struct stack_headers;

enum status stack_headers_create(struct stack_headers **ret_headers, struct err *err);
/* Accepts NULL. */
void stack_headers_destroy(struct stack_headers **headers);
/* Returns whether the header of this very file is known. Accepts NULL, which knows none. */
bool stack_headers_find(struct stack_headers *headers, const struct stat *file,
                        struct particle_stack_header *ret_header);
/* Keeps the header of a file, unless it had changed less than 3 s before `now` (time(), before the file was looked at).
 * It must have been looked at before it was opened: what replaces it meanwhile has other times. Without memory the file
 * is opened again. Accepts NULL. */
void stack_headers_keep(struct stack_headers *headers, const struct stat *file, time_t now,
                        const struct particle_stack_header *header);

#endif
