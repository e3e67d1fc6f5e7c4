/* Finds out what this machine offers: cores and GPUs. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_MACHINE_H
#define ICESTREAM_PIPELINES_LAUNCHER_MACHINE_H

#include <stdbool.h>

/* The machine for which a graph is checked and planned. It is a parameter, so that tests can ask for any machine. */
struct machine {
    int cores;         /* cores that this process may use */
    int gpus;          /* GPUs that this process may use */
    bool cuda;         /* this build can use a GPU */
    double gpu_memory; /* bytes of the GPU that has least; 0: not known */
};
/* Inspects this machine. */
void machine_inspect(struct machine *ret_machine);
/* Asks NVML for the memory of the GPU that has least, of those that CUDA_VISIBLE_DEVICES shows. Returns bytes; 0: no GPU
 * answers; CUDA_VISIBLE_DEVICES names parts of GPUs (MIG), whose memory NVML does not tell; or it has indices, GPUs differ,
 * and CUDA counts them by speed, where NVML goes along the bus (CUDA_DEVICE_ORDER is not PCI_BUS_ID). */
double machine_gpu_memory(void);

#endif
