/* A thread that does one job at a time for its owner: reads ahead, writes behind. One owner makes all calls. */
#ifndef ICESTREAM_COMMON_WORKER_H
#define ICESTREAM_COMMON_WORKER_H

#include <stdbool.h>

#include "common/status.h"

struct worker;
typedef enum status worker_run(void *context, struct err *err);

/* Starts the thread, which waits for a job. */
enum status worker_create(struct worker **ret_worker, struct err *err);
/* Waits for the present job; accepts NULL. */
void worker_destroy(struct worker **worker);

/* Starts a job after the one before has finished. If the owner has not asked for the outcome of that one, it is
 * lost. Who observes the owner's files (file_observe) observes those of the job too. */
void worker_start(struct worker *worker, worker_run *run, void *context);
/* For tests: returns whether a job is waiting or running. */
bool worker_busy(struct worker *worker);
/* Returns whether no job is waiting or running, after so many seconds at most. */
bool worker_rests(struct worker *worker, double seconds);
/* Waits for the job and returns its outcome, which the worker then forgets. STATUS_OK when there is no job. */
enum status worker_wait(struct worker *worker, struct err *err);

#endif
