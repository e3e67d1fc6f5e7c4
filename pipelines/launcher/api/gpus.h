/* Asks NVIDIA's management library (NVML) about the GPUs of this machine. The library belongs to the driver, so it is
 * opened while the program runs; without it there are no GPUs. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_API_GPUS_H
#define ICESTREAM_PIPELINES_LAUNCHER_API_GPUS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum { GPUS_MAX = 32, GPU_NAME_SIZE = 96 };

/* NaN: the GPU does not tell. */
struct gpu {
    int index;
    char name[GPU_NAME_SIZE], uuid[GPU_NAME_SIZE];
    bool lost;                        /* it was there, and answers no more */
    unsigned long long xid;           /* code of the last error (Xid) since the library was opened; 0: none */
    int xids;                         /* such errors since then */
    double utilisation;               /* 0 to 1, over the last second or so */
    double memory_used, memory_total; /* bytes */
    double temperature;               /* °C */
    double power;                     /* W */
};

struct gpus;
/* Opens the library. path: NULL for the driver's own, or that which the environment's ICESTREAM_NVML names.
 * UNAVAILABLE: there is no such library, or it finds no driver. */
enum status gpus_open(const char *path, struct gpus **ret_gpus, struct err *err);
/* Closes it; accepts NULL. */
void gpus_close(struct gpus **gpus);
/* Reads the present values. A GPU that fails keeps its name and counts as lost. Errors (Xid) come as events of the driver,
 * which an old one or a virtual GPU may lack. */
size_t gpus_read(struct gpus *gpus, struct gpu list[GPUS_MAX]);

#endif
