/* bench_map_align [BOX [THREADS]]: times the alignment of two maps of blobs in both hands, beside the product and the
 * slices that its grid needs at least. CPU time of all threads and wall-clock time, best of five. */
#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/memory.h"
#include "kernels/map_align/map_align.h"

enum { REPEATS = 5, BLOBS = 40, ROTATIONS = 4608, COLUMNS = 66, TILE = 48, SAMPLES = 2400 };

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t seed = 1;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 40) / 16777216.0;
}

static void draw(int box, float *map) {
    for (int b = 0; b < BLOBS; b++) {
        double at[3];
        for (int i = 0; i < 3; i++)
            at[i] = box * (0.5 + 0.4 * (uniform() - 0.5));
        for (int z = 0; z < box; z++)
            for (int y = 0; y < box; y++)
                for (int x = 0; x < box; x++) {
                    const double r2 = (x - at[0]) * (x - at[0]) + (y - at[1]) * (y - at[1]) + (z - at[2]) * (z - at[2]);
                    if (r2 < 60)
                        map[((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x] += (float)exp(-r2 / 6);
                }
    }
}

/* Times the grid's product alone, a tile after the other, on one core. */
static enum status bare_product(double *ret_seconds, struct err *err) {
    _cleanup_(mem_free) float *numbers = NULL;
    _cleanup_(mem_free) float *product = NULL;
    TRY(mem_new((size_t)(TILE + COLUMNS) * 2 * SAMPLES, sizeof *numbers, "numbers", &numbers, err));
    TRY(mem_new((size_t)TILE * COLUMNS, sizeof *product, "a product", &product, err));
    for (size_t i = 0; i < (size_t)(TILE + COLUMNS) * 2 * SAMPLES; i++)
        numbers[i] = (float)uniform();
    const float *columns = numbers + (size_t)TILE * 2 * SAMPLES;
    *ret_seconds = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        const double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
        for (int tile = 0; tile < ROTATIONS / TILE; tile++)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, TILE, COLUMNS, 2 * SAMPLES, 1, numbers, 2 * SAMPLES,
                        columns, 2 * SAMPLES, 0, product, COLUMNS);
        *ret_seconds = fmin(*ret_seconds, seconds(CLOCK_PROCESS_CPUTIME_ID) - start);
    }
    return STATUS_OK;
}

static enum status bench(int box, int threads, struct err *err) {
    const struct map_align_options options = {.box = box,
                                              .pixel_size = 1,
                                              .diameter = 0.75 * box,
                                              .coarsest = box / 2.0,
                                              .finest = box / 20.0 > 2 ? box / 20.0 : 2,
                                              .hands = true,
                                              .threads = threads};
    const size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    struct map_aligner *aligner = NULL;
    _cleanup_(mem_free) float *fixed = NULL;
    _cleanup_(mem_free) float *moved = NULL;
    TRY(mem_new(voxels, sizeof *fixed, "a map", &fixed, err));
    TRY(mem_new(voxels, sizeof *moved, "a map", &moved, err));
    draw(box, moved);
    TRY(map_align_create(&options, &aligner, err));
    struct map_alignment turn = {.inverted = true, .shift = {1, -2, 1.5}}, found = {0};
    euler_to_matrix(40, 75, 110, turn.rotation);
    enum status status = map_align_apply(aligner, &turn, moved, fixed, err);
    double wall = INFINITY, processor = INFINITY, bare = 0;
    for (int i = 0; i < REPEATS && status == STATUS_OK; i++) {
        const double start = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
        status = map_align_find(aligner, fixed, moved, &found, err);
        wall = fmin(wall, seconds(CLOCK_MONOTONIC) - start);
        processor = fmin(processor, seconds(CLOCK_PROCESS_CPUTIME_ID) - used);
    }
    map_align_destroy(&aligner);
    TRY(status);
    TRY(bare_product(&bare, err));
    printf(
        "two maps of %d^3, %d threads: %.0f ms, %.0f ms of CPU, %.1f x the time of the grid's product alone (%.0f ms, "
        "%.1f GFLOP/s); score %.3f, hand %s\n",
        box, threads, 1e3 * wall, 1e3 * processor, processor / bare, 1e3 * bare,
        4e-9 * ROTATIONS * COLUMNS * SAMPLES / bare, found.score, found.inverted ? "inverted" : "same");
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (bench(argc > 1 ? atoi(argv[1]) : 64, argc > 2 ? atoi(argv[2]) : 2, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    return 0;
}
