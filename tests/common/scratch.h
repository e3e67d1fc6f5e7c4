/* Gives each test that writes files its own folder, and finds the real data beside the checkout. */
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

/* Fails with the message in `err`, which must be the name of the caller's struct err. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != STATUS_OK) fail_msg("%s", err.message);                                                          \
    } while (0)

/* Runs the tests with a fresh folder. The folder is removed when all tests pass; otherwise it is kept and its path
 * printed. */
int scratch_run(const char *name, const struct CMUnitTest *tests, size_t count);
/* Writes the path of a name in the scratch folder. Ends the program when scratch_run has made no folder: the path would
 * lie in the root of the file system. */
void scratch_path(const char *name, char path[PATH_SIZE]);
/* Writes the path of a name in the shared data. Returns false (path is still filled) when the file does not exist. */
bool scratch_data(const char *name, char path[PATH_SIZE]);
/* Runs a shell command. Returns its exit status, or −1. */
int scratch_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
