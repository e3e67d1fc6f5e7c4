/* Taps of the interpolation along one axis. */
#include <math.h>

#include "kernels/motion/motion_weights.h"

/* Cycles per px up to which waves are to be shifted well. */
static const double BAND = 0.39;

static double wave(double distance) {
    double x = 2 * M_PI * BAND * distance;
    return x == 0 ? 1 : sin(x) / x;
}

/* Solves A x = b for a symmetric positive definite A (Cholesky); b becomes x. The lower half of A is overwritten. */
static void solve(double a[MOTION_TAPS][MOTION_TAPS], double b[MOTION_TAPS]) {
    for (int i = 0; i < MOTION_TAPS; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = a[i][j];
            for (int k = 0; k < j; k++)
                sum -= a[i][k] * a[j][k];
            a[i][j] = i == j ? sqrt(sum) : sum / a[j][j];
        }
        for (int k = 0; k < i; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    for (int i = MOTION_TAPS - 1; i >= 0; i--) {
        for (int k = i + 1; k < MOTION_TAPS; k++)
            b[i] -= a[k][i] * b[k];
        b[i] /= a[i][i];
    }
}

/* Fills the solution of A x = b, where A_ij and b_i are the correlations over the band of waves at the distances of the
 * taps and of the place. */
static void fit(double (*b)(int tap, double place), double place, double ret[MOTION_TAPS]) {
    double a[MOTION_TAPS][MOTION_TAPS];
    for (int i = 0; i < MOTION_TAPS; i++) {
        for (int j = 0; j < MOTION_TAPS; j++)
            a[i][j] = wave(i - j);
        ret[i] = b(i, place);
    }
    solve(a, ret);
}

static double from_place(int tap, double place) {
    return wave(tap - (MOTION_TAPS / 2 - 1) - place);
}

static double constant(int tap, double place) {
    (void)tap, (void)place;
    return 1;
}

void motion_taps(float ret_taps[MOTION_PHASES + 1][MOTION_TAPS]) {
    double free_taps[MOTION_TAPS], correction[MOTION_TAPS], correction_sum = 0;
    fit(constant, 0, correction);
    for (int i = 0; i < MOTION_TAPS; i++)
        correction_sum += correction[i];
    for (int phase = 0; phase <= MOTION_PHASES; phase++) {
        double sum = 0;
        fit(from_place, (double)phase / MOTION_PHASES, free_taps);
        for (int i = 0; i < MOTION_TAPS; i++)
            sum += free_taps[i];
        for (int i = 0; i < MOTION_TAPS; i++) /* Lagrange's multiplier makes the sum of the taps 1 */
            ret_taps[phase][i] = (float)(free_taps[i] + correction[i] * (1 - sum) / correction_sum);
    }
}
