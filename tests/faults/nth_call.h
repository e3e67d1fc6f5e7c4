/* Makes the n-th call of one kind fail inside this program, its libraries included, and counts what is not given back.
 * A program that links nth_call.c has these calls replaced; not for builds with sanitizers, which replace them too. Only
 * one thread may run while calls are counted. */
#ifndef ICESTREAM_TESTS_FAULTS_NTH_CALL_H
#define ICESTREAM_TESTS_FAULTS_NTH_CALL_H

#include <stdbool.h>

enum nth_kind { NTH_MALLOC, NTH_OPEN, NTH_READ, NTH_WRITE, NTH_FSYNC, NTH_KINDS };
/* Returns "malloc", "open", "read", "write" or "fsync". */
const char *nth_name(enum nth_kind kind);
/* Calls of this kind are counted from now on, and the n-th fails (from 1; 0: none); ever: all after it, too. Errors:
 * ENOMEM, EMFILE, EIO, ENOSPC, EIO. Reads and writes count for plain files alone. */
void nth_begin(enum nth_kind kind, long long n, bool ever);
/* Ends that, and returns how many calls there were. */
long long nth_end(void);
/* Returns how many blocks of memory are allocated, and how many descriptors are open. */
long long nth_blocks(void);
int nth_descriptors(void);

#endif
