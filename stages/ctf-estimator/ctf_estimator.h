/* Estimates the CTF of each micrograph: from the spectrum that the motion-corrector made of its movie where there is one,
 * else from the micrograph's own averaged periodogram. */
#ifndef ICESTREAM_STAGES_CTF_ESTIMATOR_CTF_ESTIMATOR_H
#define ICESTREAM_STAGES_CTF_ESTIMATOR_CTF_ESTIMATOR_H

#include <stdbool.h>

#include "common/device.h"
#include "common/formats/optics.h"
#include "common/harness/params.h"
#include "kernels/ctf_fit/ctf_fit.h"
#include "kernels/ctf_fit/ctf_local.h"
#include "kernels/periodogram/periodogram.h"

struct stage_descriptor;

/* The parameters that a user sets (parameters.c). */
struct ctf_estimator_options {
    int box;                                 /* px; INT_MIN: not set */
    struct param_floats resolution, defocus; /* Å, two each */
    struct param_floats phase_shift;         /* °, two or none */
    double astigmatism;                      /* Å */
    bool again, write_png, local;
};

extern const struct stage_descriptor ctf_estimator_stage;

/* The resolution that is reported where the fit holds nowhere, Å. */
enum { CTF_NO_RESOLUTION = 25 };

/* Plans and buffers for inputs of one shape. */
struct ctf_estimator;

struct ctf_estimator_task {
    const struct ctf_estimator_options *options;
    int nx, ny; /* px of the micrographs; 0: none is read */
    int box;    /* px, the tiles of a micrograph */
    int side;   /* px of the spectra; 0: there are none, and the micrograph's tiles give the spectrum */
    int threads;
    struct device device;
};

/* One micrograph: its pixels, its spectrum, or both. */
struct ctf_estimator_input {
    const float *micrograph;     /* [ny][nx] on the host */
    const void *on_device;       /* as for periodogram_run */
    double pixel_size;           /* Å, of the micrograph */
    const float *spectrum;       /* [side][side] amplitude, zero frequency at (side/2, side/2); NULL: side is 0 */
    double spectrum_pixel_size;  /* Å: Nyquist of the spectrum is at twice this */
    const struct optics *optics; /* voltage, spherical aberration and amplitude contrast */
};

/* Returns the side of a micrograph's tiles. */
int ctf_estimator_tile(const struct ctf_estimator_options *options, int nx, int ny, double pixel_size);
/* Returns the bytes of an estimator on the CPU. */
size_t ctf_estimator_bytes(const struct ctf_estimator_task *task);

/* STATUS_BAD_ARGUMENT: a value of the options fits no micrograph, or not this one. */
enum status ctf_estimator_create(const struct ctf_estimator_task *task, struct ctf_estimator **ret_estimator,
                                 struct err *err);
void ctf_estimator_destroy(struct ctf_estimator **estimator);
/* Fits the CTF of a micrograph. Where the micrograph is read and has rings, *ret_local gets its tilt and the defocus of its
 * parts, with arrays that live until the next run; else its `columns` is 0. */
enum status ctf_estimator_run(struct ctf_estimator *estimator, const struct ctf_estimator_input *input,
                              struct ctf_fit_result *ret_result, struct ctf_local_result *ret_local, struct err *err);
/* Returns the fit of the last micrograph, and the side of its spectrum. */
const struct ctf_fit *ctf_estimator_fit(const struct ctf_estimator *estimator);
int ctf_estimator_box(const struct ctf_estimator *estimator);

#endif
