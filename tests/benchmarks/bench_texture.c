/* Measures time and memory of the texture features of one image, beside the floor and the paper's time. On a CPU, also
 * the speed of independent copies.
 *
 *   bench_texture [DEVICE [IMAGES THREADS [DIAMETER STRIDE]]]
 *
 * Default: the first CUDA device, else the CPU; 1 image (CUDA: 32), 1 thread, 200 px, stride 1. Images are random
 * fields of four grain sizes in turn, which give sparse and full matrices. Floor: the pairs that leave or enter a
 * window, at the few instructions that each needs. One instruction takes a quarter of a cycle of 3 GHz (CPU); on CUDA
 * each of a multiprocessor's four schedulers retires one warp's instruction per cycle. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/texture/texture_private.h"

enum { SIDE = 256, KINDS = 4 };

static uint64_t seed = 20261122;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

/* Makes white noise averaged over `grain` px, with white noise on top. */
static void make_image(uint8_t *image, int grain) {
    static float field[SIDE + 16][SIDE + 16];
    for (int y = 0; y < SIDE + 16; y++)
        for (int x = 0; x < SIDE + 16; x++)
            field[y][x] = (float)(uniform() - 0.5);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            double sum = 0;
            for (int v = 0; v < grain; v++)
                for (int u = 0; u < grain; u++)
                    sum += field[y + v][x + u];
            double value = 128 + 120 * sum / grain + 4 * (uniform() - 0.5);
            image[y * SIDE + x] = (uint8_t)fmin(255, fmax(0, value));
        }
}

static double cpu_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the number of pairs that leave or enter if no window is built anew. */
static double count_pairs(const struct texture_geometry *g) {
    double pairs = 0;
    for (int d = 0; d < g->first[TEXTURE_LENGTHS + 1]; d++) {
        int dx = abs(g->displacements[d].dx), dy = abs(g->displacements[d].dy);
        int lines = g->options.stride, shorter = g->options.window - (dx > dy ? dx : dy);
        int longer = g->options.window - (dx > dy ? dy : dx);
        pairs += 2.0 * shorter * (lines < longer ? lines : longer);
    }
    return pairs * g->pixels * TEXTURE_QUANTISATIONS;
}

static void report(const struct texture *t, int images, double wall, double cpu) {
    const struct texture_geometry *g = texture_geometry(t);
    double pairs = count_pairs(g), matrices = (double)g->pixels * texture_displacements(t) * TEXTURE_QUANTISATIONS;
    bool cuda = g->options.device.kind == DEVICE_CUDA;
    printf("%d px, %d displacements, %.1f million matrices, %.2f billion pairs that leave or enter\n", g->pixels,
           texture_displacements(t), matrices / 1e6, pairs / 1e9);
    /* Each pair needs 28 instructions: two levels, five counts read and written, and eight numbers of tables added. */
    double floor = cuda ? pairs * 28 / 32 / (132 * 4 * 1.98e9) : pairs * 28 / (4 * 3e9);
    printf("an image: %.4f s wall, %.4f s CPU; %.2f ns a pair, %.1f ns a matrix; floor %.4f s, ratio %.1f\n",
           wall / images, cpu / images, wall / images / pairs * 1e9, wall / images / matrices * 1e9, floor,
           (cuda ? wall : cpu) / images / floor);
    if (g->options.stride == 1 && g->options.diameter == 200)
        printf("paper: %s; %.0f times that fast\n", cuda ? "65 s (Tesla C2050)" : "4,092 s (one core)",
               (cuda ? 65 : 4092) / (wall / images));
}

static void report_memory(const struct device *device, size_t before) {
    size_t used = 0;
    struct rusage usage;
    if (device_memory_used(device, &used, NULL) == STATUS_OK && used > before)
        printf("memory of the device: %zu MiB\n", (used - before) >> 20);
    if (getrusage(RUSAGE_SELF, &usage) == 0) printf("memory of the host, at most: %ld MiB\n", usage.ru_maxrss >> 10);
}

static enum status bench(const struct texture_options *options, int images, uint8_t *pixels, struct err *err) {
    struct texture *t = NULL;
    struct texture_features features;
    size_t before = 0;
    TRY(device_memory_used(&options->device, &before, err));
    TRY(texture_create(options, &t, err));
    struct texture_image image = {.nx = SIDE, .ny = SIDE, .pitch = SIDE, .centre = {SIDE / 2, SIDE / 2}};
    enum status status = STATUS_OK;
    if (options->device.kind == DEVICE_CUDA) {
        image.bytes = pixels;
        for (int k = 0; k < 2 && status == STATUS_OK; k++) {
            double start = clock_monotonic();
            status = texture_run(t, &image, &features, err);
            printf("%s image alone: %.4f s\n", k ? "second" : "first", clock_monotonic() - start);
        }
    }
    double wall = clock_monotonic(), cpu = cpu_time();
    for (int k = 0; k < images + options->slots && status == STATUS_OK; k++) {
        int slot = k % options->slots;
        if (k >= options->slots) status = texture_finish(t, slot, &features, err);
        image.bytes = pixels + (size_t)(k % KINDS) * SIDE * SIDE;
        if (status == STATUS_OK && k < images) status = texture_start(t, slot, &image, err);
    }
    if (status == STATUS_OK) report(t, images, clock_monotonic() - wall, cpu_time() - cpu);
    report_memory(&options->device, before);
    texture_destroy(&t);
    return status;
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct texture_options options = texture_defaults();
    static uint8_t pixels[KINDS * SIDE * SIDE];
    const int grains[KINDS] = {1, 3, 7, 16};
    for (int k = 0; k < KINDS; k++)
        make_image(pixels + (size_t)k * SIDE * SIDE, grains[k]);
    enum status status = device_parse(argc > 1 ? argv[1] : "auto", &options.device, &err);
    bool cuda = options.device.kind == DEVICE_CUDA;
    int images = argc > 3 ? atoi(argv[2]) : cuda ? 32 : 1;
    options.threads = argc > 3 ? atoi(argv[3]) : 1;
    options.diameter = argc > 5 ? atof(argv[4]) : options.diameter;
    options.stride = argc > 5 ? atoi(argv[5]) : 1;
    options.slots = cuda ? 3 : 1;
    if (images < options.slots) options.slots = images < 1 ? 1 : images;
    if (status == STATUS_OK) status = bench(&options, images, pixels, &err);
    if (status != STATUS_OK) fprintf(stderr, "%s\n", err.message);
    return status == STATUS_OK ? 0 : 1;
}
