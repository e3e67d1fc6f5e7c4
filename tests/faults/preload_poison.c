/* Makes files end a program. ICESTREAM_FAULT_POISON is "PROGRAM:NAME", or "PROGRAM:NAME|NAME…": a thread of PROGRAM that
 * opens a file called NAME dies of SIGSEGV, or of the signal with the number ICESTREAM_FAULT_SIGNAL. SIGKILL is what the
 * system's memory killer sends. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether a list of names with | between them holds this one. */
static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, '|') != NULL ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == length && strncmp(at, name, length) == 0) return true;
    return false;
}

static void taste(const char *path) {
    const char *poison = getenv("ICESTREAM_FAULT_POISON"), *colon = poison != NULL ? strchr(poison, ':') : NULL;
    const char *slash = strrchr(path, '/'), *number = getenv("ICESTREAM_FAULT_SIGNAL");
    if (colon == NULL || !is_listed(colon + 1, slash != NULL ? slash + 1 : path)) return;
    const char *program = program_invocation_short_name;
    if (strlen(program) == (size_t)(colon - poison) && strncmp(program, poison, strlen(program)) == 0)
        raise(number != NULL ? (int)strtol(number, NULL, 10) : SIGSEGV);
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
