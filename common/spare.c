#include "common/spare.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 64, THREADS_MAX = 256 };

enum status spare_descriptors(int count, struct err *err) {
    int descriptors[DESCRIPTORS_MAX], opened = 0, reason = 0;
    for (; opened < count && opened < DESCRIPTORS_MAX; opened++) {
        descriptors[opened] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (descriptors[opened] < 0) break;
    }
    if (opened < count && opened < DESCRIPTORS_MAX) reason = errno;
    for (int i = 0; i < opened; i++)
        close(descriptors[i]);
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    FAIL_IF(reason != 0, err, STATUS_UNAVAILABLE,
            "%d more file descriptors are needed, and only %d can be opened: %s (the limit of this process is %llu: "
            "ulimit -n)",
            count, opened, strerror(reason), (unsigned long long)limit.rlim_cur);
    return STATUS_OK;
}

static void *wait_for_all(void *argument) {
    pthread_mutex_lock(argument);
    pthread_mutex_unlock(argument);
    return NULL;
}

enum status spare_threads(int count, struct err *err) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[THREADS_MAX];
    sigset_t all, before;
    int started = 0, failed = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&gate);
    for (; started < count && started < THREADS_MAX; started++) {
        failed = pthread_create(&threads[started], NULL, wait_for_all, &gate);
        if (failed != 0) break;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    FAIL_IF(failed != 0, err, STATUS_UNAVAILABLE,
            "%d more threads are needed, and only %d can be started: %s (too many processes, or too little memory?)",
            count, started, strerror(failed));
    return STATUS_OK;
}
