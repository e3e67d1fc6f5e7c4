#include "common/device.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/device_private.h"
#include "common/memory.h"

/* The functions of device_cuda.cu in a build without CUDA. They are stubs instead of a table of functions as the kernels
 * have, because nothing stands against them on the CPU: there memory is plain, and a copy is memcpy. */
#ifdef ICESTREAM_HAVE_CUDA
static const bool built_with_cuda = true;
#else
static const bool built_with_cuda = false;

static enum status no_cuda(struct err *err) {
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA");
}

enum status device_count(int *ret_count, struct err *err) {
    (void)err;
    *ret_count = 0;
    return STATUS_OK;
}

enum status device_cuda_host_new(int index, size_t bytes, const char *what, void **ret_pointer, struct err *err) {
    (void)index, (void)bytes, (void)what, (void)ret_pointer;
    return no_cuda(err);
}

void device_cuda_host_free(int index, void *pointer) {
    (void)index, (void)pointer;
}

enum status device_cuda_memory_new(int index, size_t bytes, void **ret_pointer, struct err *err) {
    (void)index, (void)bytes, (void)ret_pointer;
    return no_cuda(err);
}

void device_cuda_memory_free(int index, void *pointer) {
    (void)index, (void)pointer;
}

enum status device_cuda_copy(int index, void *to, const void *from, size_t bytes, struct err *err) {
    (void)index, (void)to, (void)from, (void)bytes;
    return no_cuda(err);
}

enum status device_cuda_upload(int index, const float *host, size_t count, struct device_copy **copy, struct err *err) {
    (void)index, (void)host, (void)count, (void)copy;
    return no_cuda(err);
}

enum status device_cuda_upload_parts(int index, size_t bytes, device_source *source, void *context,
                                     struct device_copy **copy, struct err *err) {
    (void)index, (void)bytes, (void)source, (void)context, (void)copy;
    return no_cuda(err);
}

enum status device_cuda_memory_info(int index, size_t *ret_free, size_t *ret_total, struct err *err) {
    (void)index, (void)ret_free, (void)ret_total;
    return no_cuda(err);
}

void device_copy_forget(struct device_copy *copy) {
    (void)copy;
}

const void *device_copy_data(const struct device_copy *copy) {
    (void)copy;
    return NULL;
}

void device_copy_destroy(struct device_copy **copy) {
    *copy = NULL;
}
#endif

enum status device_parse(const char *text, struct device *ret_device, struct err *err) {
    struct device device = {DEVICE_CPU, 0};
    if (strcmp(text, "cpu") == 0) {
        *ret_device = device;
        return STATUS_OK;
    }
    int count = 0;
    if (strcmp(text, "auto") == 0) {
        TRY(device_count(&count, err));
        device.kind = count > 0 ? DEVICE_CUDA : DEVICE_CPU;
        *ret_device = device;
        return STATUS_OK;
    }
    char *end = NULL;
    long index = strncmp(text, "cuda:", 5) == 0 ? strtol(text + 5, &end, 10) : -1;
    FAIL_IF(end == NULL || end == text + 5 || *end != '\0' || index < 0 || index > 1023, err, STATUS_BAD_ARGUMENT,
            "the device is '%s'; it must be auto, cpu or cuda:N (cuda:0 is the first)", text);
    TRY(device_count(&count, err));
    FAIL_IF(!built_with_cuda, err, STATUS_UNSUPPORTED,
            "the device is '%s', but this program was built without CUDA: use cpu or auto", text);
    FAIL_IF(index >= count, err, STATUS_UNSUPPORTED, "the device is '%s', but %d CUDA device%s visible here", text,
            count, count == 1 ? " is" : "s are");
    device.kind = DEVICE_CUDA;
    device.index = (int)index;
    *ret_device = device;
    return STATUS_OK;
}

enum status device_host_new(const struct device *device, size_t count, size_t size, const char *what, void *ret_pointer,
                            struct err *err) {
    if (device->kind == DEVICE_CPU) return mem_new(count, size, what, ret_pointer, err);
    size_t bytes = 0;
    FAIL_IF(__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2, err, STATUS_NO_MEMORY,
            "no memory for %s: %zu × %zu bytes were asked for", what, count, size);
    void *memory = NULL;
    TRY(device_cuda_host_new(device->index, bytes > 0 ? bytes : 1, what, &memory, err));
    memcpy(ret_pointer, &memory, sizeof memory);
    return STATUS_OK;
}

void device_host_free(const struct device *device, void *address_of_pointer) {
    void **p = address_of_pointer;
    if (device->kind == DEVICE_CPU)
        free(*p);
    else if (*p)
        device_cuda_host_free(device->index, *p);
    *p = NULL;
}

enum status device_upload(const struct device *device, const float *host, size_t count, struct device_copy **copy,
                          struct err *err) {
    if (device->kind == DEVICE_CPU) return STATUS_OK;
    return device_cuda_upload(device->index, host, count, copy, err);
}

enum status device_upload_parts(const struct device *device, size_t bytes, device_source *source, void *context,
                                struct device_copy **copy, struct err *err) {
    if (device->kind == DEVICE_CPU) return STATUS_OK;
    return device_cuda_upload_parts(device->index, bytes, source, context, copy, err);
}

enum status device_memory_used(const struct device *device, size_t *ret_bytes, struct err *err) {
    size_t unused = 0, total = 0;
    if (device->kind == DEVICE_CUDA) TRY(device_cuda_memory_info(device->index, &unused, &total, err));
    *ret_bytes = total - unused;
    return STATUS_OK;
}

enum status device_memory_free(const struct device *device, size_t *ret_bytes, struct err *err) {
    size_t unused = 0, total = 0;
    if (device->kind == DEVICE_CUDA) TRY(device_cuda_memory_info(device->index, &unused, &total, err));
    *ret_bytes = unused;
    return STATUS_OK;
}

enum status device_put(const struct device *device, void *to, const void *host, size_t bytes, struct err *err) {
    if (device->kind == DEVICE_CUDA) return device_cuda_copy(device->index, to, host, bytes, err);
    memcpy(to, host, bytes);
    return STATUS_OK;
}

enum status device_get(const struct device *device, void *host, const void *from, size_t bytes, struct err *err) {
    if (device->kind == DEVICE_CUDA) return device_cuda_copy(device->index, host, from, bytes, err);
    memcpy(host, from, bytes);
    return STATUS_OK;
}
