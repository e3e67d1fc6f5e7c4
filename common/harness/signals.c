/* Handles SIGINT and SIGTERM on a thread of their own, so that no signal handler runs inside other code. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/harness/stage_private.h"
#include "common/memory.h"

struct signals {
    struct stage *stage;
    pthread_t thread;
    sigset_t set, before;
};

static const struct timespec grace = {0, 800000000};

static void *signals_main(void *argument) {
    struct signals *signals = argument;
    struct stage *stage = signals->stage;
    bool asked = false;
    for (;;) {
        int number = 0;
        if (sigwait(&signals->set, &number) != 0 || number == SIGUSR1) return NULL;
        if (number == SIGINT && stage->mode == STAGE_IN_PIPELINE) {
            /* Ctrl-C in the terminal reaches every stage; only a source acts on it. The others end when the stream
             * ends. */
            stage_stop(stage, STOP_DRAIN);
            continue;
        }
        if (number == SIGINT && !asked) {
            asked = true;
            stage_stop(stage, STOP_DRAIN);
            continue;
        }
        stage_stop(stage, STOP_NOW);
        /* A callback may be deep in its work. Everything that counts is in the ledger, so it is safe to end the process
         * there. */
        struct timespec left = grace;
        int next = sigtimedwait(&signals->set, NULL, &left);
        if (next == SIGUSR1) return NULL;
        _exit(128 + number);
    }
}

enum status signals_start(struct stage *stage, struct signals **ret_signals, struct err *err) {
    struct signals *signals = calloc(1, sizeof *signals);
    FAIL_IF(signals == NULL, err, STATUS_NO_MEMORY, "no memory for signals");
    signals->stage = stage;
    sigemptyset(&signals->set);
    sigaddset(&signals->set, SIGINT);
    sigaddset(&signals->set, SIGTERM);
    sigaddset(&signals->set, SIGUSR1);
    /* Threads that start later inherit the mask. */
    int failed = pthread_sigmask(SIG_BLOCK, &signals->set, &signals->before);
    if (failed == 0) failed = pthread_create(&signals->thread, NULL, signals_main, signals);
    if (failed != 0) {
        free(signals);
        FAIL(err, status_of_reading(failed), "the thread for signals cannot be started: %s (too many processes?)",
             strerror(failed));
    }
    *ret_signals = signals;
    return STATUS_OK;
}

void signals_stop(struct signals **signals) {
    if (*signals == NULL) return;
    pthread_kill((*signals)->thread, SIGUSR1);
    pthread_join((*signals)->thread, NULL);
    pthread_sigmask(SIG_SETMASK, &(*signals)->before, NULL);
    mem_free(signals);
}
