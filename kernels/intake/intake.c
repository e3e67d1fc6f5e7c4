#include "kernels/intake/intake.h"

#include "common/memory.h"
#include "kernels/intake/intake_private.h"

struct intake {
    const struct intake_work *work; /* for the kind of device */
    void *state;                    /* of the work */
};

/* Returns NULL for a CUDA device when the program was built without CUDA. */
static const struct intake_work *work_on(const struct device *device) {
    if (device->kind == DEVICE_CPU) return &intake_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &intake_cuda_work;
#else
    return NULL;
#endif
}

size_t intake_pixel_bytes(enum intake_kind kind) {
    return kind == INTAKE_FLOAT32 ? 4 : kind == INTAKE_INT8 || kind == INTAKE_UINT8 ? 1 : 2;
}

enum status intake_create(const struct device *device, struct intake **ret_intake, struct err *err) {
    const struct intake_work *work = work_on(device);
    struct intake *made = NULL;
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: micrographs can be taken in on the CPU only");
    TRY(mem_new(1, sizeof *made, "a micrograph", &made, err));
    made->work = work;
    enum status status = work->create(device, &made->state, err);
    if (status != STATUS_OK) {
        intake_destroy(&made);
        return status;
    }
    *ret_intake = made;
    return STATUS_OK;
}

void intake_destroy(struct intake **intake) {
    if (*intake == NULL) return;
    if ((*intake)->state) (*intake)->work->destroy((*intake)->state);
    mem_free(intake);
}

enum status intake_run(struct intake *intake, const struct intake_input *input, struct intake_result *ret_result,
                       struct err *err) {
    FAIL_IF(input->nx < 1 || input->ny < 1, err, STATUS_BAD_ARGUMENT, "a micrograph cannot have %d × %d pixels",
            input->nx, input->ny);
    return intake->work->run(intake->state, input, ret_result, err);
}
