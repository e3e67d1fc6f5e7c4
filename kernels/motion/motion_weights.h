/* Two tables that every device's sums share: the taps of the interpolation, and dose weights as few terms. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_WEIGHTS_H
#define ICESTREAM_KERNELS_MOTION_MOTION_WEIGHTS_H

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MOTION_TAPS = 8, MOTION_PHASES = 256 };

/* Fills the taps for places p = phase / MOTION_PHASES between two pixels: tap i multiplies pixel i − 3, so that phase 0
 * gives pixel 0 and the last one pixel 1. In each phase they are the eight numbers that shift waves of up to 0.39
 * cycles per px with the least mean squared error (Laakso et al., IEEE Signal Process. Mag. 13:30 (1996), section 3.2),
 * and that keep a constant. Errors stay below 2 % up to 0.36 cycles per px; bilinear interpolation is off by 40 %. */
void motion_taps(float ret_taps[MOTION_PHASES + 1][MOTION_TAPS]);

/* Most terms; steps of the tables over spatial frequency. */
enum { MOTION_TERMS = 16, MOTION_STEPS = 4096 };

/* Dose weights w_j(k) = exp(−D_j / (2 Ne(k))) of frames j, divided by sqrt(Σ_j w_j²), are smooth in j. They are written
 * as Σ_t of_frequency[k][t] · of_frame[j][t] with few terms t, so that only as many sums need a Fourier transform as
 * there are terms, and not all frames: weighted(k) = Σ_t of_frequency[k][t] · FFT(Σ_j of_frame[j][t] frame_j)(k).
 * Term 0 is 1 for each frame: its sum is the unweighted one. The error of a weight is below 1e-5 of the root mean
 * square of the weights, while 16 terms are enough (ranges of 200 e⁻/Å²).
 * Source of Ne: Grant & Grigorieff, eLife 4:e06980 (2015). */
struct motion_weights {
    int frames, terms;
    double step;                         /* 1/Å between two entries over frequency, linear between them */
    float (*of_frame)[MOTION_TERMS];     /* [frames]; 0 beyond `terms` */
    float (*of_frequency)[MOTION_TERMS]; /* [MOTION_STEPS + 1] from 0 to the corner of the spectrum */
    /* sqrt(Σ_all w² / Σ_half w²) of frames 1, 3, … (numbered from 1: odd) and 2, 4, … (even): multiplies what
     * of_frequency gives when only the sums of that half are weighted. [2][MOTION_STEPS + 1]; 0: an empty half. */
    float *of_half[2];
};

/* Makes the tables. dose: [frames] e⁻/Å² at the end of each frame; NULL: one term, whose weights are all 1.
 * STATUS_BAD_ARGUMENT: the voltage is not about 300, 200 or 100 kV, or a dose is negative or not finite. */
enum status motion_weights_create(int frames, const double *dose, double pixel_size, double voltage,
                                  struct motion_weights **ret_weights, struct err *err);
void motion_weights_destroy(struct motion_weights **weights);

/* Fills `ret_factor` (1 at 300 kV) with the exposure of the same damage relative to 300 kV. */
enum status motion_voltage_factor(double voltage, double *ret_factor, struct err *err);
/* Returns the critical exposure Ne, e⁻/Å², at 300 kV; infinite at 0. k: 1/Å. */
double motion_critical_exposure(double k);

#ifdef __cplusplus
}
#endif
#endif
