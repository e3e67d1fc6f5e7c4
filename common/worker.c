#include "common/worker.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "common/files.h"
#include "common/memory.h"

struct worker {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool lock_made, changed_made, started;
    /* guarded by the lock */
    worker_run *run; /* the job that waits or runs; NULL: none */
    void *context;
    const struct file_observer *observer; /* of the owner, when it started the job */
    bool ends;
    struct err err; /* its status is the outcome */
};

static void *work(void *argument) {
    struct worker *w = argument;
    pthread_mutex_lock(&w->lock);
    while (!w->ends || w->run != NULL) {
        if (w->run == NULL) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        worker_run *run = w->run;
        void *context = w->context;
        struct err err = {0};
        file_observe(w->observer);
        pthread_mutex_unlock(&w->lock);
        enum status status = run(context, &err);
        pthread_mutex_lock(&w->lock);
        w->err = err;
        w->err.status = status;
        w->run = NULL;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static enum status start(struct worker *w, struct err *err) {
    w->lock_made = pthread_mutex_init(&w->lock, NULL) == 0;
    w->changed_made = pthread_cond_init(&w->changed, NULL) == 0;
    FAIL_IF(!w->lock_made || !w->changed_made, err, STATUS_NO_MEMORY, "no lock could be made");
    int failed = pthread_create(&w->thread, NULL, work, w);
    FAIL_IF(failed != 0, err, failed == EAGAIN ? STATUS_UNAVAILABLE : STATUS_NO_MEMORY,
            "a thread cannot be started: %s (too little memory, or too many processes?)", strerror(failed));
    w->started = true;
    return STATUS_OK;
}

enum status worker_create(struct worker **ret_worker, struct err *err) {
    struct worker *w = NULL;
    TRY(mem_new(1, sizeof *w, "a thread", &w, err));
    enum status status = start(w, err);
    if (status != STATUS_OK) {
        worker_destroy(&w);
        return status;
    }
    *ret_worker = w;
    return STATUS_OK;
}

void worker_destroy(struct worker **worker) {
    struct worker *w = *worker;
    if (w == NULL) return;
    if (w->started) {
        pthread_mutex_lock(&w->lock);
        w->ends = true;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    if (w->changed_made) pthread_cond_destroy(&w->changed);
    if (w->lock_made) pthread_mutex_destroy(&w->lock);
    mem_free(worker);
}

static void wait_locked(struct worker *w) {
    while (w->run != NULL)
        pthread_cond_wait(&w->changed, &w->lock);
}

void worker_start(struct worker *w, worker_run *run, void *context) {
    const struct file_observer *observer = file_observe(NULL);
    file_observe(observer);
    pthread_mutex_lock(&w->lock);
    wait_locked(w);
    w->run = run;
    w->context = context;
    w->observer = observer;
    w->err = (struct err){0};
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

bool worker_busy(struct worker *w) {
    pthread_mutex_lock(&w->lock);
    bool busy = w->run != NULL;
    pthread_mutex_unlock(&w->lock);
    return busy;
}

bool worker_rests(struct worker *w, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const double fraction = seconds + 1e-9 * (double)until.tv_nsec, whole = floor(fraction);
    until.tv_sec += (time_t)whole;
    until.tv_nsec = (long)(1e9 * (fraction - whole));
    pthread_mutex_lock(&w->lock);
    while (w->run != NULL && pthread_cond_timedwait(&w->changed, &w->lock, &until) == 0)
        ;
    const bool rests = w->run == NULL;
    pthread_mutex_unlock(&w->lock);
    return rests;
}

enum status worker_wait(struct worker *w, struct err *err) {
    pthread_mutex_lock(&w->lock);
    wait_locked(w);
    struct err outcome = w->err;
    w->err = (struct err){0};
    pthread_mutex_unlock(&w->lock);
    if (outcome.status != STATUS_OK && err != NULL) *err = outcome;
    return outcome.status;
}
