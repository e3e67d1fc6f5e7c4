/* Signals of a program that starts others: SIGCHLD, SIGINT, SIGTERM and SIGHUP are read from a descriptor. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_SIGNALS_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_SIGNALS_H

#include <signal.h>

#include "common/status.h"

/* Blocks the signals in this thread, and opens a descriptor that gives them as struct signalfd_siginfo without blocking.
 * ret_descriptor: -1 on failure. ret_before: the mask of before, which programs that are started get. On success or
 * failure, signals_close undoes it. */
enum status signals_open(sigset_t *ret_before, int *ret_descriptor, struct err *err);

/* Closes the descriptor (-1: none) and sets the mask of before. Signals that nobody has read are dropped: one that came
 * last must not end this process before it has said how the run went. */
void signals_close(int descriptor, const sigset_t *before);

#endif
