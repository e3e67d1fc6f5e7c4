/* Times tomograms beside the arithmetic floor, and prints the bytes of the matrices (paper 002, Figure 7).
 *
 *   bench_tomography table
 *   bench_tomography SET [DEVICES [SLABS [THREADS [ITERATIONS [MATRIX [BASIS [METHOD]]]]]]]
 *
 * SET: small (56 × 512², thickness 190), medium (112 × 1024², 310), large (119 × 2048², 430), or TILTSxNXxNYxNZ.
 * DEVICES: cpu, or cuda:0,cuda:1 …; SLABS 0: as few as fit. Random images; from host memory to host memory. */
#include <cblas.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/device.h"
#include "common/memory.h"
#include "kernels/tomography/tomography.h"

enum { MOST_DEVICES = 8 };

/* Paper 002, Table 1, 25 iterations: one CPU core and two Tesla C2050, seconds. */
struct set {
    const char *name;
    int tilts, nx, ny, nz;
    double paper_cpu, paper_gpu;
};
static const struct set SETS[] = {{"small", 56, 512, 512, 190, 2423.67, 72.01},
                                  {"medium", 112, 1024, 1024, 310, 32787.49, 687.05},
                                  {"large", 119, 2048, 2048, 430, 164443.73, 3374.52}};

static double read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill_geometry(const struct set *set, double *angles, struct tomography_geometry *ret_geometry) {
    for (int t = 0; t < set->tilts; t++)
        angles[t] = set->tilts > 1 ? 60.0 * (2 * t - (set->tilts - 1)) / (set->tilts - 1) : 0;
    *ret_geometry = (struct tomography_geometry){
        .tilts = set->tilts, .angles = angles, .nx = set->nx, .ny = set->ny, .nz = set->nz};
}

static enum status print_table(struct err *err) {
    printf("%-8s %26s %10s %16s %16s %12s %10s\n", "", "", "on the fly", "ELLR (linear)", "ELLR (blob)", "blob-ELLR",
           "of ELLR");
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++) {
        const struct set *s = &SETS[i];
        _cleanup_(mem_free) double *angles = NULL;
        struct tomography_geometry g;
        TRY(mem_new((size_t)s->tilts, sizeof *angles, "angles", &angles, err));
        fill_geometry(s, angles, &g);
        double ellr = (double)tomography_matrix_bytes(&g, TOMOGRAPHY_LINEAR, TOMOGRAPHY_ELLR);
        double both = (double)tomography_matrix_bytes(&g, TOMOGRAPHY_BLOB, TOMOGRAPHY_ELLR);
        double blob = (double)tomography_matrix_bytes(&g, TOMOGRAPHY_BLOB, TOMOGRAPHY_BLOB_ELLR);
        printf("%-8s %4d x %4d^2 -> %4d^2 x %3d %10d %13.1f MB %13.1f MB %9.1f MB %10.4f\n", s->name, s->tilts, s->nx,
               s->nx, s->nz, 0, ellr * 1e-6, both * 1e-6, blob * 1e-6, blob / ellr);
    }
    return STATUS_OK;
}

static enum status parse_devices(const char *text, struct device *devices, int *ret_count, struct err *err) {
    char copy[256];
    int count = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest = copy, *name; count < MOST_DEVICES && (name = strsep(&rest, ",")) != NULL; count++)
        TRY(device_parse(name, &devices[count], err));
    *ret_count = count;
    return STATUS_OK;
}

static int choose(const char *word, const char *const *words, int count, int otherwise) {
    for (int i = 0; word && i < count; i++)
        if (strcmp(word, words[i]) == 0) return i;
    return otherwise;
}

static const char *const MATRICES[] = {"auto", "on-the-fly", "ellr", "blob-ellr"};
static const char *const BASES[] = {"blob", "linear", "voxel"};
static const char *const METHODS[] = {"sirt", "wbp"};

/* Returns multiply-adds per second of one core: a product of matrices, the best of five. */
static double core_rate(void) {
    enum { SIZE = 1024 };
    float *m = mem_aligned((size_t)3 * SIZE * SIZE, sizeof *m);
    double best = 1e30;
    openblas_set_num_threads(1);
    for (int k = 0; m && k < 5; k++) {
        double start = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, SIZE, SIZE, SIZE, 1, m, SIZE, m + SIZE * SIZE, SIZE, 0,
                    m + 2 * SIZE * SIZE, SIZE);
        double time = read_clock(CLOCK_PROCESS_CPUTIME_ID) - start;
        best = time < best ? time : best;
    }
    free(m);
    return (double)SIZE * SIZE * SIZE / best;
}

static void print(const struct set *s, const struct tomography_options *o, const struct tomography_report *r,
                  const double *times) {
    double voxels = (double)s->nx * s->ny * s->nz, adds = voxels * s->tilts *
                                                          (o->basis == TOMOGRAPHY_BLOB     ? 8
                                                           : o->basis == TOMOGRAPHY_LINEAR ? 4
                                                                                           : 2);
    /* The start costs one back-projection. */
    double total = o->method == TOMOGRAPHY_WBP ? voxels * s->tilts * 2 : adds * (2 * r->iterations + 1);
    bool cpu = o->devices[0].kind == DEVICE_CPU;
    double rate = cpu ? core_rate() : 0;
    printf("%s: %d x %d x %d -> %d slices, %s %s %s, %d iterations, %d slabs, %d %s\n", s->name, s->tilts, s->nx, s->ny,
           s->nz, METHODS[o->method], BASES[o->basis], MATRICES[r->matrix], r->iterations, r->slabs,
           cpu ? o->threads : o->device_count, cpu ? "threads" : "devices");
    printf("  plan %.3f s; run %.3f s, best of 3 (CPU time %.3f s)\n", times[0], times[1], times[2]);
    if (cpu)
        printf(
            "  floor: %.3g multiply-adds at %.1f a nanosecond (a core, OpenBLAS): CPU time %.3f s; run is %.2f of it\n",
            total, 1e-9 * rate, total / rate, times[2] * rate / total);
    else
        printf("  floor: %.3g multiply-adds at 26e12 a second (FP32) and device: %.3f s; run is %.2f of it\n", total,
               total / 26e12 / o->device_count, times[1] * 26e12 * o->device_count / total);
    if (s->paper_cpu > 0 && o->method == TOMOGRAPHY_SIRT && r->iterations == 25)
        printf("  paper: %.0f s on one core, %.0f s on two C2050: %.1f and %.1f times as long\n", s->paper_cpu,
               s->paper_gpu, s->paper_cpu / times[cpu ? 2 : 1], s->paper_gpu / times[1]);
}

static enum status time_runs(const struct set *s, const struct tomography_options *o, int repeats, struct err *err) {
    const struct device *d = &o->devices[0];
    float *images = NULL, *volume = NULL;
    struct tomography *plan = NULL;
    struct tomography_report report;
    size_t pixels = (size_t)s->tilts * (size_t)s->ny * (size_t)s->nx;
    TRY(device_host_new(d, pixels, sizeof *images, "images", &images, err));
    TRY(device_host_new(d, (size_t)s->nz * (size_t)s->ny * (size_t)s->nx, sizeof *volume, "a volume", &volume, err));
    uint64_t seed = 20261122;
    for (size_t i = 0; i < pixels; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        images[i] = (float)(seed >> 40) * 0x1p-24f;
    }
    double times[3] = {read_clock(CLOCK_MONOTONIC), 1e30, 1e30};
    enum status status = tomography_create(o, &plan, err);
    times[0] = read_clock(CLOCK_MONOTONIC) - times[0];
    for (int k = 0; k < repeats && status == STATUS_OK; k++) {
        double wall = read_clock(CLOCK_MONOTONIC), cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        status = tomography_run(plan, images, volume, &report, err);
        wall = read_clock(CLOCK_MONOTONIC) - wall, cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        times[1] = wall < times[1] ? wall : times[1];
        times[2] = cpu < times[2] ? cpu : times[2];
    }
    if (status == STATUS_OK) print(s, o, &report, times);
    tomography_destroy(&plan);
    device_host_free(d, &images);
    device_host_free(d, &volume);
    return status;
}

static enum status bench(int argc, char **argv, struct err *err) {
    const char *words[9] = {"bench_tomography", "small", "cpu", "0", "1", "25", "auto", "blob", "sirt"};
    for (int i = 1; i < argc && i < 9; i++)
        words[i] = argv[i];
    if (strcmp(words[1], "table") == 0) return print_table(err);
    struct set set = {words[1]};
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++)
        if (strcmp(words[1], SETS[i].name) == 0) set = SETS[i];
    if (set.tilts == 0 && sscanf(words[1], "%dx%dx%dx%d", &set.tilts, &set.nx, &set.ny, &set.nz) != 4)
        FAIL(err, STATUS_BAD_ARGUMENT, "%s is no set: table, small, medium, large or TILTSxNXxNYxNZ", words[1]);
    struct device devices[MOST_DEVICES];
    _cleanup_(mem_free) double *angles = NULL;
    struct tomography_options o = tomography_defaults();
    TRY(parse_devices(words[2], devices, &o.device_count, err));
    TRY(mem_new((size_t)set.tilts, sizeof *angles, "angles", &angles, err));
    fill_geometry(&set, angles, &o.geometry);
    o.devices = devices;
    o.slabs = atoi(words[3]);
    o.threads = atoi(words[4]);
    o.iterations = atoi(words[5]);
    o.matrix = (enum tomography_matrix)choose(words[6], MATRICES, 4, 0);
    o.basis = (enum tomography_basis)choose(words[7], BASES, 3, 0);
    o.method = (enum tomography_method)choose(words[8], METHODS, 2, 0);
    return time_runs(&set, &o, devices[0].kind == DEVICE_CPU ? 1 : 3, err);
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (bench(argc, argv, &err) == STATUS_OK) return 0;
    fprintf(stderr, "bench_tomography: %s\n", err.message);
    return 1;
}
