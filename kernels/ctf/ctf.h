/* Contrast transfer function. Source: reference mathematics of RELION's CTF model; Rohou & Grigorieff 2015 for terms.
 *   CTF = sin(π λ D(a) u² − (π/2) Cs λ³ u⁴ + φ + asin Q0) · exp(−B u²/4) · scale,
 *   D(a) = (U+V)/2 + (U−V)/2 cos 2(a − angle);  positive just after the origin for underfocus.
 * Even aberrations (aberration.h) are taken off the phase inside the sine. */
#ifndef ICESTREAM_KERNELS_CTF_CTF_H
#define ICESTREAM_KERNELS_CTF_CTF_H

#include <stddef.h>

#include "kernels/ctf/aberration.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ctf {
    double defocus_u, defocus_v;   /* Å, underfocus positive */
    double defocus_angle;          /* °, of the U axis, from +x towards +y */
    double voltage;                /* kV */
    double spherical_aberration;   /* mm */
    double amplitude_contrast;     /* fraction */
    double phase_shift;            /* ° */
    double b_factor;               /* Å² */
    double scale;                  /* 1 */
    double limit;                  /* 1/Å: images hold nothing beyond this frequency, and the CTF is 0; 0: no limit */
    const struct aberration *even; /* added to −phase; up to the 8th power. NULL: none. The caller's */
};

/* Returns the electron wavelength in Å for a voltage in kV. */
double ctf_wavelength(double voltage);

/* Returns whether all values are finite and lie, with a wide margin, within what a microscope can have. Values beyond
 * come from a broken table; a single NaN would end up in every pixel of a map. */
int ctf_is_plausible(const struct ctf *ctf);

/* A defocus that a table has by mistake more often than a microscope. */
enum ctf_doubt {
    CTF_USUAL,
    CTF_DEFOCUS_LOW,      /* less than 1000 Å either way, and no phase plate: values in µm look so */
    CTF_DEFOCUS_NEGATIVE, /* overfocus: the contrast is inverted */
};
enum ctf_doubt ctf_doubt(const struct ctf *ctf);
enum { CTF_DOUBT_SIZE = 256 };
/* Fills text with how many of all particles have such a defocus, and what to do. Returns 0, and leaves text as it is, if
 * they are less than a hundredth: a few do no harm. */
int ctf_doubt_text(enum ctf_doubt doubt, size_t count, size_t all, char *text, size_t size);

/* Terms for evaluation, computed once per CTF. Frequencies x, y are in 1/Å. */
struct ctf_terms {
    double xx, xy, yy;                     /* quadratic form of π λ D u² */
    double quartic;                        /* (π/2) Cs λ³ */
    double offset;                         /* φ + asin Q0 */
    double decay, scale;                   /* B/4, scale */
    double limit2;                         /* 1/Å²: the square of the limit; infinite: none */
    double higher;                         /* 1: the terms below count; 0: they are all 0 */
    double fourth[5], sixth[7], eighth[9]; /* of even aberrations: [i] of x^(d−i) y^i */
};
enum { CTF_TERMS = 30, CTF_TERMS_PLAIN = 9 }; /* doubles of the struct, and of those before fourth[] */
/* Returns the terms of a CTF. */
struct ctf_terms ctf_prepare(const struct ctf *ctf);
/* Returns the CTF at the frequency (x, y). */
float ctf_value(const struct ctf_terms *terms, double x, double y);

/* Fills the half plane of a size × size transform: out[size][size/2+1], rows ky = 0 .. size/2, −size/2+1 .. −1.
 * Frequencies are k / (box · pixel_size), where box (px) and pixel_size (Å) are those of the transform before any
 * cropping. */
void ctf_half_plane(const struct ctf *ctf, int box, double pixel_size, int size, int threads, float *out);

/* Fills out[count] with the CTF at the pixels (kx[i], ky[i]). */
void ctf_at(const struct ctf *ctf, int box, double pixel_size, int count, const short *kx, const short *ky, float *out);

#ifdef __cplusplus
}
#endif
#endif
