/* Takes a micrograph in: makes float32 of the pixels that a file holds, and finds what must be known of them before
 * anything else is done: their range, and which of them belong to the image.
 *
 * On a CUDA device the pixels lie in the device's memory as they lay in the file, and a few short kernels do all of it;
 * the host sees no pixel. All conversions are exact, so CPU and CUDA give the same bits. */
#ifndef ICESTREAM_KERNELS_INTAKE_INTAKE_H
#define ICESTREAM_KERNELS_INTAKE_INTAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/device.h"
#include "common/status.h"
#include "kernels/contamination/contamination.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pixels in the byte order of the machine. */
enum intake_kind { INTAKE_FLOAT32, INTAKE_FLOAT16, INTAKE_INT8, INTAKE_UINT8, INTAKE_INT16, INTAKE_UINT16 };
size_t intake_pixel_bytes(enum intake_kind kind);

struct intake_input {
    const void *stored; /* [ny][nx], aligned to 16 bytes, in the memory of the device */
    enum intake_kind kind;
    int nx, ny;  /* px */
    float limit; /* of magnitudes, ≥ 0 */
};

struct intake_result {
    const float *pixels; /* [ny][nx] in the memory of the device: `stored` itself if that is float32, else memory of the
                            intake, until its next run */
    size_t beyond;       /* finite pixels whose magnitude is above the limit */
    bool finite;         /* at least one pixel is finite */
    float least, most;   /* of the finite pixels */
    struct contamination_area data; /* contamination_data_area */
};

/* Keeps memory from micrograph to micrograph. Only one thread at a time may use an intake. */
struct intake;
enum status intake_create(const struct device *device, struct intake **ret_intake, struct err *err);
void intake_destroy(struct intake **intake);

/* Takes in one micrograph; the result is complete when the function returns. */
enum status intake_run(struct intake *intake, const struct intake_input *input, struct intake_result *ret_result,
                       struct err *err);

#ifdef __cplusplus
}
#endif
#endif
