/* Makes a file crash a program. ICESTREAM_FAULT_POISON is "PROGRAM:NAME": a thread of PROGRAM that opens a file called
 * NAME dies of SIGSEGV. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void taste(const char *path) {
    const char *poison = getenv("ICESTREAM_FAULT_POISON"), *colon = poison != NULL ? strchr(poison, ':') : NULL;
    const char *slash = strrchr(path, '/');
    if (colon == NULL || strcmp(slash != NULL ? slash + 1 : path, colon + 1) != 0) return;
    const char *program = program_invocation_short_name;
    if (strlen(program) == (size_t)(colon - poison) && strncmp(program, poison, strlen(program)) == 0) raise(SIGSEGV);
}

static int pass_on(const char *name, const char *path, int flags, va_list args) {
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);
    unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    taste(path);
    return next(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int result = pass_on("open", path, flags, args);
    va_end(args);
    return result;
}

int open64(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int result = pass_on("open64", path, flags, args);
    va_end(args);
    return result;
}
