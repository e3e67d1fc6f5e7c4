/* Turns of several threads that add to the same sums: one after the other, in a given order. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_TURNS_H
#define ICESTREAM_KERNELS_ALIGNMENT_TURNS_H

#include <stdbool.h>

#include "common/status.h"

struct alignment_turns;

enum status alignment_turns_create(struct alignment_turns **ret_turns, struct err *err);
void alignment_turns_destroy(struct alignment_turns **turns);

/* Begins with turn 0. Call it while no thread waits. */
void alignment_turns_begin(struct alignment_turns *turns);
/* Waits until all earlier turns have ended. STATUS_BAD_STATE: an earlier turn has failed. */
enum status alignment_turns_await(struct alignment_turns *turns, int turn, struct err *err);
/* Ends a turn that was awaited. failed: no later turn comes; a turn may fail before it has come. */
void alignment_turns_end(struct alignment_turns *turns, int turn, bool failed);

#endif
