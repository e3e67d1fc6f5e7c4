#include <math.h>
#include <string.h>

#include "kernels/ctf_fit/ctf_fit_private.h"

/* Returns the place of a frequency of the full plane in the half plane: a real image has the same power at −k. */
static size_t place_of(int box, int ky, int kx) {
    if (kx > box / 2) kx -= box;
    if (kx < 0) {
        kx = -kx;
        ky = -ky;
    }
    return (size_t)((ky % box + box) % box) * (size_t)(box / 2 + 1) + (size_t)kx;
}

/* Divides the amplitudes by their mean on rings, smoothed over ±half rings: afterwards the background is nearly flat,
 * however steeply it fell. */
static void divide_by_rings(struct ctf_fit *fit, int half) {
    int box = fit->box, columns = box / 2 + 1, rings = box; /* the corners lie at 0.71 box */
    double *sum = fit->sums, *weight = sum + rings, *smooth = weight + rings;
    memset(sum, 0, (size_t)rings * 2 * sizeof *sum);
    for (int row = 0; row < box; row++) {
        int ky = row <= box / 2 ? row : row - box;
        for (int kx = 0; kx < columns; kx++) {
            int ring = (int)(sqrtf((float)(kx * kx + ky * ky)) + 0.5f);
            sum[ring] += (double)logf(fit->flat[(size_t)row * (size_t)columns + (size_t)kx] + 1e-30f);
            weight[ring] += 1;
        }
    }
    for (int r = 0; r < rings; r++) {
        double total = 0, number = 0;
        int reach = half < r ? half : r;
        for (int k = r - reach; k <= r + reach && k < rings; k++) {
            if (weight[k] == 0) continue;
            total += sum[k] / weight[k];
            number++;
        }
        smooth[r] = number > 0 ? exp(-total / number) : 0;
    }
    for (int row = 0; row < box; row++) {
        int ky = row <= box / 2 ? row : row - box;
        for (int kx = 0; kx < columns; kx++) {
            int ring = (int)(sqrtf((float)(kx * kx + ky * ky)) + 0.5f);
            fit->flat[(size_t)row * (size_t)columns + (size_t)kx] *= (float)smooth[ring];
        }
    }
}

/* Fills average[] with the mean of flat[] over a square of 2 half + 1 px. */
static void local_average(struct ctf_fit *fit, int half) {
    int box = fit->box, columns = box / 2 + 1, across = columns + 2 * half;
    double *sums = fit->columns; /* [across]: the sum of each column over the square's rows */
    double area = (double)(2 * half + 1) * (2 * half + 1);
    for (int x = 0; x < across; x++) {
        sums[x] = 0;
        for (int y = -half; y <= half; y++)
            sums[x] += (double)fit->flat[place_of(box, y, x - half)];
    }
    for (int row = 0; row < box; row++) {
        double sum = 0;
        for (int x = 0; x < 2 * half; x++)
            sum += sums[x];
        for (int kx = 0; kx < columns; kx++) {
            sum += sums[kx + 2 * half];
            fit->average[(size_t)row * (size_t)columns + (size_t)kx] = (float)(sum / area);
            sum -= sums[kx];
        }
        for (int x = 0; x < across; x++)
            sums[x] += (double)fit->flat[place_of(box, row + half + 1, x - half)] -
                       (double)fit->flat[place_of(box, row - half, x - half)];
    }
}

void ctf_flatten(struct ctf_fit *fit, const float *power, double low_radius) {
    size_t count = (size_t)fit->box * (size_t)(fit->box / 2 + 1);
    int half = (int)(0.7 * low_radius);
    half = half < 8 ? 8 : half > fit->box / 4 ? fit->box / 4 : half;
    for (size_t i = 0; i < count; i++)
        fit->flat[i] = sqrtf(power[i]);
    divide_by_rings(fit, half);
    local_average(fit, half);
    for (size_t i = 0; i < count; i++) {
        float value = fit->average[i] > 0 ? fit->flat[i] / fit->average[i] - 1 : 0;
        fit->flat[i] = value > 1 ? 1 : value; /* one bright pixel, as of a lattice, must not decide */
    }
}
