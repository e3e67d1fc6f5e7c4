#include "brightness.h"

#include <math.h>

void brightness_measure(const struct image *image, double *row_sums, struct brightness *ret_brightness) {
    int nx = image->nx, ny = image->ny;
#pragma omp parallel for
    for (int y = 0; y < ny; y++) {
        const float *row = image->data + (size_t)y * (size_t)nx;
        double sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum, squares)
        for (int x = 0; x < nx; x++) {
            sum += row[x];
            squares += (double)row[x] * row[x];
        }
        row_sums[2 * y] = sum;
        row_sums[2 * y + 1] = squares;
    }
    /* Adds the rows in their order, so that the result does not depend on which thread finished first. */
    double sum = 0, squares = 0;
    for (int y = 0; y < ny; y++) {
        sum += row_sums[2 * y];
        squares += row_sums[2 * y + 1];
    }
    double count = (double)nx * ny;
    ret_brightness->mean = sum / count;
    ret_brightness->deviation = sqrt(fmax(0, squares / count - ret_brightness->mean * ret_brightness->mean));
}
