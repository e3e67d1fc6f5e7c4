#include "kernels/tomography/tomography_cpu.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"

enum { LANES = TOMOGRAPHY_LANES };

static size_t rays_floats(const struct tomography_cpu *cpu) {
    return (size_t)cpu->blocks * (size_t)cpu->setup->tilts * cpu->rays * LANES;
}

static size_t voxel_columns(const struct tomography_cpu *cpu) {
    return (size_t)cpu->blocks * (size_t)cpu->setup->nz * (size_t)cpu->setup->nx;
}

static size_t machine_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
}

/* Operating systems promise more memory than they have, and kill a program that uses it. */
static enum status check_memory(const struct tomography_cpu *cpu, struct err *err) {
    const struct tomography_setup *s = cpu->setup;
    const struct tomography_options *o = &s->options;
    bool sirt = o->method == TOMOGRAPHY_SIRT;
    size_t bytes = voxel_columns(cpu) * (LANES + 2 * (size_t)s->halo) * sizeof(float) +
                   rays_floats(cpu) * (size_t)(2 + s->halo) * sizeof(float);
    if (sirt) bytes += tomography_matrix_bytes(&o->geometry, o->basis, o->matrix);
    FAIL_IF(o->memory > 0 && bytes > o->memory, err, STATUS_NO_MEMORY,
            "a tomogram of %d x %d x %d voxels from %d tilts needs %zu MiB on the CPU, and memory allows %zu MiB: bin "
            "the images, make it thinner, or allow more",
            s->nx, s->ny, s->nz, s->tilts, (bytes >> 20) + 1, o->memory >> 20);
    bytes += ((size_t)s->nz + (size_t)s->tilts) * (size_t)s->ny * (size_t)s->nx * sizeof(float);
    FAIL_IF(o->memory == 0 && bytes > machine_memory(), err, STATUS_NO_MEMORY,
            "a tomogram of %d x %d x %d voxels from %d tilts needs %zu MiB on the CPU, and this machine has %zu MiB: "
            "bin the images, or make it thinner",
            s->nx, s->ny, s->nz, s->tilts, (bytes >> 20) + 1, machine_memory() >> 20);
    return STATUS_OK;
}

static enum status make_transforms(struct tomography_cpu *cpu, struct err *err) {
    const struct tomography_setup *s = cpu->setup;
    struct fft_options options = {.rank = 1, .shape = {s->padded}, .direction = FFT_FORWARD};
    TRY(fft_create(&options, &cpu->forward, err));
    options.direction = FFT_INVERSE;
    TRY(fft_create(&options, &cpu->inverse, err));
    return mem_new((size_t)cpu->threads * tomography_line_floats(s), sizeof(float), "a filter", &cpu->line, err);
}

static enum status make_sums(struct tomography_cpu *cpu, struct err *err) {
    const struct tomography_setup *s = cpu->setup;
    size_t rays = (size_t)s->tilts * (size_t)s->nx, voxels = (size_t)s->nz * (size_t)s->nx;
    TRY(mem_new(rays, sizeof(double), "sums of weights", &cpu->sums0, err));
    TRY(mem_new(rays, sizeof(double), "sums of weights", &cpu->sums1, err));
    TRY(mem_new(voxels, sizeof(double), "sums of weights", &cpu->columns0, err));
    TRY(mem_new(voxels, sizeof(double), "sums of weights", &cpu->columns1, err));
    tomography_sums(s, cpu->sums0, cpu->sums1, cpu->columns0, cpu->columns1);
    return STATUS_OK;
}

static enum status build(struct tomography_cpu *cpu, struct err *err) {
    const struct tomography_setup *s = cpu->setup;
    bool sirt = s->options.method == TOMOGRAPHY_SIRT;
    size_t threads = (size_t)cpu->threads, tile = (size_t)TOMOGRAPHY_BACK * TOMOGRAPHY_TILE * 2 * LANES;
    TRY(check_memory(cpu, err));
    TRY(tomography_matrix_create(s, sirt ? s->options.matrix : TOMOGRAPHY_ON_THE_FLY, &cpu->matrix, err));
    TRY(mem_new(voxel_columns(cpu), LANES * sizeof(float), "coefficients", &cpu->coefficients, err));
    TRY(mem_new(rays_floats(cpu), sizeof(float), "projections", &cpu->measured, err));
    TRY(mem_new(rays_floats(cpu), sizeof(float), "projections", &cpu->rays0, err));
    if (s->halo) TRY(mem_new(rays_floats(cpu), sizeof(float), "projections", &cpu->rays1, err));
    if (s->halo) TRY(mem_new(voxel_columns(cpu), 2 * sizeof(float), "edges of blocks", &cpu->edges, err));
    TRY(mem_new((size_t)cpu->blocks * (size_t)s->tilts, sizeof(double), "residuals", &cpu->norms, err));
    TRY(mem_new(threads * TOMOGRAPHY_TILTS, sizeof *cpu->tiles, "weights", &cpu->tiles, err));
    TRY(mem_new(threads, sizeof *cpu->tile_rays, "weights", &cpu->tile_rays, err));
    TRY(mem_new(threads, tile * sizeof(float), "a tile", &cpu->scratch, err));
    return sirt ? make_sums(cpu, err) : make_transforms(cpu, err);
}

static void destroy(void *state) {
    struct tomography_cpu *cpu = state;
    tomography_matrix_destroy(&cpu->matrix);
    fft_destroy(&cpu->forward);
    fft_destroy(&cpu->inverse);
    void *owned[] = {cpu->coefficients, cpu->measured, cpu->rays0, cpu->rays1,     cpu->edges, cpu->sums0,   cpu->sums1,
                     cpu->columns0,     cpu->columns1, cpu->norms, cpu->tile_rays, cpu->tiles, cpu->scratch, cpu->line};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(cpu);
}

static enum status create(const struct tomography_setup *setup, void **ret_state, struct err *err) {
    struct tomography_cpu *cpu = NULL;
    TRY(mem_new(1, sizeof *cpu, "a tomogram", &cpu, err));
    cpu->setup = setup;
    cpu->threads = setup->options.threads;
    cpu->blocks = (setup->ny + LANES - 1) / LANES;
    cpu->rays = (size_t)setup->nx + 2 * TOMOGRAPHY_PAD;
    enum status status = build(cpu, err);
    if (status != STATUS_OK) {
        destroy(cpu);
        return status;
    }
    *ret_state = cpu;
    return STATUS_OK;
}

MULTIVERSION static bool all_finite(const float *values, size_t count) {
    unsigned bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

static enum status check_pixels(const struct tomography_setup *s, const float *projections, struct err *err) {
    size_t nx = (size_t)s->nx, ny = (size_t)s->ny, rows = (size_t)s->tilts * ny;
    for (size_t row = 0; row < rows; row++) {
        const float *pixels = projections + row * nx;
        if (all_finite(pixels, nx)) continue;
        size_t x = 0;
        while (isfinite(pixels[x]))
            x++;
        FAIL(err, STATUS_BAD_ARGUMENT,
             "column %zu of row %zu of tilt %zu (%g°) is %g, no finite number: mend the stack or leave the tilt out",
             x + 1, row % ny + 1, row / ny + 1, s->angles[row / ny], (double)pixels[x]);
    }
    return STATUS_OK;
}

/* Computes c of iteration 0; returns Σ R p². */
static double start(struct tomography_cpu *cpu) {
    enum tomography_start how = cpu->setup->options.start;
    memset(cpu->coefficients, 0, voxel_columns(cpu) * LANES * sizeof(float));
    double norm = tomography_cpu_start(cpu, how == TOMOGRAPHY_START_PLAIN);
    if (how != TOMOGRAPHY_START_ZERO) tomography_cpu_back_project(cpu, 1, false);
    return norm;
}

static enum status iterate(struct tomography_cpu *cpu, struct tomography_report *report, struct err *err) {
    const struct tomography_options *o = &cpu->setup->options;
    double norm = start(cpu), before = 0;
    for (int k = 0; k < o->iterations; k++) {
        tomography_cpu_project(cpu);
        double squares = tomography_cpu_correct(cpu);
        double residual = norm > 0 ? sqrt(squares / norm) : 0;
        tomography_cpu_back_project(cpu, o->relaxation, false);
        cpu->setup->residuals[k] = residual;
        report->iterations = k + 1;
        FAIL_IF(o->go_on && !o->go_on(o->context, k + 1, residual), err, STATUS_CANCELLED,
                "stopped after %d of %d iterations", k + 1, o->iterations);
        if (k > 0 && o->limit > 0 && before - residual < o->limit * before) break;
        before = residual;
    }
    return STATUS_OK;
}

static enum status run(void *state, const float *projections, float *ret_volume, struct tomography_report *ret_report,
                       struct err *err) {
    struct tomography_cpu *cpu = state;
    TRY(check_pixels(cpu->setup, projections, err));
    ret_report->slabs = 1;
    ret_report->matrix = cpu->matrix->kind;
    tomography_cpu_pack(cpu, projections);
    if (cpu->setup->options.method == TOMOGRAPHY_WBP) {
        memset(cpu->coefficients, 0, voxel_columns(cpu) * LANES * sizeof(float));
        tomography_cpu_filter(cpu);
        tomography_cpu_back_project(cpu, 1, true);
    } else {
        TRY(iterate(cpu, ret_report, err));
    }
    tomography_cpu_write(cpu, ret_volume);
    return STATUS_OK;
}

const struct tomography_work tomography_cpu_work = {.create = create, .destroy = destroy, .run = run};
