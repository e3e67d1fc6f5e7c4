/* A thread that does one thing at a time beside its owner: read ahead, write behind. One owner calls all of this. */
#ifndef ICESTREAM_COMMON_WORKER_H
#define ICESTREAM_COMMON_WORKER_H

#include <stdbool.h>

#include "common/status.h"

struct worker;
typedef enum status worker_run(void *context, struct err *err);

enum status worker_create(struct worker **ret_worker, struct err *err);
/* Waits for what is being done; accepts NULL. */
void worker_destroy(struct worker **worker);

/* Begins, once what was begun before is done; the outcome of that, if nobody has asked for it, is lost. */
void worker_start(struct worker *worker, worker_run *run, void *context);
bool worker_busy(struct worker *worker);
/* Until it is done: its outcome, which is then forgotten. STATUS_OK where there is nothing to wait for. */
enum status worker_wait(struct worker *worker, struct err *err);

#endif
