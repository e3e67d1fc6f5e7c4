/* Records which item ended the process: the item of the thread that got the signal, whatever the other threads did. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/harness/stage_private.h"

/* A signal handler knows nothing but the thread on which it runs. */
static _Thread_local struct {
    char *page;
    const char *mark;
} blame;

void crash_blame(char *current, const char *mark) {
    blame.page = NULL;
    blame.mark = mark;
    atomic_signal_fence(memory_order_seq_cst);
    blame.page = mark != NULL && current != NULL ? current + PATH_SIZE : NULL;
}

/* ZeroMQ aborts when it gets no descriptor for a new connection. That is the machine's lack, and no item's fault. */
static bool lacks_descriptors(void) {
    int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC), reason = errno;
    if (descriptor >= 0) close(descriptor);
    return descriptor < 0 && (reason == EMFILE || reason == ENFILE);
}

static void on_crash(int number) {
    if (number == SIGABRT && lacks_descriptors()) _exit(EXIT_UNAVAILABLE);
    if (blame.page != NULL) {
        size_t length = strlen(blame.mark);
        memcpy(blame.page, blame.mark, length < PATH_SIZE ? length : PATH_SIZE - 1);
    }
    /* SA_RESETHAND has removed the handler, so this ends the process as if there had been none. */
    raise(number);
}

void crash_watch(void) {
    static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        /* Sanitizers install handlers of their own, which report more; they stay. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
}
