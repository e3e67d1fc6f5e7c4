/* Puts a program in order before it does anything else. */
#ifndef ICESTREAM_COMMON_STANDARD_H
#define ICESTREAM_COMMON_STANDARD_H

/* Opens /dev/null on the standard streams that are closed, so that no file of the program gets their numbers; and
 * ignores SIGXFSZ, so that a write beyond the limit on the size of files fails (EFBIG) and does not end the program.
 * Call it first in main. Programs that are started later inherit both. */
void standard_begin(void);

#endif
