/* Simulates a disk that fails, for tests without the right to mount anything. The fault is on while the file
 * ICESTREAM_DISK_FAULT exists. The first line of the file names a folder, the second holds an error number. Writes
 * below the folder then fail with this error. With the number -1 the disk stops instead: a process that syncs there
 * waits until the file is gone. With ICESTREAM_DISK_SLOW each sync takes at least 10 ms.
 * Streams of the C library write past this library, so a file fails when it is flushed or synced. Half of the data that
 * was written to it is then removed, like on a disk that filled up half way. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { STILL = -1 };

/* Returns the error that holds for a path now, 0, or STILL. */
static int control_of(const char *path) {
    const char *control = getenv("ICESTREAM_DISK_FAULT");
    char text[PATH_MAX + 32];
    int descriptor = control != NULL ? REAL(open)(control, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0) return 0;
    ssize_t got = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    text[got > 0 ? got : 0] = '\0';
    char *number = strchr(text, '\n');
    if (number == NULL) return 0;
    *number++ = '\0';
    size_t length = strlen(text);
    bool below = strncmp(path, text, length) == 0 && (path[length] == '/' || path[length] == '\0');
    return below ? atoi(number) : 0;
}

static int fault_of(const char *path) {
    int fault = control_of(path);
    return fault != STILL ? fault : 0;
}

static int control_of_descriptor(int descriptor) {
    char link[64], path[PATH_MAX];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length <= 0) return 0;
    path[length] = '\0';
    return control_of(path);
}

static int fault_of_descriptor(int descriptor) {
    int fault = control_of_descriptor(descriptor);
    return fault != STILL ? fault : 0;
}

/* Waits like for a disk that does not answer. The kernel shows another process state in that case, but such a process
 * is not stopped either. */
static void wait_for_disk(int descriptor) {
    const struct timespec pause = {.tv_nsec = 10000000};
    if (getenv("ICESTREAM_DISK_SLOW") != NULL) nanosleep(&pause, NULL);
    while (control_of_descriptor(descriptor) == STILL)
        nanosleep(&pause, NULL);
}

static bool refused(int fault) {
    if (fault != 0) errno = fault;
    return fault != 0;
}

static int open_checked(const char *path, int flags, mode_t mode) {
    /* On a full disk an existing file can be opened. On a read-only disk no file can be opened for writing. */
    int fault = (flags & O_ACCMODE) != O_RDONLY ? fault_of(path) : 0;
    if (fault == ENOSPC && ((flags & O_CREAT) == 0 || access(path, F_OK) == 0)) fault = 0;
    return refused(fault) ? -1 : REAL(open)(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_checked(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

ssize_t write(int descriptor, const void *bytes, size_t count) {
    return refused(fault_of_descriptor(descriptor)) ? -1 : REAL(write)(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return refused(fault_of_descriptor(descriptor)) ? -1 : REAL(pwrite)(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) __attribute__((alias("pwrite")));

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset) {
    return refused(fault_of_descriptor(descriptor)) ? -1 : REAL(pwritev)(descriptor, parts, count, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t offset)
    __attribute__((alias("pwritev")));

int posix_fallocate(int descriptor, off_t offset, off_t length) {
    int fault = fault_of_descriptor(descriptor);
    return fault != 0 ? fault : REAL(posix_fallocate)(descriptor, offset, length);
}

static int halve(int descriptor, int fault) {
    struct stat info;
    if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) (void)!REAL(ftruncate)(descriptor, info.st_size / 2);
    errno = fault;
    return -1;
}

int fflush(FILE *stream) {
    int fault = stream != NULL ? fault_of_descriptor(fileno(stream)) : 0;
    int result = REAL(fflush)(stream);
    return fault != 0 ? halve(fileno(stream), fault) : result;
}

int fsync(int descriptor) {
    wait_for_disk(descriptor);
    return refused(fault_of_descriptor(descriptor)) ? -1 : REAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
    wait_for_disk(descriptor);
    return refused(fault_of_descriptor(descriptor)) ? -1 : REAL(fdatasync)(descriptor);
}

int ftruncate(int descriptor, off_t length) {
    int fault = fault_of_descriptor(descriptor);
    struct stat info;
    /* A file that shrinks needs no space. */
    if (fault == ENOSPC && fstat(descriptor, &info) == 0 && info.st_size >= length) fault = 0;
    return refused(fault) ? -1 : REAL(ftruncate)(descriptor, length);
}

int ftruncate64(int descriptor, off64_t length) __attribute__((alias("ftruncate")));

int rename(const char *from, const char *to) {
    return refused(fault_of(to)) ? -1 : REAL(rename)(from, to);
}

int mkdir(const char *path, mode_t mode) {
    return refused(access(path, F_OK) == 0 ? 0 : fault_of(path)) ? -1 : REAL(mkdir)(path, mode);
}

int unlink(const char *path) {
    int fault = fault_of(path);
    return refused(fault == ENOSPC ? 0 : fault) ? -1 : REAL(unlink)(path);
}
