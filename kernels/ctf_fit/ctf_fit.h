/* Fits a CTF to the power spectrum of a micrograph: defocus, astigmatism, its angle, and where asked for a phase shift.
 *
 * The amplitude (root of the power) is divided by its local average, which removes the background and gives all
 * frequencies the same noise. What is left oscillates with CTF² = (1 − cos 2γ)/2, so the score of a CTF is the
 * correlation of −cos 2γ with it, between two resolutions.
 *   1. Sectors of 5° and rings of a pixel hold the averages. For each sector a table gives the score of each defocus.
 *   2. All means, astigmatisms and angles are tried, with sums over these tables.
 *   3. A simplex refines the best on the pixels themselves, each weighted by how much the rings stand out there.
 * The profile follows the rings round the astigmatism (equiphase average). The fit holds up to the resolution at which
 * the correlation of profile and CTF, over two oscillations, falls below a half.
 * Source: Rohou & Grigorieff, J. Struct. Biol. 192:216 (2015); Zhang, J. Struct. Biol. 193:1 (2016). */
#ifndef ICESTREAM_KERNELS_CTF_FIT_CTF_FIT_H
#define ICESTREAM_KERNELS_CTF_FIT_CTF_FIT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct ctf_fit_options {
    double pixel_size;                                        /* Å */
    double voltage, spherical_aberration, amplitude_contrast; /* kV, mm, fraction */
    double low, high;                                         /* Å: resolutions between which the CTF is fitted */
    double defocus_min, defocus_max;                          /* Å, of the mean defocus */
    double astigmatism_max;                                   /* Å, of U − V */
    bool find_phase;
    double phase_min, phase_max; /* °; one of the two is the phase shift when it is not searched for */
};

struct ctf_fit_result {
    double defocus_u, defocus_v; /* Å, U ≥ V */
    double angle;                /* °, of the U axis, −90 to 90 */
    double phase_shift;          /* ° */
    double score;                /* correlation, −1 to 1 */
    double significance;         /* the score over its deviation in pure noise */
    double resolution;           /* Å: the fit holds up to here; 0: it holds nowhere */
    double ice; /* power from 0.25 to 0.28 1/Å over that on both sides of it, less 1; NaN beyond Nyquist */
};

/* The equiphase average: value[i] at (i + 0.5) · step. */
struct ctf_fit_profile {
    int count;
    double step;       /* 1/Å */
    float *background; /* average of the amplitude */
    float *spectrum;   /* amplitude over its local average, less 1 */
    float *fit;        /* CTF² of the mean defocus */
    float *agreement;  /* local correlation of the two */
};

struct ctf_fit;
/* Makes buffers for spectra of box × box px. */
enum status ctf_fit_create(int box, int threads, struct ctf_fit **ret_fit, struct err *err);
void ctf_fit_destroy(struct ctf_fit **fit);
/* Fits power[box][box/2 + 1] (kernels/periodogram). STATUS_BAD_ARGUMENT: the resolutions leave too few pixels. */
enum status ctf_fit_run(struct ctf_fit *fit, const float *power, const struct ctf_fit_options *options,
                        struct ctf_fit_result *ret_result, struct err *err);
/* Returns the profile of the last fit. */
const struct ctf_fit_profile *ctf_fit_profile(const struct ctf_fit *fit);
/* Returns the last spectrum, [box][box/2 + 1]: amplitude over its local average, less 1. */
const float *ctf_fit_spectrum(const struct ctf_fit *fit);

/* Returns the side of a tile, px, whose spectrum resolves the rings of the largest defocus: even, about 1,000 Å, at most
 * the micrograph. */
int ctf_fit_box(int nx, int ny, double pixel_size);

#endif
