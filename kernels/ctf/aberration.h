/* Aberrations of higher order, as polynomials of the frequency. RELION 3.1's definitions (Zivanov et al. 2020): Zernike
 * polynomials of the frequency in 1/Å, not normalised,
 *   Z(n, m) = R(n, |m|)(ρ) · cos(m φ) for m >= 0, · sin(|m| φ) for m < 0;
 *   even, coefficient i: k = ⌊√i⌋, n = 2k, m = 2 (i − k² − k);
 *   odd, coefficient i: k = ⌊(√(1 + 4i) − 1)/2⌋, n = 2k + 1, m = 2 (i − k (k + 1)) − n.
 * Even ones are added to RELION's γ (CTF = −sin γ). Odd ones, and the beam tilt, are a phase φ of the image: its
 * transform is exp(iφ) · CTF · projection. */
#ifndef ICESTREAM_KERNELS_CTF_ABERRATION_H
#define ICESTREAM_KERNELS_CTF_ABERRATION_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ABERRATION_DEGREE = 9,
    ABERRATION_EVEN_MOST = 25,
    ABERRATION_ODD_MOST = 30
}; /* coefficients: up to n = 8 and 9 */

struct aberration {
    int degree;                                                 /* highest power; −1: no aberration */
    double terms[ABERRATION_DEGREE + 1][ABERRATION_DEGREE + 1]; /* [d][i]: of x^(d−i) y^i, rad Å^d */
};

/* Returns an aberration of 0. */
struct aberration aberration_none(void);
/* Add Zernike polynomials: at most ABERRATION_EVEN_MOST and ABERRATION_ODD_MOST coefficients, rad. */
void aberration_add_even(struct aberration *aberration, const double *coefficients, int count);
void aberration_add_odd(struct aberration *aberration, const double *coefficients, int count);
/* Adds the phase of a beam tilt (x, y in mrad): −2π Cs λ² u² (tilt · u). spherical_aberration in mm, voltage in kV. */
void aberration_add_tilt(struct aberration *aberration, double spherical_aberration, double voltage, double x,
                         double y);
/* Returns the phase in rad at the frequency (x, y), 1/Å. */
double aberration_phase(const struct aberration *aberration, double x, double y);

#ifdef __cplusplus
}
#endif
#endif
