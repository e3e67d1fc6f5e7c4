#include "pipelines/launcher/api/gpus.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of NVML's interface (nvml.h, version 2 of the functions that have one) that is used here. */
enum { NVML_SUCCESS = 0, NVML_TEMPERATURE_GPU = 0, NVML_EVENT_XID = 8, EVENTS_MOST = 64 };
typedef void *nvml_device;
typedef void *nvml_events;
struct nvml_event {
    nvml_device device;
    unsigned long long type, data; /* data of NVML_EVENT_XID: its code */
    unsigned gpu_instance, compute_instance;
};
struct nvml_utilisation {
    unsigned gpu, memory; /* % */
};
struct nvml_memory {
    unsigned long long total, free, used; /* bytes */
};
struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, nvml_device *);
    int (*name)(nvml_device, char *, unsigned);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*utilisation)(nvml_device, struct nvml_utilisation *);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*temperature)(nvml_device, int, unsigned *);
    int (*power)(nvml_device, unsigned *); /* mW */
    /* NULL: the library has no events. */
    int (*events_new)(nvml_events *);
    int (*events_add)(nvml_device, unsigned long long, nvml_events);
    int (*events_wait)(nvml_events, struct nvml_event *, unsigned); /* ms */
    int (*events_free)(nvml_events);
};

struct gpus {
    void *library;
    bool begun;
    struct nvml nvml;
    struct gpu known[GPUS_MAX]; /* names, for those that are lost later */
    nvml_device devices[GPUS_MAX];
    size_t count;
    nvml_events events; /* NULL: none */
    size_t listened;    /* GPUs whose events come */
};

/* dlsym gives a pointer to an object; POSIX lets it be one to a function. */
static bool find(void *library, const char *name, void *ret_function) {
    void *symbol = dlsym(library, name);
    memcpy(ret_function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(void *library, struct nvml *nvml) {
    return find(library, "nvmlInit_v2", &nvml->init) && find(library, "nvmlShutdown", &nvml->shutdown) &&
           find(library, "nvmlDeviceGetCount_v2", &nvml->count) &&
           find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml->by_index) &&
           find(library, "nvmlDeviceGetName", &nvml->name) && find(library, "nvmlDeviceGetUUID", &nvml->uuid) &&
           find(library, "nvmlDeviceGetUtilizationRates", &nvml->utilisation) &&
           find(library, "nvmlDeviceGetMemoryInfo", &nvml->memory) &&
           find(library, "nvmlDeviceGetTemperature", &nvml->temperature) &&
           find(library, "nvmlDeviceGetPowerUsage", &nvml->power);
}

static void find_events(struct gpus *gpus) {
    struct nvml *nvml = &gpus->nvml;
    const bool all = find(gpus->library, "nvmlEventSetCreate", &nvml->events_new) &&
                     find(gpus->library, "nvmlDeviceRegisterEvents", &nvml->events_add) &&
                     find(gpus->library, "nvmlEventSetWait_v2", &nvml->events_wait) &&
                     find(gpus->library, "nvmlEventSetFree", &nvml->events_free);
    if (!all || nvml->events_new(&gpus->events) != NVML_SUCCESS) gpus->events = NULL;
}

static enum status open_library(struct gpus *gpus, const char *path, struct err *err) {
    gpus->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    FAIL_IF(gpus->library == NULL, err, STATUS_UNAVAILABLE, "no GPU can be asked: %s", dlerror());
    FAIL_IF(!find_all(gpus->library, &gpus->nvml), err, STATUS_UNAVAILABLE,
            "%s: the library lacks functions of NVML: it is too old, or another one", path);
    int code = gpus->nvml.init();
    FAIL_IF(code != NVML_SUCCESS, err, STATUS_UNAVAILABLE, "%s: NVML does not begin (%d): is the driver loaded?", path,
            code);
    gpus->begun = true;
    find_events(gpus);
    return STATUS_OK;
}

enum status gpus_open(const char *path, struct gpus **ret_gpus, struct err *err) {
    struct gpus *gpus = calloc(1, sizeof *gpus);
    FAIL_IF(gpus == NULL, err, STATUS_NO_MEMORY, "no memory for the list of GPUs");
    const char *named = getenv("ICESTREAM_NVML");
    if (path == NULL) path = named != NULL && named[0] != '\0' ? named : "libnvidia-ml.so.1";
    enum status status = open_library(gpus, path, err);
    if (status == STATUS_OK)
        *ret_gpus = gpus;
    else
        gpus_close(&gpus);
    return status;
}

void gpus_close(struct gpus **gpus) {
    if (*gpus == NULL) return;
    if ((*gpus)->events != NULL) (*gpus)->nvml.events_free((*gpus)->events);
    if ((*gpus)->begun) (*gpus)->nvml.shutdown();
    if ((*gpus)->library != NULL) dlclose((*gpus)->library);
    free(*gpus);
    *gpus = NULL;
}

static bool read_one(const struct nvml *nvml, unsigned index, struct gpu *gpu, nvml_device *ret_device) {
    nvml_device device;
    struct nvml_utilisation utilisation;
    struct nvml_memory memory;
    unsigned degrees, milliwatts;
    if (nvml->by_index(index, &device) != NVML_SUCCESS) return false;
    *ret_device = device;
    if (gpu->name[0] == '\0' && nvml->name(device, gpu->name, GPU_NAME_SIZE) != NVML_SUCCESS)
        snprintf(gpu->name, sizeof gpu->name, "GPU %u", index);
    if (gpu->uuid[0] == '\0' && nvml->uuid(device, gpu->uuid, GPU_NAME_SIZE) != NVML_SUCCESS) gpu->uuid[0] = '\0';
    if (nvml->memory(device, &memory) != NVML_SUCCESS) return false;
    gpu->memory_used = (double)memory.used;
    gpu->memory_total = (double)memory.total;
    if (nvml->utilisation(device, &utilisation) == NVML_SUCCESS) gpu->utilisation = utilisation.gpu / 100.0;
    if (nvml->temperature(device, NVML_TEMPERATURE_GPU, &degrees) == NVML_SUCCESS) gpu->temperature = degrees;
    if (nvml->power(device, &milliwatts) == NVML_SUCCESS) gpu->power = milliwatts / 1000.0;
    return true;
}

/* Counts the errors that have come since the last look. */
static void read_events(struct gpus *gpus) {
    struct nvml_event event;
    for (; gpus->listened < gpus->count && gpus->devices[gpus->listened] != NULL; gpus->listened++)
        (void)gpus->nvml.events_add(gpus->devices[gpus->listened], NVML_EVENT_XID, gpus->events);
    for (int i = 0; i < EVENTS_MOST && gpus->nvml.events_wait(gpus->events, &event, 0) == NVML_SUCCESS; i++)
        for (size_t k = 0; k < gpus->count; k++) {
            if (event.type != NVML_EVENT_XID || gpus->devices[k] != event.device) continue;
            gpus->known[k].xid = event.data;
            gpus->known[k].xids++;
        }
}

size_t gpus_read(struct gpus *gpus, struct gpu list[GPUS_MAX]) {
    unsigned found = 0;
    if (gpus->nvml.count(&found) != NVML_SUCCESS) found = 0;
    if (found > GPUS_MAX) found = GPUS_MAX;
    if (found > gpus->count) gpus->count = found;
    for (unsigned i = 0; i < gpus->count; i++) {
        struct gpu *gpu = &gpus->known[i];
        gpu->index = (int)i;
        gpu->utilisation = gpu->memory_used = gpu->memory_total = gpu->temperature = gpu->power = NAN;
        gpu->lost = i >= found || !read_one(&gpus->nvml, i, gpu, &gpus->devices[i]);
    }
    if (gpus->events != NULL) read_events(gpus);
    memcpy(list, gpus->known, gpus->count * sizeof *list);
    return gpus->count;
}
