/* Marks of exposures by hand, for `status`. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_STATUS_MARKS_H
#define ICESTREAM_PIPELINES_LAUNCHER_STATUS_MARKS_H

#include <stdio.h>

#include "common/harness/choices.h"
#include "pipelines/launcher/tally.h"

/* Reads the marks of a session; those before a broken change count. NULL: no memory. */
struct choices *status_marks(const struct session *session);
/* Prints the mark of each exposure that is named: "mov_00003: rejected by hand, change 3, 2026-11-23 09:15:19, ada: ice".
 */
void status_marks_text(const struct choices *marks, const struct tally_choice *choice, FILE *out);

#endif
