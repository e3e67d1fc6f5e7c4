/* Helpers of the fuzz targets: they give the input as a file, without a disk. */
#ifndef ICESTREAM_TESTS_FUZZ_FUZZ_H
#define ICESTREAM_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Aborts if the condition is false; libFuzzer then keeps the input. */
#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Makes a file in memory with these bytes. `path` gets the name under which it can be opened. The caller closes the
 * returned descriptor. */
static inline int fuzz_file(const uint8_t *bytes, size_t length, char path[64]) {
    int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(descriptor >= 0);
    FUZZ_CHECK(length == 0 || write(descriptor, bytes, length) == (ssize_t)length);
    snprintf(path, 64, "/proc/self/fd/%d", descriptor);
    return descriptor;
}

/* Makes a name for a file that a target writes: in memory if /dev/shm is writable, so that writing and syncing cost
 * nothing. */
static inline void fuzz_scratch(const char *name, char path[64]) {
    snprintf(path, 64, "%s/icestream-fuzz-%d-%s", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid(),
             name);
}

#endif
