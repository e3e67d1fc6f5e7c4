#include <math.h>

#include "common/memory.h"
#include "kernels/fsc/coverage.h"

/* Directions of voxels, over half a sphere: the other half holds their conjugates. MOST: views and their copies by
 * symmetry that are looked at. */
enum { POINTS = 600, MOST = 20000 };

/* Returns the point of that index of an even spiral over half a sphere (Fibonacci's). */
static void voxel_direction(int index, double ret_u[3]) {
    const double turn = M_PI * (3 - sqrt(5)), z = (index + 0.5) / POINTS, flat = sqrt(1 - z * z);
    ret_u[0] = flat * cos(turn * index);
    ret_u[1] = flat * sin(turn * index);
    ret_u[2] = z;
}

/* Makes the copies by symmetry of every step-th view. */
static void copy_views(const double (*views)[3], size_t count, size_t step, const struct symmetry *symmetry,
                       double (*ret_copies)[3]) {
    size_t at = 0;
    for (size_t i = 0; i < count; i += step)
        for (int s = 0; s < symmetry->count; s++, at++)
            for (int row = 0; row < 3; row++) {
                const double *m = symmetry->matrices[s] + 3 * (ptrdiff_t)row;
                ret_copies[at][row] = m[0] * views[i][0] + m[1] * views[i][1] + m[2] * views[i][2];
            }
}

/* Counts the slices that fill the voxel in direction u, in each shell: those that pass within half a voxel. */
static void fill(const double (*views)[3], size_t count, const double u[3], int last, double *ret_filled) {
    for (int s = 0; s <= last; s++)
        ret_filled[s] = 0;
    for (size_t i = 0; i < count; i++) {
        double away = fabs(u[0] * views[i][0] + u[1] * views[i][1] + u[2] * views[i][2]);
        ret_filled[away * (2 * last) < 1 ? last : (int)(0.5 / away)] += 1;
    }
    for (int s = last; s > 0; s--)
        ret_filled[s - 1] += ret_filled[s];
}

/* Returns the part that a shell holds (coverage.h). filled[POINTS]: slices that fill each of its voxels, stride numbers
 * apart. */
static double held_part(const double *filled, size_t stride, double fsc) {
    double mean = 0, thin = 0, whole = 0;
    int some = 0;
    for (int p = 0; p < POINTS; p++)
        mean += filled[(size_t)p * stride] / POINTS;
    for (int p = 0; p < POINTS; p++)
        if (filled[(size_t)p * stride] > 0) thin += mean / filled[(size_t)p * stride], some++;
    if (some == 0) return 0;
    const double f = fmin(fmax(fsc, 0.001), 0.999), y = f / (1 - f) * thin / some;
    for (int p = 0; p < POINTS; p++) {
        double signal = 2 * y * filled[(size_t)p * stride] / mean;
        whole += signal / (1 + signal) / POINTS;
    }
    return fmin(1, sqrt(whole * (1 + f) / (2 * f)));
}

double fsc_even(double fsc, double held) {
    double square = held * held * 2 * fsc / (1 + fsc);
    return fsc > 0 ? square / (2 - square) : fsc;
}

enum status fsc_coverage(const double (*views)[3], size_t count, const struct symmetry *symmetry, const float *fsc,
                         int last, double *ret_held, struct err *err) {
    FAIL_IF(last < 0 || last > 1024, err, STATUS_BAD_ARGUMENT,
            "shells up to %d cannot be looked at: the last one must lie between 0 and 1024", last);
    size_t step = count * (size_t)symmetry->count / MOST + 1, some = (count + step - 1) / step;
    size_t copies_count = some * (size_t)symmetry->count, stride = (size_t)last + 1;
    _cleanup_(mem_free) double(*copies)[3] = NULL;
    _cleanup_(mem_free) double *filled = NULL;
    TRY(mem_new(copies_count + 1, sizeof *copies, "views", &copies, err));
    TRY(mem_new(POINTS * stride, sizeof *filled, "voxels of shells", &filled, err));
    copy_views(views, count, step, symmetry, copies);
#pragma omp parallel for schedule(static)
    for (int p = 0; p < POINTS; p++) {
        double u[3];
        voxel_direction(p, u);
        fill((const double(*)[3])copies, copies_count, u, last, filled + (size_t)p * stride);
    }
    for (int s = 0; s <= last; s++)
        ret_held[s] = held_part(filled + s, stride, (double)fsc[s]);
    return STATUS_OK;
}
