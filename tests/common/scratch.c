#include "tests/common/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[PATH_SIZE];

static bool begin(const char *name) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/icestream-test-%s-XXXXXX", base != NULL ? base : "/tmp", name);
    if (mkdtemp(folder) != NULL) return true;
    perror(folder);
    return false;
}

int scratch_run(const char *name, const struct CMUnitTest *tests, size_t count) {
    if (!begin(name)) return 1;
    int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    if (failed != 0)
        fprintf(stderr, "files kept in %s\n", folder);
    else if (scratch_shell("chmod -R u+w '%s' && rm -rf '%s'", folder, folder) != 0)
        return 1;
    return failed;
}

void scratch_path(const char *name, char path[PATH_SIZE]) {
    if (folder[0] == 0) {
        fprintf(stderr, "scratch_path(\"%s\"): there is no folder; end main with scratch_run\n", name);
        abort();
    }
    snprintf(path, PATH_SIZE, "%s/%s", folder, name);
}

bool scratch_data(const char *name, char path[PATH_SIZE]) {
    const char *data = getenv("ICESTREAM_DATA");
    snprintf(path, PATH_SIZE, "%s/%s", data != NULL ? data : "../shared/data", name);
    return access(path, R_OK) == 0;
}

int scratch_shell(const char *format, ...) {
    char command[4 * PATH_SIZE];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof command) return -1;
    fflush(stdout);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
