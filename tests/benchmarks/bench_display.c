/* Times what the stages leave for pages: the thumbnail of a micrograph, made and written, and the measurement of the fixed
 * pattern that the gain has left in a movie.
 *
 *   bench_display FOLDER [NX NY FRAMES [REPEATS]]
 *
 * Prints the median of REPEATS, one thread, and the floor of each: the time to read the same pixels once. The thumbnail is
 * written to FOLDER, and synced. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/thumbnail.h"
#include "common/memory.h"
#include "kernels/gain_residual/gain_residual.h"

enum { REPEATS_MOST = 100 };

struct times {
    double value[REPEATS_MOST];
    int count;
};

static void note(struct times *times, double begin) {
    times->value[times->count++] = clock_monotonic() - begin;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ms(struct times *times) {
    qsort(times->value, (size_t)times->count, sizeof *times->value, compare);
    return 1e3 * times->value[times->count / 2];
}

/* A cheap generator of noise. */
static float noise(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(*seed >> 40) / (1 << 24);
}

static enum status measure_thumbnail(const char *folder, int nx, int ny, int repeats, struct err *err) {
    _cleanup_(image_destroy) struct image image = {0};
    struct thumbnail thumbnail;
    struct times make = {0}, write = {0}, floor = {0};
    struct stat file;
    char path[PATH_SIZE];
    uint64_t seed = 1;
    volatile float kept = 0;
    TRY(path_join(folder, "bench_thumb.jpg", path, sizeof path, err));
    TRY(image_resize(&image, nx, ny, 1, err));
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = noise(&seed);
    for (int i = 0; i < repeats; i++) {
        double begin = clock_monotonic();
        float sum[8] = {0};
        for (size_t p = 0; p + 8 <= image_count(&image); p += 8)
            for (int k = 0; k < 8; k++)
                sum[k] += image.data[p + (size_t)k];
        kept = sum[0];
        note(&floor, begin);
        begin = clock_monotonic();
        thumbnail_make(&image, &thumbnail);
        note(&make, begin);
        begin = clock_monotonic();
        TRY(thumbnail_write(&thumbnail, path, err));
        note(&write, begin);
    }
    FAIL_IF(stat(path, &file) != 0, err, STATUS_UNAVAILABLE, "%s is gone", path);
    printf("thumbnail of %d x %d px: %.2f ms to make, %.2f ms to write %lld bytes; floor %.2f ms%s\n", nx, ny,
           median_ms(&make), median_ms(&write), (long long)file.st_size, median_ms(&floor), kept < 0 ? "!" : "");
    return STATUS_OK;
}

static enum status measure_residual(int nx, int ny, int count, int repeats, struct err *err) {
    size_t pixels = (size_t)nx * (size_t)ny;
    _cleanup_(mem_free) uint8_t *counts = NULL;
    _cleanup_(mem_free) void **frame = NULL;
    struct times times = {0};
    uint64_t seed = 2;
    double found = 0;
    TRY(mem_new(pixels * (size_t)count, 1, "frames", &counts, err));
    TRY(mem_new((size_t)count, sizeof *frame, "frames", &frame, err));
    for (size_t i = 0; i < pixels * (size_t)count; i++)
        counts[i] = noise(&seed) < 0.5F;
    for (int f = 0; f < count; f++)
        frame[f] = counts + (size_t)f * pixels;
    const struct motion_frames frames = {.nx = nx, .ny = ny, .count = count, .pixels = MOTION_U8, .frame = frame};
    for (int i = 0; i < repeats; i++) {
        double begin = clock_monotonic();
        found = gain_residual(&frames);
        note(&times, begin);
    }
    printf("residual of the gain, %d frames of %d x %d px: %.2f ms (found %.4f)\n", count, nx, ny, median_ms(&times),
           found);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {0};
    int nx = argc > 2 ? atoi(argv[2]) : 4096, ny = argc > 3 ? atoi(argv[3]) : 4096,
        frames = argc > 4 ? atoi(argv[4]) : 40;
    int repeats = argc > 5 ? atoi(argv[5]) : 11;
    if (argc < 2 || nx < 1 || ny < 1 || frames < 2 || repeats < 1 || repeats > REPEATS_MOST) {
        fprintf(stderr, "bench_display FOLDER [NX NY FRAMES [REPEATS]]\n");
        return 2;
    }
    enum status status = measure_thumbnail(argv[1], nx, ny, repeats, &err);
    if (status == STATUS_OK) status = measure_residual(nx, ny, frames, repeats, &err);
    if (status != STATUS_OK) fprintf(stderr, "%s\n", err.message);
    return status == STATUS_OK ? 0 : 1;
}
