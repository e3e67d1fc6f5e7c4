/* Times tomograms on CUDA devices (paper 002, Figures 5, 6 and 7, Table 1): each form of the matrix beside the floor,
 * the parts of an iteration, and slabs on several devices, with the exchange overlapped and without.
 *
 *   bench_tomography_cuda parts|matrices|devices SET [ITERATIONS [MATRIX [REPEATS]]]
 *
 * SET: small, medium, large, or TILTSxNXxNYxNZ. Times are from page-locked host memory to page-locked host memory, the
 * best of REPEATS (3); runs that are compared take turns. The plan is timed apart. Floor: 8 multiply-adds a voxel and
 * tilt each way at 26e12 a second. Each iteration asks whether to continue, as the stage does, so the host waits for
 * it. `devices`: ITERATIONS, or the paper's 1, 5, 10 and 25. */
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/device.h"
#include "common/device_cuda.h"
#include "common/memory.h"
#include "kernels/tomography/slab_cuda.h"

enum { MOST_DEVICES = 8 };
static const double RATE = 26e12;

/* Paper 002, Table 1: one CPU core and two Tesla C2050, blob-ELLR, 1, 5, 10 and 25 iterations, seconds. */
enum { PAPERS = 4 };
static const int PAPER_ITERATIONS[PAPERS] = {1, 5, 10, 25};
struct set {
    const char *name;
    int tilts, nx, ny, nz;
    double cpu[PAPERS], gpu[PAPERS];
};
static const struct set SETS[] = {
    {"small", 56, 512, 512, 190, {204.12, 586.37, 968.39, 2423.67}, {3.95, 11.92, 28.41, 72.01}},
    {"medium", 112, 1024, 1024, 310, {2763.23, 9126.34, 14228.64, 32787.49}, {57.07, 194.29, 294.62, 687.05}},
    {"large", 119, 2048, 2048, 430, {17147.66, 39536.56, 68356.32, 164443.73}, {337.64, 811.03, 1423.95, 3374.52}}};

static const char *const MATRICES[] = {"auto", "on-the-fly", "ellr", "blob-ellr"};

struct bench {
    struct set set;
    struct tomography_options options;
    struct device devices[MOST_DEVICES];
    double *angles;
    float *images, *volume;
    int repeats;
    bool all; /* the paper's numbers of iterations */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double multiply_adds(const struct bench *b) {
    return 8.0 * b->set.nx * b->set.ny * b->set.nz * b->set.tilts;
}

static bool go_on(void *context, int iteration, double residual) {
    (void)context, (void)iteration, (void)residual;
    return true;
}

static enum status prepare(struct bench *b, const char *name, struct err *err) {
    b->set = (struct set){.name = name};
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++)
        if (strcmp(name, SETS[i].name) == 0) b->set = SETS[i];
    struct set *s = &b->set;
    if (s->tilts == 0 && sscanf(name, "%dx%dx%dx%d", &s->tilts, &s->nx, &s->ny, &s->nz) != 4)
        FAIL(err, STATUS_BAD_ARGUMENT, "%s is no set: small, medium, large or TILTSxNXxNYxNZ", name);
    TRY(mem_new((size_t)s->tilts, sizeof *b->angles, "angles", &b->angles, err));
    for (int t = 0; t < s->tilts; t++)
        b->angles[t] = s->tilts > 1 ? 60.0 * (2 * t - (s->tilts - 1)) / (s->tilts - 1) : 0;
    b->options = tomography_defaults();
    b->options.go_on = go_on;
    b->options.geometry =
        (struct tomography_geometry){.tilts = s->tilts, .angles = b->angles, .nx = s->nx, .ny = s->ny, .nz = s->nz};
    for (int i = 0; i < MOST_DEVICES; i++)
        b->devices[i] = (struct device){DEVICE_CUDA, i};
    b->options.devices = b->devices;
    b->options.device_count = 1;
    size_t pixels = (size_t)s->tilts * (size_t)s->ny * (size_t)s->nx;
    TRY(device_host_new(b->devices, pixels, sizeof *b->images, "images", &b->images, err));
    TRY(device_host_new(b->devices, (size_t)s->nz * (size_t)s->ny * (size_t)s->nx, sizeof *b->volume, "a volume",
                        &b->volume, err));
    uint64_t seed = 20261122;
    for (size_t i = 0; i < pixels; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        b->images[i] = (float)(seed >> 40) * 0x1p-24f;
    }
    return STATUS_OK;
}

/* One of the plans that are compared, with its best run. */
struct entrant {
    struct tomography *plan;
    double making, best, seconds; /* s: to make the plan; its best run; its latest run */
};

static enum status enter(const struct bench *b, struct entrant *e, struct err *err) {
    double start = now();
    TRY(tomography_create(&b->options, &e->plan, err));
    e->making = now() - start;
    return STATUS_OK;
}

static enum status race(const struct bench *b, struct entrant *e, int repeat, struct err *err) {
    double start = now();
    TRY(tomography_run(e->plan, b->images, b->volume, NULL, err));
    e->seconds = now() - start;
    if (repeat == 0 || e->seconds < e->best) e->best = e->seconds;
    return STATUS_OK;
}

static enum status matrices(struct bench *b, struct err *err) {
    printf("%-8s %4d x %d^2 -> %d^2 x %d, %d iterations, one device\n", b->set.name, b->set.tilts, b->set.nx, b->set.nx,
           b->set.nz, b->options.iterations);
    double floor = multiply_adds(b) * (2 * b->options.iterations + 1) / RATE, sent = 0;
    for (int m = TOMOGRAPHY_ON_THE_FLY; m <= TOMOGRAPHY_BLOB_ELLR; m++) {
        struct entrant e = {NULL};
        b->options.matrix = (enum tomography_matrix)m;
        enum status status = enter(b, &e, err);
        for (int k = 0; k < b->repeats && status == STATUS_OK; k++)
            status = race(b, &e, k, err);
        tomography_destroy(&e.plan);
        TRY(status);
        if (m == TOMOGRAPHY_ON_THE_FLY) sent = e.best;
        printf("  %-10s %8.1f MB  plan %6.3f s  run %7.3f s  (%.2f of on the fly; floor %.3f s, run is %.2f of it)\n",
               MATRICES[m],
               1e-6 * (double)tomography_matrix_bytes(&b->options.geometry, TOMOGRAPHY_BLOB, (enum tomography_matrix)m),
               e.making, e.best, e.best / sent, floor, e.best / floor);
    }
    return STATUS_OK;
}

enum { ONE, TURNS, OVERLAPPED, ENTRANTS };

/* Ratios of consecutive runs, so that the machine is equally fast for both. */
struct ratio {
    double least, most;
};
static void widen(struct ratio *r, double value) {
    r->least = r->most > 0 && r->least < value ? r->least : value;
    r->most = r->most > value ? r->most : value;
}

static enum status race_all(const struct bench *b, struct entrant *e, struct ratio *against_one,
                            struct ratio *against_turns, struct err *err) {
    for (int k = 0; k < b->repeats; k++) {
        for (int i = 0; i < ENTRANTS; i++)
            TRY(race(b, &e[i], k, err));
        widen(against_one, e[ONE].seconds / e[OVERLAPPED].seconds);
        widen(against_turns, e[OVERLAPPED].seconds / e[TURNS].seconds);
    }
    return STATUS_OK;
}

/* paper: index into PAPER_ITERATIONS, or -1. */
static enum status time_devices(struct bench *b, int several, int paper, struct err *err) {
    struct entrant e[ENTRANTS] = {{NULL}};
    struct ratio against_one = {0, 0}, against_turns = {0, 0};
    enum status status = STATUS_OK;
    for (int i = 0; i < ENTRANTS && status == STATUS_OK; i++) {
        b->options.device_count = i == ONE ? 1 : several;
        b->options.no_overlap = i == TURNS;
        status = enter(b, &e[i], err);
    }
    if (status == STATUS_OK) status = race_all(b, e, &against_one, &against_turns, err);
    for (int i = 0; i < ENTRANTS; i++)
        tomography_destroy(&e[i].plan);
    TRY(status);
    double one = e[ONE].best, turns = e[TURNS].best, overlapped = e[OVERLAPPED].best;
    printf("  %2d iterations, best of %d: one %7.3f s; by turns %7.3f s (%.3f x one); overlapped %7.3f s (%.3f x one, "
           "runs %.3f to %.3f; %.3f of by turns, runs %.3f to %.3f)",
           b->options.iterations, b->repeats, one, turns, one / turns, overlapped, one / overlapped, against_one.least,
           against_one.most, overlapped / turns, against_turns.least, against_turns.most);
    if (paper >= 0 && b->set.cpu[paper] > 0)
        printf("; the paper's core %.0f s: %.0f and %.0f times; two C2050 %.1f s: %.0f times", b->set.cpu[paper],
               b->set.cpu[paper] / turns, b->set.cpu[paper] / overlapped, b->set.gpu[paper],
               b->set.gpu[paper] / overlapped);
    printf("\n");
    fflush(stdout);
    return STATUS_OK;
}

static enum status devices(struct bench *b, struct err *err) {
    int count = 0, wanted = b->options.iterations;
    TRY(device_count(&count, err));
    int several = count < 2 ? 2 : count < MOST_DEVICES ? count : MOST_DEVICES;
    for (int i = 0; i < several; i++)
        b->devices[i].index = i % count;
    printf("%-8s %4d x %d^2 -> %d^2 x %d, %d slabs on %d devices\n", b->set.name, b->set.tilts, b->set.nx, b->set.nx,
           b->set.nz, several, count);
    bool done = false;
    for (int i = 0; i < PAPERS; i++) {
        if (!b->all && PAPER_ITERATIONS[i] != wanted) continue;
        b->options.iterations = PAPER_ITERATIONS[i];
        TRY(time_devices(b, several, i, err));
        done = true;
    }
    return done ? STATUS_OK : time_devices(b, several, -1, err);
}

struct timing {
    struct tomography_place place;
    struct tomography_slab slab;
    struct tomography_setup setup;
    cudaEvent_t from, to;
};

static enum status begin(struct timing *t, struct err *err) {
    CUDA_TRY(cudaEventRecord(t->from, t->slab.inside), err, "a mark");
    return STATUS_OK;
}
static enum status end(struct timing *t, const char *what, double adds, double bytes, struct err *err) {
    float ms = 0;
    CUDA_TRY(cudaEventRecord(t->to, t->slab.inside), err, "a mark");
    CUDA_TRY(cudaEventSynchronize(t->to), err, "a mark");
    CUDA_TRY(cudaEventElapsedTime(&ms, t->from, t->to), err, "a mark");
    if (adds > 0)
        printf("  %-16s %8.3f ms, floor %8.3f ms, %.2f of it\n", what, (double)ms, 1e3 * adds / RATE,
               (double)ms / (1e3 * adds / RATE));
    else
        printf("  %-16s %8.3f ms, %.2f TB/s\n", what, (double)ms, bytes / (double)ms * 1e-9);
    return STATUS_OK;
}

static enum status time_parts(struct timing *t, const struct bench *b, struct err *err) {
    struct tomography_slab *s = &t->slab;
    struct tomography_slabs all = {&t->setup, s, 1};
    const struct tomography_matrix_cuda *m = &t->place.matrix;
    double rays = (double)b->set.tilts * b->set.nx * b->set.ny, adds = multiply_adds(b);
    tomography_slabs_deal(&all, 0, b->set.ny);
    TRY(tomography_slabs_load(&all, b->images, err));
    TRY(tomography_slabs_start(&all, err));
    TRY(tomography_slabs_wait(&all, err));
    struct tomography_residual r = {.tilts = b->set.tilts,
                                    .nx = b->set.nx,
                                    .rows = s->rows,
                                    .pitch = s->pitch,
                                    .projections = s->projections,
                                    .q0 = s->q0,
                                    .q1 = s->q1,
                                    .rays = t->place.rays,
                                    .first_is_end = true,
                                    .last_is_end = true,
                                    .r = s->q0,
                                    .sums = s->sums};
    struct tomography_update u = {
        .kept = 1, .scale = 1, .voxels = t->place.voxels, .rows = s->rows, .first_is_end = true, .last_is_end = true};
    for (int k = 0; k < 2; k++) {
        TRY(begin(t, err));
        TRY(tomography_cuda_project(m, s->inside_chunks, s->pitch, s->volume, s->q0, s->q1, s->inside, err));
        TRY(end(t, "projection", adds, 0, err));
        TRY(begin(t, err));
        TRY(tomography_cuda_residual(&r, s->inside_chunks, s->inside, err));
        TRY(end(t, "residual", 0, 16 * rays, err));
        TRY(begin(t, err));
        TRY(tomography_cuda_neighbours(&r, s->inside_chunks, s->q0, NULL, NULL, s->q1, s->inside, err));
        TRY(end(t, "neighbours", 0, 8 * rays, err));
        TRY(begin(t, err));
        TRY(tomography_cuda_back_project(m, s->inside_chunks, s->pitch, s->q0, s->q1, &u, s->volume, s->inside, err));
        TRY(end(t, "back-projection", adds, 0, err));
    }
    double start = now();
    TRY(tomography_slabs_load(&all, b->images, err));
    printf("  images in        %8.3f ms\n", 1e3 * (now() - start));
    start = now();
    TRY(tomography_slabs_store(&all, 0, b->set.ny, b->volume, err));
    printf("  volume out       %8.3f ms\n", 1e3 * (now() - start));
    return STATUS_OK;
}

static enum status build_parts(struct timing *t, struct bench *b, struct err *err) {
    enum tomography_matrix matrix = b->options.matrix == TOMOGRAPHY_AUTO ? TOMOGRAPHY_ON_THE_FLY : b->options.matrix;
    int rows = (b->set.ny + TOMOGRAPHY_CHUNK - 1) / TOMOGRAPHY_CHUNK * TOMOGRAPHY_CHUNK;
    TRY(tomography_setup_make(&b->options, &t->setup, err));
    t->place.device = b->devices[0];
    TRY(tomography_place_make(&t->setup, matrix,
                              tomography_place_bytes(&t->setup, matrix) + tomography_slab_bytes(&t->setup, rows),
                              &t->place, err));
    TRY(tomography_slab_make(&t->setup, &t->place, rows, &t->slab, err));
    CUDA_TRY(cudaEventCreate(&t->from), err, "a mark");
    CUDA_TRY(cudaEventCreate(&t->to), err, "a mark");
    printf("%s, %s\n", b->set.name, MATRICES[matrix]);
    return time_parts(t, b, err);
}

static enum status parts(struct bench *b, struct err *err) {
    struct timing t = {.from = NULL};
    enum status status = build_parts(&t, b, err);
    tomography_slab_clear(&t.slab);
    tomography_place_clear(&t.place);
    tomography_setup_clear(&t.setup);
    return status;
}

static enum status bench(int argc, char **argv, struct err *err) {
    struct bench b = {.angles = NULL};
    FAIL_IF(argc < 3, err, STATUS_BAD_ARGUMENT,
            "usage: bench_tomography_cuda parts|matrices|devices SET [ITERATIONS [MATRIX [REPEATS]]]");
    TRY(prepare(&b, argv[2], err));
    b.all = argc <= 3;
    if (argc > 3) b.options.iterations = atoi(argv[3]);
    b.repeats = argc > 5 && atoi(argv[5]) > 0 ? atoi(argv[5]) : 3;
    for (int m = 0; argc > 4 && m < 4; m++)
        if (strcmp(argv[4], MATRICES[m]) == 0) b.options.matrix = (enum tomography_matrix)m;
    enum status status = strcmp(argv[1], "parts") == 0      ? parts(&b, err)
                         : strcmp(argv[1], "matrices") == 0 ? matrices(&b, err)
                                                            : devices(&b, err);
    device_host_free(b.devices, &b.images);
    device_host_free(b.devices, &b.volume);
    mem_free(&b.angles);
    return status;
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (bench(argc, argv, &err) == STATUS_OK) return 0;
    fprintf(stderr, "bench_tomography_cuda: %s\n", err.message);
    return 1;
}
