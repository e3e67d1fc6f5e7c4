#include "common/blas_kernels.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/files.h"

#define CHOICE "OPENBLAS_CORETYPE"

/* Returns whether a set of kernels was made for processors without AVX2. */
static bool is_old(const char *taken) {
    static const char *const old[] = {"Core2",    "Penryn", "Dunnington",  "Nehalem",
                                      "Prescott", "Atom",   "Sandybridge", "Opteron"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (strncasecmp(taken, old[i], strlen(old[i])) == 0) return true;
    return false;
}

const char *blas_kernels_better(const char *taken) {
#ifdef __x86_64__
    if (!is_old(taken) || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return NULL;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? "SKYLAKEX" : "HASWELL";
#else
    (void)taken;
    return NULL;
#endif
}

void blas_kernels_choose(char **argv) {
    /* Programs without products do not load OpenBLAS, and another BLAS has no such function. */
    char *(*name_of_kernels)(void);
    *(void **)&name_of_kernels = dlsym(RTLD_DEFAULT, "openblas_get_corename");
    if (name_of_kernels == NULL || getenv(CHOICE) != NULL) return;
    const char *better = blas_kernels_better(name_of_kernels());
    if (better == NULL) return;
    /* The process gets its name from the path: that of /proc/self/exe would be "exe". */
    char path[PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length <= 0 || (size_t)length >= sizeof path || setenv(CHOICE, better, 1) != 0) return;
    path[length] = '\0';
    execv(path, argv);
}
