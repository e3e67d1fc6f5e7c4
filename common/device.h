/* Where kernels run: the CPU, or one CUDA device. A build without CUDA has none. */
#ifndef ICESTREAM_COMMON_DEVICE_H
#define ICESTREAM_COMMON_DEVICE_H

#include <stddef.h>

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum device_kind { DEVICE_CPU, DEVICE_CUDA };

struct device {
    enum device_kind kind;
    int index; /* of a CUDA device, among those that are visible */
};

/* "cpu", "cuda:N", or "auto": the first CUDA device, else the CPU. STATUS_BAD_ARGUMENT: none of these;
 * STATUS_UNSUPPORTED: no such device here. */
enum status device_parse(const char *text, struct device *ret_device, struct err *err);
/* CUDA devices that are visible; 0 in a build without CUDA, without a driver or without a device. */
enum status device_count(int *ret_count, struct err *err);

/* count × size bytes of the host, zeroed, aligned to 64, that the device copies from and to at full speed: page-locked
 * beside a CUDA device, plain memory for the CPU. Freed by device_host_free alone, which takes the address of the
 * pointer and nulls it. what names the thing for the message ("picking maps"). */
enum status device_host_new(const struct device *device, size_t count, size_t size, const char *what, void *ret_pointer,
                            struct err *err);
void device_host_free(const struct device *device, void *address_of_pointer);

/* A copy, in the device's memory, of what the host holds: made by the first upload into a pointer that starts as NULL,
 * kept from item to item. Several threads may upload at once, each into a copy of its own, while others compute. */
struct device_copy;

/* Takes count floats there; complete when it returns. Where the kind is DEVICE_CPU it does nothing and *copy stays
 * NULL. The memory at `host` is page-locked at the first call and remembered: before it is freed, upload from elsewhere
 * or call device_copy_forget. */
enum status device_upload(const struct device *device, const float *host, size_t count, struct device_copy **copy,
                          struct err *err);
void device_copy_forget(struct device_copy *copy);
/* An address of the device's, or NULL. */
const void *device_copy_data(const struct device_copy *copy);
void device_copy_destroy(struct device_copy **copy);

/* Copies bytes to and from memory of the device (common/arena.h); complete when they return, and after all that was
 * asked of the device before. */
enum status device_put(const struct device *device, void *to, const void *host, size_t bytes, struct err *err);
enum status device_get(const struct device *device, void *host, const void *from, size_t bytes, struct err *err);

/* Bytes of the device's memory that are in use by all programs; 0 for the CPU. */
enum status device_memory_used(const struct device *device, size_t *ret_bytes, struct err *err);
/* Bytes of it that no program uses; 0 for the CPU. */
enum status device_memory_free(const struct device *device, size_t *ret_bytes, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
