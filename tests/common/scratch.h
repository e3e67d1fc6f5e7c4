/* A folder of one's own for a test that writes files, and the real data beside the checkout. */
#ifndef ICESTREAM_TESTS_COMMON_SCRATCH_H
#define ICESTREAM_TESTS_COMMON_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/status.h"

/* Fails with the message of `err`, which must be the name of the caller's struct err. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != STATUS_OK) fail_msg("%s", err.message);                                                          \
    } while (0)

/* Runs the tests with a fresh folder that is removed when all passed, and kept and named when one failed. */
int scratch_run(const char *name, const struct CMUnitTest *tests, size_t count);
/* The path of a name in that folder. */
void scratch_path(const char *name, char path[PATH_SIZE]);
/* The path of a name in the shared data; false (and path still filled) when it is not there. */
bool scratch_data(const char *name, char path[PATH_SIZE]);
/* Runs a shell command; its exit status, or −1. */
int scratch_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
