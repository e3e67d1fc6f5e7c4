#include "kernels/tomography/blob.h"

#include <math.h>

/* I_2(x), by its series: Σ (x/2)^(2k + 2) / (k! (k + 2)!). x is at most α, where 20 terms are far more than enough. */
static double bessel_2(double x) {
    double quarter = x * x / 4, term = quarter / 2, sum = 0;
    for (int k = 0; k < 20; k++) {
        sum += term;
        term *= quarter / ((k + 1.0) * (k + 3.0));
    }
    return sum;
}

double blob_value(double r) {
    double t2 = 1 - r * r / (BLOB_RADIUS * BLOB_RADIUS);
    if (t2 <= 0) return 0;
    return t2 * bessel_2(BLOB_ALPHA * sqrt(t2)) / bessel_2(BLOB_ALPHA);
}

/* √(π / 2x) I_(5/2)(x) = ((3 + x²) sinh x − 3 x cosh x) / x³. Near 0 cancellation leaves nothing of this: there the
 * series x²/15 (1 + x²/14 + x⁴/504) is used. */
static double spherical_bessel_2(double x) {
    double x2 = x * x;
    if (x < 0.1) return x2 / 15 * (1 + x2 / 14 * (1 + x2 / 36));
    return ((3 + x2) * sinh(x) - 3 * x * cosh(x)) / (x2 * x);
}

double blob_footprint(double s) {
    double t2 = 1 - s * s / (BLOB_RADIUS * BLOB_RADIUS);
    if (t2 <= 0) return 0;
    double t = sqrt(t2);
    /* √(2π/α) t^(5/2) I_(5/2)(α t) = 2 t³ √(π / 2αt) I_(5/2)(α t). */
    return 2 * BLOB_RADIUS / bessel_2(BLOB_ALPHA) * t2 * t * spherical_bessel_2(BLOB_ALPHA * t);
}
