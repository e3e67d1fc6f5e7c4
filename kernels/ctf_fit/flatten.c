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

/* Returns the first row of a part of the spectrum; part CTF_PARTS begins behind the last row. */
static int part_begin(int box, int part) {
    return (int)((long long)box * part / CTF_PARTS);
}

static int ring_of(int box, int row, int kx) {
    int ky = row <= box / 2 ? row : row - box;
    return (int)(sqrtf((float)(kx * kx + ky * ky)) + 0.5f);
}

/* Adds the logarithms of the amplitudes of some rows to the rings, and counts them: sum[ring], count[ring]. */
static void sum_rings(const struct ctf_fit *fit, int part, double *sum, double *count) {
    int box = fit->box, columns = box / 2 + 1;
    memset(sum, 0, (size_t)box * sizeof *sum);
    memset(count, 0, (size_t)box * sizeof *count);
    for (int row = part_begin(box, part); row < part_begin(box, part + 1); row++)
        for (int kx = 0; kx < columns; kx++) {
            int ring = ring_of(box, row, kx);
            sum[ring] += (double)logf(fit->flat[(size_t)row * (size_t)columns + (size_t)kx] + 1e-30f);
            count[ring] += 1;
        }
}

/* Divides the amplitudes by their mean on rings, smoothed over ±half rings: afterwards the background is nearly flat,
 * however steeply it fell. */
static void divide_by_rings(struct ctf_fit *fit, int half) {
    int box = fit->box, columns = box / 2 + 1, rings = box; /* the corners lie at 0.71 box */
    double *sum = fit->sums, *count = sum + rings, *smooth = count + rings;
#pragma omp parallel for num_threads(fit->threads) schedule(static)
    for (int part = 0; part < CTF_PARTS; part++)
        sum_rings(fit, part, fit->sums + (size_t)part * 3 * (size_t)box,
                  fit->sums + ((size_t)part * 3 + 1) * (size_t)box);
    for (int part = 1; part < CTF_PARTS; part++)
        for (int r = 0; r < 2 * rings; r++)
            sum[r] += fit->sums[(size_t)part * 3 * (size_t)box + (size_t)r];
    for (int r = 0; r < rings; r++) {
        double total = 0, number = 0;
        int reach = half < r ? half : r;
        for (int k = r - reach; k <= r + reach && k < rings; k++) {
            if (count[k] == 0) continue;
            total += sum[k] / count[k];
            number++;
        }
        smooth[r] = number > 0 ? exp(-total / number) : 0;
    }
#pragma omp parallel for num_threads(fit->threads) schedule(static)
    for (int row = 0; row < box; row++)
        for (int kx = 0; kx < columns; kx++)
            fit->flat[(size_t)row * (size_t)columns + (size_t)kx] *= (float)smooth[ring_of(box, row, kx)];
}

/* Fills some rows of average[] with the mean of flat[] over a square of 2 half + 1 px. sums: [columns + 2 half], the sum
 * of each column over the rows of the square. */
static void average_part(struct ctf_fit *fit, int half, int part, double *sums) {
    int box = fit->box, columns = box / 2 + 1, across = columns + 2 * half;
    int begin = part_begin(box, part), end = part_begin(box, part + 1);
    double area = (double)(2 * half + 1) * (2 * half + 1);
    for (int x = 0; x < across; x++) {
        sums[x] = 0;
        for (int y = begin - half; y <= begin + half; y++)
            sums[x] += (double)fit->flat[place_of(box, y, x - half)];
    }
    for (int row = begin; row < end; row++) {
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
#pragma omp parallel for num_threads(fit->threads) schedule(static)
    for (int part = 0; part < CTF_PARTS; part++)
        average_part(fit, half, part, fit->columns + (size_t)part * 2 * (size_t)fit->box);
    for (size_t i = 0; i < count; i++) {
        float value = fit->average[i] > 0 ? fit->flat[i] / fit->average[i] - 1 : 0;
        fit->flat[i] = value > 1 ? 1 : value; /* one bright pixel, as of a lattice, must not decide */
    }
}
