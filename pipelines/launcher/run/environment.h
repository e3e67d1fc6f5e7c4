/* The environment of processes that use GPUs. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_ENVIRONMENT_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_ENVIRONMENT_H

#include <stddef.h>

/* Appends the name of a GPU to a future CUDA_VISIBLE_DEVICES. gpu: its index among those that this process may see, as
 * CUDA numbers them. */
void environment_add_gpu(char *text, size_t size, int gpu);

#endif
