#include "pipelines/launcher/run/signals.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum status signals_open(sigset_t *ret_before, int *ret_descriptor, struct err *err) {
    sigset_t mask;
    *ret_descriptor = -1;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    int failed = pthread_sigmask(SIG_BLOCK, &mask, ret_before);
    if (failed != 0) pthread_sigmask(SIG_SETMASK, NULL, ret_before);
    FAIL_IF(failed != 0, err, STATUS_IO, "signals cannot be blocked: %s", strerror(failed));
    *ret_descriptor = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    FAIL_IF(*ret_descriptor < 0, err, status_of_reading(errno), "signals cannot be read: %s", strerror(errno));
    return STATUS_OK;
}

void signals_close(int descriptor, const sigset_t *before) {
    struct signalfd_siginfo info;
    while (descriptor >= 0 && read(descriptor, &info, sizeof info) == sizeof info)
        ;
    if (descriptor >= 0) close(descriptor);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}
