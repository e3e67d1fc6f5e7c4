#include "common/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ICESTREAM_HAVE_CUDA
enum status device_count(int *ret_count, struct err *err) {
    (void)err;
    *ret_count = 0;
    return STATUS_OK;
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
#ifdef ICESTREAM_HAVE_CUDA
    FAIL_IF(index >= count, err, STATUS_UNSUPPORTED, "the device is '%s', but %d CUDA device%s visible here", text,
            count, count == 1 ? " is" : "s are");
#else
    FAIL_IF(index >= count, err, STATUS_UNSUPPORTED,
            "the device is '%s', but this program was built without CUDA: use cpu or auto", text);
#endif
    device.kind = DEVICE_CUDA;
    device.index = (int)index;
    *ret_device = device;
    return STATUS_OK;
}
