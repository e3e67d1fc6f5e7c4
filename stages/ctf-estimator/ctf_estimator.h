/* Estimates the CTF of each micrograph from its averaged periodogram. */
#ifndef ICESTREAM_STAGES_CTF_ESTIMATOR_CTF_ESTIMATOR_H
#define ICESTREAM_STAGES_CTF_ESTIMATOR_CTF_ESTIMATOR_H

#include <stdbool.h>

#include "common/device.h"
#include "common/formats/optics.h"
#include "common/harness/params.h"
#include "kernels/ctf_fit/ctf_fit.h"
#include "kernels/periodogram/periodogram.h"

struct stage_descriptor;

/* The parameters that a user sets (parameters.c). */
struct ctf_estimator_options {
    int box;                                 /* px; INT_MIN: not set */
    struct param_floats resolution, defocus; /* Å, two each */
    struct param_floats phase_shift;         /* °, two or none */
    double astigmatism;                      /* Å */
    bool again, write_png;
};

extern const struct stage_descriptor ctf_estimator_stage;

/* The resolution that is reported where the fit holds nowhere, Å. */
enum { CTF_NO_RESOLUTION = 25 };

/* Plans and buffers for micrographs of one shape and pixel size. */
struct ctf_estimator;

struct ctf_estimator_task {
    const struct ctf_estimator_options *options;
    int nx, ny;        /* px */
    double pixel_size; /* Å */
    int threads;
    struct device device;
};

/* Returns the bytes of an estimator on the CPU for micrographs of ny rows. */
size_t ctf_estimator_bytes(int ny, int box, int threads);

/* STATUS_BAD_ARGUMENT: a value of the options fits no micrograph, or not this one. */
enum status ctf_estimator_create(const struct ctf_estimator_task *task, struct ctf_estimator **ret_estimator,
                                 struct err *err);
void ctf_estimator_destroy(struct ctf_estimator **estimator);
/* Fits the CTF of a micrograph, [ny][nx] on the host; on_device as for periodogram_run. optics: voltage, spherical
 * aberration and amplitude contrast. */
enum status ctf_estimator_run(struct ctf_estimator *estimator, const float *micrograph, const void *on_device,
                              const struct optics *optics, struct ctf_fit_result *ret_result, struct err *err);
/* Returns the fit of the last micrograph, and the side of its spectrum. */
const struct ctf_fit *ctf_estimator_fit(const struct ctf_estimator *estimator);
int ctf_estimator_box(const struct ctf_estimator *estimator);

#endif
