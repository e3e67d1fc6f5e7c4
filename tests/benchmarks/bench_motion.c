/* Times the correction of motion (kernels/motion) on the CPU and on a CUDA device, part by part, beside floors.
 *
 *   bench_motion [NX NY FRAMES [THREADS [PATCHES [cpu|cuda|both]]]]     4096 4096 40, all cores, 5 × 5, both
 *
 * The movie is simulated: counts in bytes, 1 per px and frame, drift and doming, a gain. Times are the least of 3 runs
 * (CPU: 2) of one object, so that plans and buffers are there. Upload: all frames and the gain, from page-locked memory
 * to the device; complete when the next part begins to be timed. Floors: bytes that must move over the measured rate of
 * copies; multiply-adds of the interpolation over what shared memory can feed. */
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/clock.h"
#include "common/device.h"
#include "common/memory.h"
#include "kernels/motion/motion_weights.h"
#include "tests/benchmarks/motion_times.h"
#include "tests/kernels/motion_movie.h"

enum { UPLOAD, ALIGN, SUM, HALVES, SPECTRUM, PARTS };
static const char *const NAMES[PARTS] = {"upload", "alignment", "both sums", "both sums, halves", "spectrum"};

struct bench {
    struct movie movie;
    int threads, patches;
    double *dose;
    float *image[4], *power;
};

static void check(enum status status, const struct err *err) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static double since(double *begin) {
    double now = clock_monotonic(), seconds = now - *begin;
    *begin = now;
    return seconds;
}

static void least(double *best, double seconds) {
    if (seconds < *best) *best = seconds;
}

static void wait_for(struct device device) {
    struct err err = {0};
    if (device.kind == DEVICE_CUDA) check(motion_rates_wait(&err), &err);
}

static void run_parts(const struct bench *b, struct motion *motion, const struct motion_frames *frames,
                      struct device device, struct motion_model *model, double seconds[PARTS]) {
    struct err err = {0};
    struct motion_sum_options options = {.bin = 1,
                                         .pixel_size = 1,
                                         .voltage = 300,
                                         .dose = b->dose,
                                         .spectrum_box = frames->nx >= 2048 ? 1024 : 256,
                                         .spectrum_group = 4};
    struct motion_sums both = {.weighted = b->image[0], .unweighted = b->image[1]}, all = both;
    struct motion_sums power = {.power = b->power};
    struct motion_report report;
    all.even = b->image[2], all.odd = b->image[3];
    wait_for(device);
    double begin = clock_monotonic();
    check(motion_take(motion, frames, &err), &err);
    wait_for(device);
    least(&seconds[UPLOAD], since(&begin));
    check(motion_align(motion, model, &report, &err), &err);
    least(&seconds[ALIGN], since(&begin));
    check(motion_sum(motion, model, &options, &both, &err), &err);
    least(&seconds[SUM], since(&begin));
    check(motion_sum(motion, model, &options, &all, &err), &err);
    least(&seconds[HALVES], since(&begin));
    check(motion_sum(motion, model, &options, &power, &err), &err);
    least(&seconds[SPECTRUM], since(&begin));
}

static void run(const struct bench *b, struct device device, double seconds[PARTS]) {
    struct err err = {0};
    struct motion *motion = NULL;
    struct motion_model model = {0};
    struct motion_frames frames = b->movie.frames;
    struct motion_task task = {.nx = frames.nx,
                               .ny = frames.ny,
                               .frames = frames.count,
                               .pixels = frames.pixels,
                               .align = {.bfactor = 150,
                                         .patches_x = b->patches,
                                         .patches_y = b->patches,
                                         .group = 1,
                                         .search = 50,
                                         .iterations = 5,
                                         .tolerance = 0.5},
                               .threads = b->threads,
                               .device = device};
    size_t bytes = (size_t)frames.nx * (size_t)frames.ny;
    void **copies = calloc((size_t)frames.count, sizeof *copies);
    if (copies == NULL) exit(1);
    for (int j = 0; j < frames.count; j++) {
        check(device_host_new(&device, bytes, 1, "frames", &copies[j], &err), &err);
        memcpy(copies[j], frames.frame[j], bytes);
    }
    frames.frame = copies;
    for (int i = 0; i < PARTS; i++)
        seconds[i] = INFINITY;
    double begin = clock_monotonic();
    check(motion_create(&task, &motion, &err), &err);
    double created = since(&begin);
    for (int i = 0; i < (device.kind == DEVICE_CPU ? 2 : 4); i++)
        run_parts(b, motion, &frames, device, &model, seconds);
    printf("%s: created in %.2f s; error %.3f px at 5 × 5 places\n", device.kind == DEVICE_CPU ? "CPU" : "CUDA",
           created, movie_error(&b->movie.of, &model, b->patches > 2 ? 5 : 1));
    motion_destroy(&motion);
    motion_model_clear(&model);
    for (int j = 0; j < frames.count; j++)
        device_host_free(&device, &copies[j]);
    free((void *)copies);
}

/* Fills the floors of the device: bytes over the rate of copies, taps over the rate of shared memory. */
static void find_floors(const struct bench *b, double bytes[PARTS], double taps[PARTS]) {
    struct motion_rates rates = {0};
    struct motion_weights *weights = NULL;
    struct err err = {0};
    const struct motion_frames *f = &b->movie.frames;
    double pixels = (double)f->nx * f->ny, all = pixels * f->count;
    check(motion_rates_measure(&rates, &err), &err);
    check(motion_weights_create(f->count, b->dose, 1, 300, &weights, &err), &err);
    /* Each sum is written, transformed in two passes of reading and writing, and read. */
    double each = 4 * pixels * (1 + 4 + 1);
    bytes[UPLOAD] = (all + 4 * pixels) / rates.upload;
    bytes[ALIGN] = (all + 4 * pixels) / rates.copy;
    bytes[SUM] = (all + 4 * pixels + weights->terms * each) / rates.copy + 8 * pixels / rates.upload;
    bytes[HALVES] = (all + 4 * pixels + 2 * weights->terms * each) / rates.copy + 16 * pixels / rates.upload;
    bytes[SPECTRUM] = (all * 3 + f->count / 4 * 3 * each) / rates.copy;
    taps[SUM] = taps[HALVES] = all * MOTION_TAPS * MOTION_TAPS / rates.taps;
    printf("rates: upload %.1f GB/s, device %.0f GB/s, taps %.1f T/s; %d terms\n", 1e-9 * rates.upload,
           1e-9 * rates.copy, 1e-12 * rates.taps, weights->terms);
    motion_weights_destroy(&weights);
}

static void make(struct bench *b, int nx, int ny, int frames) {
    const struct movie_case of = {.nx = nx,
                                  .ny = ny,
                                  .frames = frames,
                                  .counts = 1,
                                  .contrast = 0.3,
                                  .drift = 10,
                                  .doming = 3,
                                  .gain = true,
                                  .seed = 20};
    size_t pixels = (size_t)nx * (size_t)ny;
    double begin = clock_monotonic();
    b->movie = movie_new(&of);
    b->dose = calloc((size_t)frames, sizeof *b->dose);
    b->power = calloc(1024 * 513, sizeof *b->power);
    if (b->dose == NULL || b->power == NULL) exit(1);
    for (int j = 0; j < frames; j++)
        b->dose[j] = j + 1;
    printf("%d frames of %d × %d px were simulated in %.1f s\n", frames, nx, ny, since(&begin));
    for (int i = 0; i < 4; i++)
        if ((b->image[i] = mem_aligned(pixels, sizeof(float))) == NULL) exit(1);
}

static int all_threads(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

int main(int argc, char **argv) {
    int nx = argc > 3 ? atoi(argv[1]) : 4096, ny = argc > 3 ? atoi(argv[2]) : 4096;
    int frames = argc > 3 ? atoi(argv[3]) : 40, devices = 0;
    struct bench b = {.threads = argc > 4 ? atoi(argv[4]) : all_threads(), .patches = argc > 5 ? atoi(argv[5]) : 5};
    const char *which = argc > 6 ? argv[6] : "both";
    double seconds[2][PARTS], bytes[PARTS] = {0}, taps[PARTS] = {0};
    struct err err = {0};
    make(&b, nx, ny, frames);
    check(device_count(&devices, &err), &err);
    for (int i = 0; i < PARTS; i++)
        seconds[0][i] = seconds[1][i] = NAN;
    if (strcmp(which, "cuda") != 0) run(&b, (struct device){DEVICE_CPU, 0}, seconds[0]);
    if (strcmp(which, "cpu") != 0 && devices > 0) {
        run(&b, (struct device){DEVICE_CUDA, 0}, seconds[1]);
        find_floors(&b, bytes, taps);
    }
    printf("%-18s %10s %10s %18s %18s\n", "part", "CPU, s", "CUDA, ms", "floor (bytes), ms", "floor (taps), ms");
    for (int i = 0; i < PARTS; i++)
        printf("%-18s %10.3f %10.2f %18.2f %18.2f\n", NAMES[i], seconds[0][i], 1e3 * seconds[1][i], 1e3 * bytes[i],
               1e3 * taps[i]);
    double movie = seconds[1][UPLOAD] + seconds[1][ALIGN] + seconds[1][SUM] + seconds[1][SPECTRUM];
    printf("a movie (upload, alignment, both sums, spectrum): CPU %.2f s on %d threads, CUDA %.1f ms\n",
           seconds[0][ALIGN] + seconds[0][SUM] + seconds[0][SPECTRUM], b.threads, 1e3 * movie);
    for (int i = 0; i < 4; i++)
        free(b.image[i]);
    free(b.power);
    free(b.dose);
    movie_free(&b.movie);
    return 0;
}
