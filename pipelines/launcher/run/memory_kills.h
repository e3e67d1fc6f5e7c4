/* Tells a death by the kernel's memory killer from a person's kill, by the kernel's own count of such deaths. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_MEMORY_KILLS_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_MEMORY_KILLS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/files.h"

struct memory_kills {
    char path[PATH_SIZE]; /* memory.events of the control group, or /proc/vmstat; "": no count is to be had */
    int64_t now, before;  /* counts at the last look and at the one before it */
};

/* Finds the count. path: a file with a line "oom_kill N", for tests; NULL: the system's. */
void memory_kills_open(struct memory_kills *kills, const char *path);
/* Looks at the count; call it about once a second. */
void memory_kills_look(struct memory_kills *kills);
/* Returns whether the count has grown since the last look but one: whoever just died of SIGKILL died of that. */
bool memory_kills_grew(const struct memory_kills *kills);

#endif
