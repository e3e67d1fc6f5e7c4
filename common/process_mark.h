/* The mark of a process: a text by which another process of the same machine learns whether it still lives. */
#ifndef ICESTREAM_COMMON_PROCESS_MARK_H
#define ICESTREAM_COMMON_PROCESS_MARK_H

#include <stdbool.h>

enum { PROCESS_MARK_SIZE = 128 };

/* Writes the mark of this process: letters, digits, '-' and blanks; "" where /proc does not tell enough. */
void process_mark(char mark[PROCESS_MARK_SIZE]);
/* Returns whether the process of a mark has surely ended. false: it lives, or belongs to another machine. */
bool process_mark_has_ended(const char *mark);

#endif
