/* Simulates free space on a disk. The file that ICESTREAM_FAULT_SPACE names holds the number of free bytes. Without the
 * file, the real number counts. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

int statvfs(const char *restrict path, struct statvfs *restrict ret_disk) {
    int (*next)(const char *, struct statvfs *) = (int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, "statvfs");
    int result = next(path, ret_disk);
    const char *name = getenv("ICESTREAM_FAULT_SPACE");
    FILE *file = result == 0 && name != NULL ? fopen(name, "re") : NULL;
    double bytes;
    if (file == NULL) return result;
    if (fscanf(file, "%lf", &bytes) == 1)
        ret_disk->f_bfree = ret_disk->f_bavail = (fsblkcnt_t)(bytes / (double)ret_disk->f_frsize);
    fclose(file);
    return result;
}
