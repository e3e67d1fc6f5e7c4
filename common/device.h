/* Where kernels run: the CPU, or one CUDA device. A build without CUDA has none. */
#ifndef ICESTREAM_COMMON_DEVICE_H
#define ICESTREAM_COMMON_DEVICE_H

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

#ifdef __cplusplus
}
#endif
#endif
