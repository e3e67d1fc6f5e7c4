#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include "common/device_cuda.h"
#include "common/device_private.h"
#include "common/memory.h"

/* A page-locked buffer of so many parts, for what is read part by part, and for memory that cannot be page-locked. Parts
 * of this size stay in the processor's cache until the device has read them; of smaller ones each call costs too much. */
enum { PARTS = 8 };
static const size_t PART_BYTES = (size_t)1 << 20, STAGING_BYTES = PARTS * PART_BYTES;

struct device_copy {
    int index;
    cudaStream_t stream;
    void *data, *staging;
    cudaEvent_t sent[PARTS]; /* of the staging buffer: the device has read the part */
    size_t capacity;
    const void *locked; /* host memory that this copy has page-locked, */
    const void *tried;  /* or could not page-lock */
    size_t bytes;       /* of that memory */
};

enum status device_count(int *ret_count, struct err *err) {
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    /* A machine without a GPU or without a driver has 0 devices; that is no error. */
    if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver)
        count = 0;
    else
        FAIL_IF(result != cudaSuccess, err, STATUS_DEVICE, "CUDA devices cannot be counted: %s",
                cudaGetErrorString(result));
    *ret_count = count;
    return STATUS_OK;
}

/* Takes large pages and locks them, which is ten times as fast as cudaHostAlloc. Returns NULL without memory, or where
 * the driver cannot. */
static void *lock_large_pages(size_t bytes, const char *what) {
    void *memory = NULL;
    if (mem_new_pages(bytes, what, &memory, NULL) != STATUS_OK) return NULL;
    memset(memory, 0, bytes);
    if (cudaHostRegister(memory, bytes, cudaHostRegisterPortable) == cudaSuccess) return memory;
    (void)cudaGetLastError();
    free(memory);
    return NULL;
}

enum status device_cuda_host_new(int index, size_t bytes, const char *what, void **ret_pointer, struct err *err) {
    CUDA_TRY(cudaSetDevice(index), err, "choosing it");
    void *memory = lock_large_pages(bytes, what);
    if (memory == NULL) {
        cudaError_t result = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
        if (result != cudaSuccess) {
            (void)cudaGetLastError();
            FAIL(err, cuda_status(result), "no page-locked memory for %s: %zu bytes were asked for: %s", what, bytes,
                 cudaGetErrorString(result));
        }
        memset(memory, 0, bytes);
    }
    *ret_pointer = memory;
    return STATUS_OK;
}

void device_cuda_host_free(int index, void *pointer) {
    /* A lost device has given its memory back already. */
    if (cudaSetDevice(index) != cudaSuccess) return;
    if (cudaHostUnregister(pointer) == cudaSuccess) {
        free(pointer);
        return;
    }
    (void)cudaGetLastError(); /* it is not of large pages */
    (void)cudaFreeHost(pointer);
}

enum status device_cuda_memory_new(int index, size_t bytes, void **ret_pointer, struct err *err) {
    CUDA_TRY(cudaSetDevice(index), err, "choosing it");
    cudaError_t result = cudaMalloc(ret_pointer, bytes);
    if (result != cudaSuccess) {
        size_t unused = 0, total = 0;
        (void)cudaGetLastError();
        TRY(device_cuda_memory_info(index, &unused, &total, err));
        FAIL(
            err, cuda_status(result),
            "%zu MiB of the CUDA device's memory were asked for, and %zu of its %zu MiB are free (%s): set `memory` to "
            "less, or end other programs that use the device",
            bytes >> 20, unused >> 20, total >> 20, cudaGetErrorString(result));
    }
    return STATUS_OK;
}

void device_cuda_memory_free(int index, void *pointer) {
    if (cudaSetDevice(index) == cudaSuccess) (void)cudaFree(pointer);
}

enum status device_cuda_copy(int index, void *to, const void *from, size_t bytes, struct err *err) {
    CUDA_TRY(cudaSetDevice(index), err, "choosing it");
    CUDA_TRY(cudaDeviceSynchronize(), err, "what it was doing before a copy");
    CUDA_TRY(cuda_copy(to, from, bytes), err, "a copy");
    return STATUS_OK;
}

static enum status build(struct device_copy *c, struct err *err) {
    CUDA_TRY(cudaSetDevice(c->index), err, "choosing it");
    CUDA_TRY(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking), err, "making a stream");
    for (int i = 0; i < PARTS; i++)
        CUDA_TRY(cudaEventCreateWithFlags(&c->sent[i], cudaEventDisableTiming), err, "making an event");
    return STATUS_OK;
}

static enum status make_staging(struct device_copy *c, struct err *err) {
    if (c->staging == NULL)
        CUDA_TRY(cudaHostAlloc(&c->staging, STAGING_BYTES, cudaHostAllocPortable), err, "making page-locked memory");
    return STATUS_OK;
}

static enum status reserve(struct device_copy *c, size_t bytes, struct err *err) {
    if (bytes <= c->capacity) return STATUS_OK;
    CUDA_TRY(cudaFree(c->data), err, "freeing memory");
    c->data = NULL;
    c->capacity = 0;
    CUDA_TRY(cudaMalloc(&c->data, bytes), err, "making room for a micrograph");
    c->capacity = bytes;
    return STATUS_OK;
}

/* When the system refuses to page-lock, or another thread has locked the pages, copies go through the staging
 * buffer. */
static enum status lock_pages(struct device_copy *c, const void *host, size_t bytes, struct err *err) {
    if ((c->locked == host || c->tried == host) && bytes <= c->bytes) return STATUS_OK;
    device_copy_forget(c);
    c->bytes = bytes;
    if (cudaHostRegister((void *)host, bytes, cudaHostRegisterPortable) == cudaSuccess) {
        c->locked = host;
        return STATUS_OK;
    }
    (void)cudaGetLastError();
    c->tried = host;
    return make_staging(c, err);
}

static enum status copy_bytes(struct device_copy *c, const char *host, size_t bytes, struct err *err) {
    size_t step = c->locked ? bytes : STAGING_BYTES;
    for (size_t at = 0; at < bytes; at += step) {
        size_t part = bytes - at < step ? bytes - at : step;
        const void *from = host + at;
        if (!c->locked) from = memcpy(c->staging, host + at, part);
        CUDA_TRY(cudaMemcpyAsync((char *)c->data + at, from, part, cudaMemcpyHostToDevice, c->stream), err,
                 "an upload");
        CUDA_TRY(cudaStreamSynchronize(c->stream), err, "an upload");
    }
    return STATUS_OK;
}

/* Returns the copy on this device, with room for so many bytes. */
static enum status prepare(int index, size_t bytes, struct device_copy **copy, struct err *err) {
    if (*copy && (*copy)->index != index) device_copy_destroy(copy);
    if (*copy == NULL) {
        struct device_copy *made = (struct device_copy *)calloc(1, sizeof *made);
        FAIL_IF(made == NULL, err, STATUS_NO_MEMORY, "no memory for an upload");
        made->index = index;
        enum status status = build(made, err);
        if (status != STATUS_OK) {
            device_copy_destroy(&made);
            return status;
        }
        *copy = made;
    }
    CUDA_TRY(cudaSetDevice(index), err, "choosing it");
    return reserve(*copy, bytes, err);
}

enum status device_cuda_upload(int index, const float *host, size_t count, struct device_copy **copy, struct err *err) {
    size_t bytes = count * sizeof *host;
    TRY(prepare(index, bytes, copy, err));
    TRY(lock_pages(*copy, host, bytes, err));
    return copy_bytes(*copy, (const char *)host, bytes, err);
}

static enum status send_parts(struct device_copy *c, size_t bytes, device_source *source, void *context,
                              struct err *err) {
    int slot = 0;
    for (size_t at = 0; at < bytes; at += PART_BYTES) {
        size_t part = bytes - at < PART_BYTES ? bytes - at : PART_BYTES;
        char *place = (char *)c->staging + slot * PART_BYTES;
        CUDA_TRY(cudaEventSynchronize(c->sent[slot]), err, "an upload");
        TRY(source(context, at, place, part, err));
        CUDA_TRY(cudaMemcpyAsync((char *)c->data + at, place, part, cudaMemcpyHostToDevice, c->stream), err,
                 "an upload");
        CUDA_TRY(cudaEventRecord(c->sent[slot], c->stream), err, "an upload");
        slot = (slot + 1) % PARTS;
    }
    return STATUS_OK;
}

enum status device_cuda_upload_parts(int index, size_t bytes, device_source *source, void *context,
                                     struct device_copy **copy, struct err *err) {
    TRY(prepare(index, bytes, copy, err));
    TRY(make_staging(*copy, err));
    enum status status = send_parts(*copy, bytes, source, context, err);
    /* Also after an error: the caller may destroy the copy. */
    cudaError_t result = cudaStreamSynchronize((*copy)->stream);
    TRY(status);
    CUDA_TRY(result, err, "an upload");
    return STATUS_OK;
}

void device_copy_forget(struct device_copy *copy) {
    if (copy == NULL) return;
    if (copy->locked && cudaSetDevice(copy->index) == cudaSuccess &&
        cudaHostUnregister((void *)copy->locked) != cudaSuccess)
        (void)cudaGetLastError();
    copy->locked = copy->tried = NULL;
}

const void *device_copy_data(const struct device_copy *copy) {
    return copy ? copy->data : NULL;
}

void device_copy_destroy(struct device_copy **copy) {
    struct device_copy *c = *copy;
    if (c == NULL) return;
    device_copy_forget(c);
    if (cudaSetDevice(c->index) == cudaSuccess) {
        (void)cudaFree(c->data);
        (void)cudaFreeHost(c->staging);
        for (int i = 0; i < PARTS; i++)
            if (c->sent[i]) (void)cudaEventDestroy(c->sent[i]);
        if (c->stream) (void)cudaStreamDestroy(c->stream);
    }
    free(c);
    *copy = NULL;
}

enum status device_cuda_memory_info(int index, size_t *ret_free, size_t *ret_total, struct err *err) {
    CUDA_TRY(cudaSetDevice(index), err, "choosing it");
    CUDA_TRY(cudaMemGetInfo(ret_free, ret_total), err, "asking for its memory");
    return STATUS_OK;
}
