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

/* Returns whether CUDA_VISIBLE_DEVICES, whose entries are indices or beginnings of UUIDs, may show a GPU. indexed: CUDA
 * numbers GPUs as NVML does. */
static bool is_visible(const struct gpu *gpu, const char *visible, bool indexed) {
    for (const char *c = visible; *c != '\0'; c += strcspn(c, ",") + (strchr(c, ',') != NULL)) {
        if (!isdigit((unsigned char)*c) ? strncmp(gpu->uuid, c, strcspn(c, ",")) == 0
                                        : !indexed || strtol(c, NULL, 10) == gpu->index)
            return true;
    }
    return false;
}

double machine_gpu_memory(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *order = getenv("CUDA_DEVICE_ORDER");
    struct gpus *gpus = NULL;
    struct gpu list[GPUS_MAX];
    if ((visible != NULL && strstr(visible, "MIG-") != NULL) || gpus_open(NULL, &gpus, NULL) != STATUS_OK) return 0;
    const bool indexed = order != NULL && strcmp(order, "PCI_BUS_ID") == 0;
    double least = INFINITY, most = 0;
    for (size_t i = gpus_read(gpus, list); i > 0; i--) {
        const struct gpu *gpu = &list[i - 1];
        if (gpu->lost || !(gpu->memory_total > 0) || (visible != NULL && !is_visible(gpu, visible, indexed))) continue;
        least = fmin(least, gpu->memory_total);
        most = fmax(most, gpu->memory_total);
    }
    gpus_close(&gpus);
    /* An index may name any of different GPUs. */
    bool unsure = visible != NULL && isdigit((unsigned char)*visible) && !indexed && least < most;
    return isfinite(least) && !unsure ? least : 0;
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
