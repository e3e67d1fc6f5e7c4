/* The files of one micrograph: the numbers of its fit as JSON, and the picture. */
#ifndef ICESTREAM_STAGES_CTF_ESTIMATOR_CTF_FILES_H
#define ICESTREAM_STAGES_CTF_ESTIMATOR_CTF_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/ctf_fit/ctf_fit.h"

/* A fit that waits to be written: the buffers of a lane. */
struct ctf_record {
    struct ctf_fit_result result;
    struct ctf_fit_profile profile; /* owns its arrays, of `room` floats */
    int room;
    float *spectrum; /* [box][box/2+1], a copy; NULL without a picture */
    int box;
    uint8_t *pixels; /* [side][side] of the picture */
    size_t pixel_room;
    int side;
};

/* Copies result and profile of the fit, and where a picture will be drawn the spectrum: the next micrograph overwrites
 * them. */
enum status ctf_record_take(struct ctf_record *record, const struct ctf_fit *fit, const struct ctf_fit_result *result,
                            int box, bool picture, struct err *err);
/* Draws the spectrum with low frequencies in the middle: the right half as measured, the left half as fitted. finest: the
 * resolution at the edge, Å. */
enum status ctf_record_draw(struct ctf_record *record, const struct ctf *fit, double pixel_size, double finest,
                            struct err *err);
void ctf_record_clear(struct ctf_record *record);

/* Writes {"defocus_u", "defocus_v", "angle", "phase_shift", "score", "significance", "resolution", "ice", "frequency":
 * […], "background": […], "spectrum": […], "fit": […], "agreement": […]} in Å, °, 1/Å: the profile up to Nyquist. */
enum status ctf_record_write(const struct ctf_record *record, const char *path, struct err *err);

#endif
