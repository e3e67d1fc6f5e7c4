#include "kernels/fsc/fsc.h"

#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/fsc/fsc_private.h"
#include "kernels/fsc/soft_edge.h"

enum { CROSS, POWER_A, POWER_B, TERMS };

/* Sums over one plane z of the half transforms. Columns other than the first and the last count twice, for their
 * conjugates. */
static void correlate_plane(int box, int z, const float *a, const float *b, double (*sums)[TERMS]) {
    int columns = box / 2 + 1, kz = z <= box / 2 ? z : z - box;
    for (int y = 0; y < box; y++) {
        int ky = y <= box / 2 ? y : y - box;
        size_t row = 2 * ((size_t)z * (size_t)box + (size_t)y) * (size_t)columns;
        for (int kx = 0; kx < columns; kx++) {
            int shell = (int)(sqrt(kx * kx + ky * ky + kz * kz) + 0.5);
            if (shell > box / 2) break;
            double are = (double)a[row + 2 * (size_t)kx], aim = (double)a[row + 2 * (size_t)kx + 1];
            double bre = (double)b[row + 2 * (size_t)kx], bim = (double)b[row + 2 * (size_t)kx + 1];
            double copies = kx == 0 || 2 * kx == box ? 1 : 2;
            sums[shell][CROSS] += copies * (are * bre + aim * bim);
            sums[shell][POWER_A] += copies * (are * are + aim * aim);
            sums[shell][POWER_B] += copies * (bre * bre + bim * bim);
        }
    }
}

enum status fsc_spectra(int box, const float *a, const float *b, float *ret_fsc, struct err *err) {
    size_t shells = (size_t)box / 2 + 1;
    _cleanup_(mem_free) double(*sums)[TERMS] = NULL;
    TRY(mem_new((size_t)box * shells, sizeof *sums, "Fourier shell sums", &sums, err));
#pragma omp parallel for schedule(static)
    for (int z = 0; z < box; z++)
        correlate_plane(box, z, a, b, sums + (size_t)z * shells);
    for (size_t s = 0; s < shells; s++) {
        double total[TERMS] = {0};
        for (size_t z = 0; z < (size_t)box; z++)
            for (int t = 0; t < TERMS; t++)
                total[t] += sums[z * shells + s][t];
        double scale = sqrt(total[POWER_A] * total[POWER_B]);
        ret_fsc[s] = scale > 0 ? (float)(total[CROSS] / scale) : 0;
    }
    return STATUS_OK;
}

static enum status maps(struct workspace *workspace_or_null, int box, const float *a, const float *b, float *ret_fsc,
                        struct err *err) {
    (void)workspace_or_null;
    FAIL_IF(box < 2 || box % 2 != 0 || box > 2048, err, STATUS_BAD_ARGUMENT,
            "maps of %d px cannot be correlated: the box must be even and between 2 and 2048 px", box);
    const struct fft_options options = {
        .rank = 3, .shape = {box, box, box}, .direction = FFT_FORWARD, .threads = FFT_ALL_THREADS};
    struct fft_plan *plan = NULL;
    TRY(fft_create(&options, &plan, err));
    size_t reals = fft_real_count(plan), floats = fft_complex_floats(plan);
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *fa = NULL;
    _cleanup_(mem_free) float *fb = NULL;
    enum status status = mem_new_unset(reals, sizeof *real, "map", &real, err);
    if (status == STATUS_OK) status = mem_new_unset(floats, sizeof *fa, "map transform", &fa, err);
    if (status == STATUS_OK) status = mem_new_unset(floats, sizeof *fb, "map transform", &fb, err);
    if (status == STATUS_OK) {
        /* FFTW's plans need aligned input; the caller's maps may not be aligned. */
        memcpy(real, a, reals * sizeof *real);
        fft_run(plan, real, fa);
        memcpy(real, b, reals * sizeof *real);
        fft_run(plan, real, fb);
        status = fsc_spectra(box, fa, fb, ret_fsc, err);
    }
    fft_destroy(&plan);
    return status;
}

const struct fsc_work fsc_cpu_work = {.maps = maps, .difference = fsc_cpu_difference};

double fsc_resolution(const float *fsc, int box, double pixel_size, double threshold) {
    int shell = 1;
    while (shell <= box / 2 && (double)fsc[shell] >= threshold)
        shell++;
    return shell == 1 ? 999 : box * pixel_size / (shell - 1);
}

void mask_sphere(int dimensions, int box, float *map, double radius, double edge, int fill_with_mean) {
    int c = box / 2, depth = dimensions == 3 ? box : 1;
    double sum = 0, weight = 0, fill = 0;
    /* Squared radii below which a voxel is surely inside, and above which it is surely outside. */
    double inside2 = radius > 1 ? (radius - 1e-3) * (radius - 1e-3) : 0;
    double beyond2 = (radius + fmax(edge, 0) + 1e-3) * (radius + fmax(edge, 0) + 1e-3);
    /* Threads take longer to come together than one takes for a smaller map. */
    enum { WORTHWHILE = 64 };
    /* One thread sums the mean, so that the result does not depend on the number of threads. */
    for (int pass = fill_with_mean ? 0 : 1; pass < 2; pass++) {
#pragma omp parallel for schedule(static) if (pass == 1 && depth >= WORTHWHILE)
        for (int z = 0; z < depth; z++)
            for (int y = 0; y < box; y++) {
                float *row = map + ((size_t)z * (size_t)box + (size_t)y) * (size_t)box;
                int dz = depth == 1 ? 0 : z - c, part = dz * dz + (y - c) * (y - c);
                for (int x = 0; x < box; x++) {
                    int r2 = part + (x - c) * (x - c);
                    if (r2 < inside2 && pass == 1) continue; /* true of most voxels */
                    double w = r2 < inside2 ? 0 : r2 > beyond2 ? 1 : soft_edge_outside(sqrt(r2), radius, edge);
                    if (pass == 0)
                        sum += w * (double)row[x], weight += w;
                    else
                        row[x] = (float)((1 - w) * (double)row[x] + w * fill);
                }
            }
        fill = weight > 0 ? sum / weight : 0;
    }
}
