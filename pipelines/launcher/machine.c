#include "pipelines/launcher/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/api/gpus.h"

static int visible_gpus(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible != NULL) {
        int count = 0;
        for (const char *c = visible; *c != '\0' && *c != '-'; c += strcspn(c, ",") + (strchr(c, ',') != NULL))
            count++;
        return count;
    }
    int count = 0;
    DIR *devices = opendir("/dev");
    for (struct dirent *entry = devices ? readdir(devices) : NULL; entry != NULL; entry = readdir(devices))
        if (strncmp(entry->d_name, "nvidia", 6) == 0 && isdigit((unsigned char)entry->d_name[6])) count++;
    if (devices != NULL) closedir(devices);
    return count;
}

double machine_gpu_memory(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct gpus *gpus = NULL;
    struct gpu list[GPUS_MAX];
    if ((visible != NULL && strstr(visible, "MIG-") != NULL) || gpus_open(NULL, &gpus, NULL) != STATUS_OK) return 0;
    double least = INFINITY;
    for (size_t i = gpus_read(gpus, list); i > 0; i--)
        if (!list[i - 1].lost && list[i - 1].memory_total > 0) least = fmin(least, list[i - 1].memory_total);
    gpus_close(&gpus);
    return isfinite(least) ? least : 0;
}

void machine_inspect(struct machine *ret_machine) {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
#ifdef ICESTREAM_HAVE_CUDA
    const bool cuda = true;
#else
    const bool cuda = false;
#endif
    *ret_machine = (struct machine){.cores = cores, .gpus = visible_gpus(), .cuda = cuda};
    if (cuda && ret_machine->gpus > 0) ret_machine->gpu_memory = machine_gpu_memory();
}
