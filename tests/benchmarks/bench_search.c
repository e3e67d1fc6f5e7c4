/* Time of the search of one micrograph, and of its correlation part beside the bare transforms of the same size and
 * number, in one run. bench_search [DEVICE [SIZE LOWPASS]]: by default on the first CUDA device, else the CPU, a 4096²
 * micrograph at 20 Å; LOWPASS 0: none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/device.h"
#include "common/fft.h"
#include "common/memory.h"
#include "kernels/search/search_private.h"
#include "tests/benchmarks/search_times.h"

enum { BOX = 160, TEMPLATES = 8, ROTATIONS = 72 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

struct bench {
    struct search_options options;
    float *templates, *micrograph;
    struct ctf ctf;
    struct err err;
};

static enum status make(struct bench *b, const struct device *device, int size, double lowpass) {
    double pixel_size = 1.62;
    int work = lowpass > 0 ? fft_good_size(2 * (int)lround(size * pixel_size / lowpass)) : size;
    b->options = (struct search_options){.nx = size,
                                         .ny = size,
                                         .size = size,
                                         .work = work < size ? work : size,
                                         .pixel_size = pixel_size,
                                         .box = BOX,
                                         .radius = 60,
                                         .count = TEMPLATES,
                                         .rotations = ROTATIONS,
                                         .invert = true,
                                         .clip = 8,
                                         .memory_limit = (size_t)1 << 30,
                                         .threads = 2,
                                         .device = *device};
    b->ctf = (struct ctf){.defocus_u = 15000,
                          .defocus_v = 14500,
                          .voltage = 300,
                          .spherical_aberration = 2.7,
                          .amplitude_contrast = 0.1,
                          .scale = 1};
    TRY(mem_new((size_t)TEMPLATES * BOX * BOX, sizeof(float), "templates", &b->templates, &b->err));
    TRY(mem_new((size_t)size * size, sizeof(float), "micrograph", &b->micrograph, &b->err));
    for (int i = 0; i < TEMPLATES * BOX * BOX; i++) {
        double x = i % BOX - BOX / 2, y = i / BOX % BOX - BOX / 2;
        b->templates[i] = (float)exp(-(x * x + (2 + i / (BOX * BOX)) * y * y) / 800);
    }
    uint64_t state = 1;
    for (size_t i = 0; i < (size_t)size * size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        b->micrograph[i] = (float)(state >> 40);
    }
    return STATUS_OK;
}

/* Returns the median of several runs (s), from host memory or from the device's. */
static enum status time_search(struct bench *b, struct search *search, const struct search_input *input, int runs,
                               double *ret_seconds) {
    struct search_maps maps = {0};
    double *each = malloc((size_t)runs * sizeof *each);
    enum status status = each ? STATUS_OK : STATUS_NO_MEMORY;
    for (int i = -1; i < runs && status == STATUS_OK; i++) {
        double start = now();
        status = search_run(search, input, &b->ctf, 1, &maps, &b->err);
        if (i >= 0) each[i] = now() - start;
    }
    if (status == STATUS_OK) {
        qsort(each, (size_t)runs, sizeof *each, by_value);
        *ret_seconds = each[runs / 2];
    }
    free(each);
    search_maps_clear(&maps);
    return status;
}

static enum status bench_whole(struct bench *b, int runs) {
    struct search *search = NULL;
    struct device_copy *copy = NULL;
    const struct search_options *o = &b->options;
    size_t before = 0, after = 0;
    double start = now(), from_host = 0, there = 0;
    TRY(device_memory_used(&o->device, &before, &b->err));
    TRY(search_create(o, b->templates, &search, &b->err));
    double create = now() - start;
    struct search_input input = {.host = b->micrograph};
    enum status status = time_search(b, search, &input, runs, &from_host);
    if (status == STATUS_OK) status = device_upload(&o->device, b->micrograph, (size_t)o->nx * o->ny, &copy, &b->err);
    input.device = device_copy_data(copy);
    if (status == STATUS_OK) status = time_search(b, search, &input, runs, &there);
    if (status == STATUS_OK) status = device_memory_used(&o->device, &after, &b->err);
    if (status == STATUS_OK)
        printf("%d px, work %d, %d x %d rotations: set up %.2f s, search %.3f ms (%.3f ms with an upload from pageable "
               "memory), device memory %.0f MiB\n",
               o->size, o->work, o->count, o->rotations, create, 1e3 * there, 1e3 * from_host,
               (double)(after - before) / (1 << 20));
    device_copy_destroy(&copy);
    search_destroy(&search);
    return status;
}

static enum status bench_parts(struct bench *b, bool cufft, int runs) {
    struct search *search = NULL;
    struct search_maps maps = {0};
    struct search_times t = {0};
    struct search_input input = {.host = b->micrograph};
    const struct search_options *o = &b->options;
    int transforms = o->count * o->rotations;
    struct search_tuning tuning = {.cufft = cufft};
    TRY(search_create_as(o, b->templates, &tuning, &search, &b->err));
    enum status status = search_run(search, &input, &b->ctf, 1, &maps, &b->err);
    if (status == STATUS_OK) status = search_times_measure(search, runs, &t, &b->err);
    if (status == STATUS_OK)
        printf("  %s: prepare %.3f ms, terms %.3f, correlate %.3f (%.2f us each), scores %.3f; bare cuFFT %.3f "
               "(%.2f us each, %d at a time); ratio %.2f\n",
               cufft ? "through cuFFT" : "as it runs", t.prepare, t.terms, t.correlate, 1e3 * t.correlate / transforms,
               t.score, t.transforms, 1e3 * t.transforms / transforms, t.batch, t.correlate / t.transforms);
    search_destroy(&search);
    search_maps_clear(&maps);
    return status;
}

static enum status bench_cuda(struct bench *b, int runs) {
    TRY(bench_parts(b, false, runs));
    return bench_parts(b, true, runs);
}

/* Times the bare transforms on as many threads, each with its own. */
static enum status bench_cpu(struct bench *b) {
    const struct search_options *o = &b->options;
    struct fft_plan *plan = NULL;
    struct fft_options options = {.rank = 2, .shape = {o->work, o->work}, .direction = FFT_INVERSE};
    _cleanup_(mem_free) float *in = NULL;
    _cleanup_(mem_free) float *out = NULL;
    TRY(mem_new((size_t)o->work * (size_t)(o->work + 2), sizeof *in, "a transform", &in, &b->err));
    TRY(mem_new((size_t)o->work * (size_t)o->work, sizeof *out, "a transform", &out, &b->err));
    TRY(fft_create(&options, &plan, &b->err));
    double best = INFINITY;
    for (int i = 0; i < 20; i++) {
        double start = now();
        fft_run(plan, in, out);
        best = fmin(best, now() - start);
    }
    fft_destroy(&plan);
    int transforms = o->count * o->rotations;
    printf("  bare FFTW %.1f ms (%.3f ms each, on %d threads)\n", 1e3 * best * transforms / o->threads, 1e3 * best,
           o->threads);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct device device = {DEVICE_CPU, 0};
    struct bench bench = {0};
    int size = argc > 3 ? atoi(argv[2]) : 4096;
    double lowpass = argc > 3 ? atof(argv[3]) : 20;
    enum status status = device_parse(argc > 1 ? argv[1] : "auto", &device, &bench.err);
    if (status == STATUS_OK && (size < 2 * BOX || size % 2)) {
        fprintf(stderr, "SIZE is even and at least %d\n", 2 * BOX);
        return 2;
    }
    if (status == STATUS_OK) status = make(&bench, &device, size, lowpass);
    bool cpu = device.kind == DEVICE_CPU;
    if (status == STATUS_OK) status = bench_whole(&bench, cpu ? 3 : lowpass > 0 ? 50 : 5);
    if (status == STATUS_OK) status = cpu ? bench_cpu(&bench) : bench_cuda(&bench, lowpass > 0 ? 20 : 2);
    if (status != STATUS_OK) fprintf(stderr, "%s\n", bench.err.message);
    free(bench.templates);
    free(bench.micrograph);
    return status == STATUS_OK ? 0 : 1;
}
