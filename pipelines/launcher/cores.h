/* How sessions that run side by side share the cores of a machine. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_CORES_H
#define ICESTREAM_PIPELINES_LAUNCHER_CORES_H

#include <stddef.h>

#include "pipelines/launcher/plan.h"

/* Writes how many cores the session takes, and how to change that. */
void cores_describe(const struct plan *plan, char *text, size_t size);
/* Returns the number of other launchers that run a session on this machine, as far as this user may see them; writes the
 * sessions' folders, as their users gave them, with commas between. */
int cores_other_sessions(char *names, size_t size);

#endif
