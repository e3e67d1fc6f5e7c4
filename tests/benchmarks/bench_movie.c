/* Times the reading of a movie's frames, as the motion-corrector reads them: several at a time, each in the type that the
 * camera counts in.
 *
 *   bench_movie MOVIE [THREADS [REPEATS [EER_GROUP [EER_LEVEL]]]]
 *
 * Prints the least time of REPEATS, with the file in the page cache, and what a second of processor time reads: bytes of the
 * file, pixels and electrons. Beside it stands the floor, which copies the file's bytes and fills the frames. */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "stages/motion-corrector/frames.h"

static double electrons_of(const struct frames *frames) {
    double sum = 0;
    size_t pixels = (size_t)frames->data.nx * (size_t)frames->data.ny;
    for (int f = 0; f < frames->data.count; f++)
        for (size_t i = 0; i < pixels; i++) {
            const void *frame = frames->places[f];
            sum += frames->data.pixels == MOTION_U8    ? ((const uint8_t *)frame)[i]
                   : frames->data.pixels == MOTION_U16 ? ((const uint16_t *)frame)[i]
                                                       : (double)((const float *)frame)[i];
        }
    return sum;
}

/* Copies the file out of the page cache and fills the frames, each once. */
static enum status time_floor(const char *path, struct frames *frames, size_t *ret_bytes, double *ret_seconds,
                              struct err *err) {
    _cleanup_(mem_free) char *bytes = NULL;
    TRY(file_read_whole(path, (size_t)1 << 36, &bytes, ret_bytes, err));
    _cleanup_(mem_free) char *copy = NULL;
    TRY(mem_new(*ret_bytes, 1, "a copy", &copy, err));
    double begin = clock_monotonic();
    memcpy(copy, bytes, *ret_bytes);
    memset(frames->memory, copy[0], frames->capacity);
    *ret_seconds = clock_monotonic() - begin;
    return STATUS_OK;
}

static enum status measure(const char *path, const struct frames_task *task, int repeats, struct frames *frames,
                           struct err *err) {
    double least = 1e9, busy = 1e9, copied;
    size_t bytes;
    for (int i = 0; i <= repeats; i++) { /* once before the clock counts */
        double begin = clock_monotonic();
        clock_t used = clock();
        TRY(frames_read(path, task, frames, err));
        double seconds = clock_monotonic() - begin, processor = (double)(clock() - used) / CLOCKS_PER_SEC;
        if (i > 0 && seconds < least) least = seconds;
        if (i > 0 && processor < busy) busy = processor;
    }
    double electrons = electrons_of(frames), pixels = (double)frames->data.nx * frames->data.ny * frames->data.count;
    TRY(time_floor(path, frames, &bytes, &copied, err));
    double each = busy * 1e6;
    printf("%s: %d frames of %d x %d px, %.0f MB, %.0f million electrons\n", path, frames->data.count, frames->data.nx,
           frames->data.ny, (double)bytes / 1e6, electrons / 1e6);
    printf(
        "%d threads: %.3f s, %.3f s of processor time; a second of it reads %.0f MB, %.0f million pixels, %.0f million "
        "electrons\n",
        task->threads, least, busy, (double)bytes / each, pixels / each, electrons / each);
    printf("floor, one thread: %.3f s to copy the file and fill the frames\n", copied);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct frames frames = {0};
    struct frames_task task = {.first = 1, .last = INT_MIN, .threads = argc > 2 ? atoi(argv[2]) : 2};
    int repeats = argc > 3 ? atoi(argv[3]) : 3;
    if (argc > 4) task.movie.eer_group = atoi(argv[4]);
    if (argc > 5) task.movie.eer_level = atoi(argv[5]);
    if (argc < 2 || task.threads < 1 || repeats < 1) {
        fprintf(stderr, "bench_movie MOVIE [THREADS [REPEATS [EER_GROUP [EER_LEVEL]]]]\n");
        return 2;
    }
    enum status status = measure(argv[1], &task, repeats, &frames, &err);
    if (status != STATUS_OK) fprintf(stderr, "%s\n", err.message);
    frames_clear(&frames);
    return status == STATUS_OK ? 0 : 1;
}
