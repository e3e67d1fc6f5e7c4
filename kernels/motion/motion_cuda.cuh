/* Shared by the CUDA parts of kernels/motion: the frames on the device, and how a pixel is read. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_CUDA_CUH
#define ICESTREAM_KERNELS_MOTION_MOTION_CUDA_CUH

#include <stdlib.h>

#include "kernels/fourier/cufft.cuh"
#include "kernels/motion/motion_private.h"

struct motion_align_cuda;
struct motion_sum_cuda;

/* Frames as the camera counted them, in the device's memory. */
struct device_frames {
    int nx, ny, count;
    enum motion_pixels type;
    const void *pixels; /* [count][ny][nx] */
    const float *gain;  /* [ny][nx]; NULL: none */
};

struct motion_cuda {
    struct motion_task task;
    cudaStream_t stream;
    struct device_frames frames; /* count 0: none were taken */
    void *pixels;                /* memory of the frames */
    float *gain;                 /* memory of the gain; NULL until there is one */
    struct motion_align_cuda *align;
    struct motion_sum_cuda *sum;
};

enum status motion_align_cuda_create(struct motion_cuda *m, struct motion_align_cuda **ret_align, struct err *err);
void motion_align_cuda_destroy(struct motion_align_cuda *align);
enum status motion_align_cuda_run(struct motion_cuda *m, struct motion_model *model, struct motion_report *report,
                                  struct err *err);
/* Returns the bytes that the alignment holds on the device. */
size_t motion_align_cuda_bytes(const struct motion_task *task);

enum status motion_sum_cuda_create(struct motion_cuda *m, struct motion_sum_cuda **ret_sum, struct err *err);
void motion_sum_cuda_destroy(struct motion_sum_cuda *sum);
enum status motion_sum_cuda_run(struct motion_cuda *m, const struct motion_model *model,
                                const struct motion_sum_options *options, const struct motion_sums *sums,
                                struct err *err);

/* Allocates memory on the host, zeroed; free() frees it. what names the memory for the message. */
static inline enum status motion_host_new(size_t count, size_t size, const char *what, void *ret_pointer,
                                          struct err *err) {
    void *memory = calloc(count, size);
    FAIL_IF(memory == NULL, err, STATUS_NO_MEMORY, "no memory for %s", what);
    *(void **)ret_pointer = memory;
    return STATUS_OK;
}

/* Calls a kernel launcher with the type of the frames' pixels: MOTION_TYPED(type, launch, arguments…). */
#define MOTION_TYPED(type, call, ...)                                                                                  \
    do {                                                                                                               \
        if ((type) == MOTION_U8)                                                                                       \
            call<uint8_t>(__VA_ARGS__);                                                                                \
        else if ((type) == MOTION_U16)                                                                                 \
            call<uint16_t>(__VA_ARGS__);                                                                               \
        else                                                                                                           \
            call<float>(__VA_ARGS__);                                                                                  \
    } while (0)

#endif
