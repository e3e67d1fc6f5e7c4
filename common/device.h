/* Devices on which kernels run: the CPU, or one CUDA device. A build without CUDA has no CUDA devices. */
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
    int index; /* number of a CUDA device among those that are visible */
};

/* Parses "cpu", "cuda:N" or "auto" (the first CUDA device, else the CPU). STATUS_BAD_ARGUMENT: none of these;
 * STATUS_UNSUPPORTED: there is no such device here. */
enum status device_parse(const char *text, struct device *ret_device, struct err *err);
/* Counts the visible CUDA devices; 0 in a build without CUDA, without a driver or without a device. */
enum status device_count(int *ret_count, struct err *err);

/* Allocates count × size bytes on the host, zeroed, aligned to 64, which the device copies from and to at full speed:
 * page-locked for a CUDA device, plain memory for the CPU. Only device_host_free frees them; it takes the address of
 * the pointer and nulls the pointer. what names the memory for the message ("picking maps"). */
enum status device_host_new(const struct device *device, size_t count, size_t size, const char *what, void *ret_pointer,
                            struct err *err);
/* Frees memory of device_host_new. */
void device_host_free(const struct device *device, void *address_of_pointer);

/* A copy, in the device's memory, of an array on the host. The first upload makes it, into a pointer that starts as
 * NULL; it is kept from item to item. Several threads may upload at once, each into its own copy, while others
 * compute. */
struct device_copy;

/* Uploads count floats; the copy is complete when the function returns. For DEVICE_CPU it does nothing, and *copy stays
 * NULL. The first call page-locks the memory at `host`, and the copy remembers that. Before you free this memory,
 * upload from another address or call device_copy_forget. */
enum status device_upload(const struct device *device, const float *host, size_t count, struct device_copy **copy,
                          struct err *err);
/* Delivers the `length` bytes from byte `offset` on. */
typedef enum status device_source(void *context, size_t offset, void *bytes, size_t length, struct err *err);
/* As device_upload, of `bytes` bytes that `source` delivers in order, a part at a time. The parts pass through a few MiB
 * of page-locked memory that the copy keeps and that stays in the processor's cache: the host never holds all bytes.
 * For DEVICE_CPU it does nothing. After an error the copy's contents are undefined. */
enum status device_upload_parts(const struct device *device, size_t bytes, device_source *source, void *context,
                                struct device_copy **copy, struct err *err);
/* Ends the page-locking of the host memory that the copy remembers. */
void device_copy_forget(struct device_copy *copy);
/* Returns an address on the device, or NULL. */
const void *device_copy_data(const struct device_copy *copy);
/* Frees the copy; accepts NULL. */
void device_copy_destroy(struct device_copy **copy);

/* Copy bytes to and from memory of the device (common/arena.h). The copy begins after everything that was queued on the
 * device before, and is complete when the function returns. */
enum status device_put(const struct device *device, void *to, const void *host, size_t bytes, struct err *err);
enum status device_get(const struct device *device, void *host, const void *from, size_t bytes, struct err *err);

/* Returns the bytes of the device's memory that all programs use; 0 for the CPU. */
enum status device_memory_used(const struct device *device, size_t *ret_bytes, struct err *err);
/* Returns the bytes of the device's memory that no program uses; 0 for the CPU. */
enum status device_memory_free(const struct device *device, size_t *ret_bytes, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
