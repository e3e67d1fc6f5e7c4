#include "kernels/ctf/ctf.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

static const double DEGREES = M_PI / 180;

double ctf_wavelength(double voltage) {
    double volts = 1e3 * voltage;
    return 12.2643247 / sqrt(volts * (1 + 0.978466e-6 * volts));
}

int ctf_is_plausible(const struct ctf *ctf) {
    const struct {
        double value, minimum, maximum;
    } limits[] = {{ctf->defocus_u, -1e7, 1e7},
                  {ctf->defocus_v, -1e7, 1e7},
                  {ctf->defocus_angle, -1e4, 1e4},
                  {ctf->voltage, 1, 5000},
                  {ctf->spherical_aberration, -100, 100},
                  {ctf->amplitude_contrast, -1, 1},
                  {ctf->phase_shift, -1e4, 1e4},
                  {ctf->b_factor, -1000, 1e6},
                  {ctf->scale, -1e6, 1e6}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!(limits[i].value >= limits[i].minimum && limits[i].value <= limits[i].maximum)) return 0;
    return 1;
}

enum ctf_doubt ctf_doubt(const struct ctf *ctf) {
    const double least = 1000, plate = 30; /* Å, ° */
    double defocus = (ctf->defocus_u + ctf->defocus_v) / 2;
    if (defocus <= -least) return CTF_DEFOCUS_NEGATIVE;
    bool with_plate = fabs(sin(ctf->phase_shift * DEGREES)) > sin(plate * DEGREES);
    return fabs(defocus) < least && !with_plate ? CTF_DEFOCUS_LOW : CTF_USUAL;
}

int ctf_doubt_text(enum ctf_doubt doubt, size_t count, size_t all, char *text, size_t size) {
    static const double LEAST_SHARE = 0.01;
    if (doubt == CTF_USUAL || count == 0 || (double)count < LEAST_SHARE * (double)all) return 0;
    if (doubt == CTF_DEFOCUS_LOW)
        snprintf(text, size,
                 "%zu of %zu particles have a defocus of less than 1000 Å: rlnDefocusU and rlnDefocusV are in Å; "
                 "multiply values in µm by 10000",
                 count, all);
    else
        snprintf(text, size,
                 "%zu of %zu particles have a negative defocus, which is overfocus and inverts the contrast: "
                 "rlnDefocusU and rlnDefocusV are positive for underfocus; change the sign if that was meant",
                 count, all);
    return 1;
}

_Static_assert(sizeof(struct ctf_terms) == CTF_TERMS * sizeof(double), "terms of a CTF");

/* Even aberrations count as a part of −phase. */
static void add_even(struct ctf_terms *terms, const struct aberration *even) {
    terms->offset -= even->terms[0][0];
    terms->xx -= even->terms[2][0];
    terms->xy -= even->terms[2][1] / 2;
    terms->yy -= even->terms[2][2];
    terms->higher = even->degree > 2;
    for (int i = 0; i <= 4; i++)
        terms->fourth[i] = -even->terms[4][i];
    for (int i = 0; i <= 6; i++)
        terms->sixth[i] = -even->terms[6][i];
    for (int i = 0; i <= 8; i++)
        terms->eighth[i] = -even->terms[8][i];
}

struct ctf_terms ctf_prepare(const struct ctf *ctf) {
    double lambda = ctf_wavelength(ctf->voltage);
    double c = cos(ctf->defocus_angle * DEGREES), s = sin(ctf->defocus_angle * DEGREES);
    double u = ctf->defocus_u, v = ctf->defocus_v;
    struct ctf_terms terms = {
        .xx = M_PI * lambda * (u * c * c + v * s * s),
        .xy = M_PI * lambda * (u - v) * c * s,
        .yy = M_PI * lambda * (u * s * s + v * c * c),
        .quartic = M_PI / 2 * ctf->spherical_aberration * 1e7 * lambda * lambda * lambda,
        .offset = ctf->phase_shift * DEGREES + asin(ctf->amplitude_contrast),
        .decay = ctf->b_factor / 4,
        .scale = ctf->scale,
        .limit2 = ctf->limit > 0 ? ctf->limit * ctf->limit : INFINITY,
    };
    if (ctf->even != NULL) add_even(&terms, ctf->even);
    return terms;
}

/* Returns Σ c[i] x^(d−i) y^i. */
static inline double form(const double *c, int d, double x, double y) {
    double sum = c[0], power = 1;
    for (int i = 1; i <= d; i++) {
        power *= y;
        sum = sum * x + c[i] * power;
    }
    return sum;
}

static double higher_phase(const struct ctf_terms *t, double x, double y) {
    return form(t->fourth, 4, x, y) + form(t->sixth, 6, x, y) + form(t->eighth, 8, x, y);
}

float ctf_value(const struct ctf_terms *terms, double x, double y) {
    double u2 = x * x + y * y;
    double phase = terms->xx * x * x + 2 * terms->xy * x * y + terms->yy * y * y - terms->quartic * u2 * u2;
    if (terms->higher != 0) phase += higher_phase(terms, x, y);
    double value = u2 > terms->limit2 ? 0 : terms->scale * sin(phase + terms->offset) * exp(-terms->decay * u2);
    /* The CTF is never zero, so that a division by it stays finite. */
    if (fabs(value) < 1e-8) value = value < 0 ? -1e-8 : 1e-8;
    return (float)value;
}

void ctf_half_plane(const struct ctf *ctf, int box, double pixel_size, int size, int threads, float *out) {
    struct ctf_terms terms = ctf_prepare(ctf);
    double step = 1 / (box * pixel_size);
    size_t stride = (size_t)size / 2 + 1;
    (void)threads; /* unused without OpenMP */
#pragma omp parallel for num_threads(threads > 0 ? threads : 1) schedule(static)
    for (int row = 0; row < size; row++) {
        int ky = row <= size / 2 ? row : row - size;
        for (int kx = 0; kx <= size / 2; kx++)
            out[row * stride + kx] = ctf_value(&terms, kx * step, ky * step);
    }
}

void ctf_at(const struct ctf *ctf, int box, double pixel_size, int count, const short *kx, const short *ky,
            float *out) {
    struct ctf_terms terms = ctf_prepare(ctf);
    double step = 1 / (box * pixel_size);
    for (int i = 0; i < count; i++)
        out[i] = ctf_value(&terms, kx[i] * step, ky[i] * step);
}
