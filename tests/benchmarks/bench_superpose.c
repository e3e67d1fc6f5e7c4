/* Times all pairs of an ensemble, the best of three, beside the floor: half of the product X Xᵀ, by OpenBLAS with as
 * many threads on a CPU, at 67 TFLOP/s on a CUDA device.
 *
 *   bench_superpose [DEVICE [COUNT ATOMS THREADS [XYZ RMSD]]]
 *
 * XYZ: a file of float [COUNT][ATOMS][3] in Å, which replaces random structures. RMSD: the file that gets the upper
 * triangle. Default: the first CUDA device, else the CPU; 1000 structures of 500 atoms, two threads. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/device.h"
#include "common/memory.h"
#include "kernels/superpose/superpose_private.h"
#include "tests/benchmarks/superpose_times.h"

static double read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Wall time, and processor time of all threads (s). */
struct lap {
    double wall, cpu;
};
static struct lap start(void) {
    return (struct lap){read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_PROCESS_CPUTIME_ID)};
}
static struct lap since(struct lap t) {
    struct lap now = start();
    return (struct lap){now.wall - t.wall, now.cpu - t.cpu};
}
static struct lap less(struct lap a, struct lap b) {
    return (struct lap){fmin(a.wall, b.wall), fmin(a.cpu, b.cpu)};
}

struct bench {
    struct superpose_options options;
    int count;
    float *xyz, *rmsd;
    struct lap add, matrix, row, product;
};

static void randomise(struct bench *b) {
    uint64_t seed = 20261121;
    size_t floats = (size_t)b->count * (size_t)b->options.atoms * 3;
    for (size_t k = 0; k < floats; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        b->xyz[k] = 70 * ((float)(seed >> 40) * 0x1p-24f - 0.5f);
    }
}

static enum status print_device_times(struct superpose *s, struct err *err) {
    float ms[2] = {0};
    TRY(superpose_times(s, 3, ms, err));
    printf("%.3f ms of the device, %.3f of them the product\n", ms[0], ms[1]);
    return STATUS_OK;
}

static enum status run(struct bench *b, struct err *err) {
    struct superpose *s = NULL;
    struct lap t = start();
    TRY(superpose_create(&b->options, &s, err));
    enum status status = superpose_add(s, b->xyz, b->count, err);
    b->add = less(b->add, since(t));
    t = start();
    if (status == STATUS_OK) status = superpose_matrix(s, b->rmsd, err);
    b->matrix = less(b->matrix, since(t));
    t = start();
    _cleanup_(mem_free) float *row = NULL;
    if (status == STATUS_OK) status = mem_new((size_t)b->count, sizeof *row, "a row", &row, err);
    t = start();
    if (status == STATUS_OK) status = superpose_row(s, b->count - 1, row, err);
    b->row = less(b->row, since(t));
    if (status == STATUS_OK && b->options.device.kind == DEVICE_CUDA) status = print_device_times(s, err);
    superpose_destroy(&s);
    return status;
}

static enum status multiply(struct bench *b, struct err *err) {
    _cleanup_(mem_free) float *result = NULL;
    int rows = 3 * b->count, atoms = b->options.atoms;
    TRY(mem_new((size_t)rows * (size_t)rows, sizeof *result, "a product", &result, err));
    openblas_set_num_threads(b->options.threads);
    struct lap t = start();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, rows, atoms, 1, b->xyz, atoms, b->xyz, atoms, 0, result,
                rows);
    t = since(t);
    b->product = less(b->product, (struct lap){t.wall / 2, t.cpu / 2});
    return STATUS_OK;
}

static enum status transfer(const char *path, const char *mode, float *floats, size_t count, struct err *err) {
    FILE *file = fopen(path, mode);
    FAIL_IF(file == NULL, err, STATUS_IO, "%s cannot be opened", path);
    size_t done =
        *mode == 'r' ? fread(floats, sizeof *floats, count, file) : fwrite(floats, sizeof *floats, count, file);
    FAIL_IF(fclose(file) != 0 || done != count, err, STATUS_IO, "%s holds %zu of %zu floats", path, done, count);
    return STATUS_OK;
}

static enum status bench(struct bench *b, const char *xyz, const char *rmsd, struct err *err) {
    size_t floats = (size_t)b->count * (size_t)b->options.atoms * 3, pairs = superpose_pairs(b->count);
    double flop = 9.0 * b->count * b->count * b->options.atoms;
    TRY(mem_new(floats, sizeof *b->xyz, "structures", &b->xyz, err));
    TRY(device_host_new(&b->options.device, pairs + 1, sizeof *b->rmsd, "RMSDs", &b->rmsd, err));
    if (xyz)
        TRY(transfer(xyz, "r", b->xyz, floats, err));
    else
        randomise(b);
    for (int k = 0; k < 3; k++) {
        TRY(run(b, err));
        if (b->options.device.kind == DEVICE_CPU) TRY(multiply(b, err));
    }
    printf("%d x %d atoms, %d threads: add %.4f s (CPU %.4f), all pairs %.4f s (CPU %.4f), a row %.6f s\n", b->count,
           b->options.atoms, b->options.threads, b->add.wall, b->add.cpu, b->matrix.wall, b->matrix.cpu, b->row.wall);
    if (b->options.device.kind == DEVICE_CPU)
        printf("floor: half the product by OpenBLAS %.4f s (CPU %.4f); of it %.2f (CPU %.2f)\n", b->product.wall,
               b->product.cpu, b->matrix.wall / b->product.wall, b->matrix.cpu / b->product.cpu);
    else
        printf("floor: half the product at 67 TFLOP/s %.3f ms\n", flop / 67e9);
    if (rmsd) TRY(transfer(rmsd, "w", b->rmsd, pairs, err));
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {0};
    const struct lap never = {INFINITY, INFINITY};
    struct bench b = {
        .count = argc > 4 ? atoi(argv[2]) : 1000, .add = never, .matrix = never, .row = never, .product = never};
    b.options =
        (struct superpose_options){.atoms = argc > 4 ? atoi(argv[3]) : 500, .threads = argc > 4 ? atoi(argv[4]) : 2};
    enum status status = device_parse(argc > 1 ? argv[1] : "auto", &b.options.device, &err);
    if (status == STATUS_OK) status = bench(&b, argc > 6 ? argv[5] : NULL, argc > 6 ? argv[6] : NULL, &err);
    mem_free(&b.xyz);
    if (b.rmsd) device_host_free(&b.options.device, &b.rmsd);
    if (status != STATUS_OK) fprintf(stderr, "%s\n", err.message);
    return status == STATUS_OK ? 0 : 1;
}
