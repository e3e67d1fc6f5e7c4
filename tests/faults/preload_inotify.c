/* Simulates systems and file systems without working inotify. ICESTREAM_FAULT_INOTIFY is "init:N" or "watch:N": this
 * call fails with error number N. With "deaf" all calls succeed, but no event is ever reported. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *mode(void) {
    const char *text = getenv("ICESTREAM_FAULT_INOTIFY");
    return text != NULL ? text : "";
}

static int fail_with(const char *number) {
    errno = atoi(number);
    return -1;
}

int inotify_init1(int flags) {
    if (strncmp(mode(), "init:", 5) == 0) return fail_with(mode() + 5);
    if (strcmp(mode(), "deaf") == 0) return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return (int)syscall(SYS_inotify_init1, flags);
}

int inotify_add_watch(int descriptor, const char *path, uint32_t mask) {
    static atomic_int number;
    if (strncmp(mode(), "watch:", 6) == 0) return fail_with(mode() + 6);
    if (strcmp(mode(), "deaf") == 0) return atomic_fetch_add(&number, 1) + 1;
    return (int)syscall(SYS_inotify_add_watch, descriptor, path, mask);
}
