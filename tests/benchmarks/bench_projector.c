/* bench_projector [BOX]: rates of set_map, slices and back-projection on one core, beside what memory traffic alone
 * allows. Orientations are random (worst for the caches) and in runs of psi, as in a global grid. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/memory.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/symmetry/symmetry.h"

enum { SLICES = 2400, PSI_RUN = 24, REPEATS = 3 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t seed = 1;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

/* Returns the bytes per second of a copy in memory, reading and writing together. */
static double copy_rate(float *from, float *to, size_t count) {
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds();
        memcpy(to, from, count * sizeof *from);
        best = fmin(best, seconds() - start);
    }
    return 2 * (double)count * sizeof *from / best;
}

static void orientations(float *matrices, int runs) {
    double rot = 0, tilt = 0, m[9];
    for (int i = 0; i < SLICES; i++) {
        if (!runs || i % PSI_RUN == 0) rot = 360 * uniform(), tilt = acos(1 - 2 * uniform()) * 180 / M_PI;
        euler_to_matrix(rot, tilt, runs ? 360.0 / PSI_RUN * (i % PSI_RUN) : 360 * uniform(), m);
        for (int j = 0; j < 9; j++)
            matrices[9 * i + j] = (float)m[j];
    }
}

static enum status rates(int box, int size, struct projector *projector, const float *map, double bandwidth,
                         struct err *err) {
    struct fourier_pixels pixels;
    struct accumulator *accumulator = NULL;
    TRY(fourier_pixels_create(box, size, &pixels, err));
    TRY(accumulator_create(3, box, size, &accumulator, err));
    TRY(projector_set_map(projector, map, size, err));
    size_t values = (size_t)SLICES * (size_t)pixels.count;
    float *slices = NULL, *weights = NULL, *matrices = NULL;
    TRY(mem_new(values, 2 * sizeof *slices, "slices", &slices, err));
    TRY(mem_new(values, sizeof *weights, "weights", &weights, err));
    TRY(mem_new(SLICES, 9 * sizeof *matrices, "matrices", &matrices, err));
    for (size_t i = 0; i < values; i++)
        weights[i] = 1;
    for (int runs = 0; runs < 2; runs++) {
        orientations(matrices, runs);
        double project = 1e9, scatter = 1e9;
        for (int i = 0; i < REPEATS; i++) {
            double start = seconds();
            projector_slices(projector, &pixels, pixels.count, SLICES, matrices, 1, slices);
            project = fmin(project, seconds() - start);
            start = seconds();
            TRY(accumulator_add(accumulator, &pixels, pixels.count, SLICES, matrices, slices, weights, 1, err));
            scatter = fmin(scatter, seconds() - start);
        }
        /* Least traffic even if the grid stayed in the cache: a slice is written (8 bytes per pixel), or read with its
         * weight (12). */
        double floor = 8 * (double)values / bandwidth, add_floor = 12 * (double)values / bandwidth;
        printf("size %4d, %s: slices %6.1f Mpixel/s (%4.1f × the traffic's floor), back-projection %6.1f Mpixel/s "
               "(%4.1f ×)\n",
               size, runs ? "runs of psi" : "random     ", 1e-6 * (double)values / project, project / floor,
               1e-6 * (double)values / scatter, scatter / add_floor);
    }
    accumulator_destroy(&accumulator);
    fourier_pixels_destroy(&pixels);
    free(slices), free(weights), free(matrices);
    return STATUS_OK;
}

static enum status bench(int box, struct err *err) {
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    float *map = NULL, *copy = NULL;
    struct projector *projector = NULL;
    TRY(mem_new(voxels, sizeof *map, "map", &map, err));
    for (size_t i = 0; i < voxels; i++)
        map[i] = (float)uniform();
    enum { COPIED = 1 << 24 };
    TRY(mem_new(2 * (size_t)COPIED, sizeof *copy, "buffer", &copy, err));
    double bandwidth = copy_rate(copy, copy + COPIED, COPIED);
    printf("box %d; a copy moves %.1f GB/s\n", box, 1e-9 * bandwidth);
    TRY(projector_create(3, box, 1, &projector, err));
    for (int i = 0; i < 2; i++) {
        double start = seconds();
        TRY(projector_set_map(projector, map, box, err));
        printf("set_map %.3f s%s\n", seconds() - start, i == 0 ? " (first)" : "");
    }
    const int sizes[] = {box / 3 / 2 * 2, box / 3 * 2, box};
    for (int i = 0; i < 3; i++)
        TRY(rates(box, sizes[i], projector, map, bandwidth, err));
    projector_destroy(&projector);
    free(map), free(copy);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err;
    if (bench(argc > 1 ? atoi(argv[1]) : 96, &err) != STATUS_OK) {
        fprintf(stderr, "bench_projector: %s\n", err.message);
        return 1;
    }
    return 0;
}
