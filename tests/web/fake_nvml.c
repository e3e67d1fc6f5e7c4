/* A library in place of NVML, for tests. Its GPUs stand in the file that FAKE_NVML names, one a line:
 *   NAME UTILISATION(%) USED(bytes) TOTAL(bytes) TEMPERATURE(°C) POWER(mW) [XID]
 * or "lost" for one that fails. The file is read anew at each question. An XID that was not there before is an event. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake {
    char name[64];
    unsigned utilisation, temperature, power;
    unsigned long long used, total, xid;
};
struct event {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

/* Reads the line of a GPU. Returns the number of lines, or −1 without the file. */
static int read_line(int index, char line[256]) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    char next[256];
    int count = 0;
    if (file == NULL) return -1;
    while (fgets(next, sizeof next, file) != NULL)
        if (count++ == index) memcpy(line, next, sizeof next);
    fclose(file);
    return count;
}

static bool read_gpu(void *device, struct fake *gpu) {
    char line[256] = "";
    read_line((int)(intptr_t)device - 1, line);
    gpu->xid = 0;
    return sscanf(line, "%63s %u %llu %llu %u %u %llu", gpu->name, &gpu->utilisation, &gpu->used, &gpu->total,
                  &gpu->temperature, &gpu->power, &gpu->xid) >= 6;
}

enum { SUCCESS = 0, NO_DRIVER = 9, TIMEOUT = 10, GPU_IS_LOST = 15, XID = 8, DEVICES = 32 };

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length);
int nvmlDeviceGetUtilizationRates(void *device, unsigned utilisation[2]);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3]);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlEventSetCreate(void **set);
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned milliseconds);
int nvmlEventSetFree(void *set);

int nvmlInit_v2(void) {
    char line[256];
    return read_line(0, line) >= 0 ? SUCCESS : NO_DRIVER;
}

int nvmlShutdown(void) {
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    char line[256];
    int lines = read_line(0, line);
    *count = lines > 0 ? (unsigned)lines : 0;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    struct fake gpu;
    *device = (void *)(intptr_t)(index + 1);
    return read_gpu(*device, &gpu) ? SUCCESS : GPU_IS_LOST;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    struct fake gpu;
    if (!read_gpu(device, &gpu)) return GPU_IS_LOST;
    snprintf(name, length, "%s", gpu.name);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
    snprintf(uuid, length, "GPU-%d", (int)(intptr_t)device - 1);
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned utilisation[2]) {
    struct fake gpu;
    if (!read_gpu(device, &gpu)) return GPU_IS_LOST;
    utilisation[0] = gpu.utilisation;
    utilisation[1] = 0;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3]) {
    struct fake gpu;
    if (!read_gpu(device, &gpu)) return GPU_IS_LOST;
    memory[0] = gpu.total;
    memory[1] = gpu.total - gpu.used;
    memory[2] = gpu.used;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
    struct fake gpu;
    if (sensor != 0 || !read_gpu(device, &gpu)) return GPU_IS_LOST;
    *degrees = gpu.temperature;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    struct fake gpu;
    if (!read_gpu(device, &gpu)) return GPU_IS_LOST;
    *milliwatts = gpu.power;
    return SUCCESS;
}

/* A set remembers which devices it listens to, and the error that each one had last. */
struct set {
    bool listens[DEVICES + 1];
    unsigned long long xid[DEVICES + 1];
};

int nvmlEventSetCreate(void **set) {
    *set = calloc(1, sizeof(struct set));
    return *set != NULL ? SUCCESS : TIMEOUT;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    const intptr_t at = (intptr_t)device;
    if (types != XID || at < 1 || at > DEVICES) return GPU_IS_LOST;
    ((struct set *)set)->listens[at] = true;
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *address, struct event *event, unsigned milliseconds) {
    struct set *set = address;
    (void)milliseconds;
    for (intptr_t at = 1; at <= DEVICES; at++) {
        struct fake gpu;
        if (!set->listens[at] || !read_gpu((void *)at, &gpu) || gpu.xid == set->xid[at]) continue;
        set->xid[at] = gpu.xid;
        if (gpu.xid == 0) continue;
        *event = (struct event){.device = (void *)at, .type = XID, .data = gpu.xid};
        return SUCCESS;
    }
    return TIMEOUT;
}

int nvmlEventSetFree(void *set) {
    free(set);
    return SUCCESS;
}
