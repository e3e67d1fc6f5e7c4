#include "kernels/ctf/aberration.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/ctf/ctf.h"

enum { SIDE = ABERRATION_DEGREE + 1 };

struct aberration aberration_none(void) {
    return (struct aberration){.degree = -1};
}

static double factorial(int n) {
    double product = 1;
    for (int i = 2; i <= n; i++)
        product *= i;
    return product;
}

static double binomial(int n, int k) {
    return factorial(n) / (factorial(k) * factorial(n - k));
}

/* Adds weight · (x² + y²)^j · ρ^m cos mφ, or sin mφ: the real or the imaginary part of (x + iy)^m. */
static void add_harmonic(struct aberration *a, double weight, int j, int m, int is_sine) {
    int degree = 2 * j + m;
    for (int r = 0; r <= j; r++)
        for (int i = is_sine; i <= m; i += 2) {
            double sign = (i / 2) % 2 == 0 ? 1 : -1;
            a->terms[degree][2 * r + i] += weight * sign * binomial(j, r) * binomial(m, i);
        }
    if (degree > a->degree) a->degree = degree;
}

static void add_zernike(struct aberration *a, double coefficient, int n, int signed_m) {
    int m = abs(signed_m);
    if (coefficient == 0) return;
    for (int k = 0; k <= (n - m) / 2; k++) {
        double radial = factorial(n - k) / (factorial(k) * factorial((n + m) / 2 - k) * factorial((n - m) / 2 - k));
        add_harmonic(a, coefficient * (k % 2 == 0 ? radial : -radial), (n - m) / 2 - k, m, signed_m < 0);
    }
}

void aberration_add_even(struct aberration *a, const double *coefficients, int count) {
    for (int k = 0, i = 0; i < count; k++)
        for (; i < count && i < (k + 1) * (k + 1); i++)
            add_zernike(a, coefficients[i], 2 * k, 2 * (i - k * k - k));
}

void aberration_add_odd(struct aberration *a, const double *coefficients, int count) {
    for (int k = 0, i = 0; i < count; k++)
        for (; i < count && i < (k + 1) * (k + 2); i++)
            add_zernike(a, coefficients[i], 2 * k + 1, 2 * (i - k * (k + 1)) - 2 * k - 1);
}

void aberration_add_tilt(struct aberration *a, double spherical_aberration, double voltage, double x, double y) {
    double lambda = ctf_wavelength(voltage);
    double factor = -2 * M_PI * spherical_aberration * 1e7 * lambda * lambda * 1e-3;
    if (x == 0 && y == 0) return;
    a->terms[3][0] += factor * x;
    a->terms[3][1] += factor * y;
    a->terms[3][2] += factor * x;
    a->terms[3][3] += factor * y;
    if (a->degree < 3) a->degree = 3;
}

double aberration_phase(const struct aberration *a, double x, double y) {
    double sum = 0, power_x[SIDE] = {1}, power_y[SIDE] = {1};
    for (int d = 1; d <= a->degree; d++) {
        power_x[d] = power_x[d - 1] * x;
        power_y[d] = power_y[d - 1] * y;
    }
    for (int d = 0; d <= a->degree; d++)
        for (int i = 0; i <= d; i++)
            sum += a->terms[d][i] * power_x[d - i] * power_y[i];
    return sum;
}
