/* Converts to and from the layout with rows innermost. */
#include <string.h>

#include "common/fft.h"
#include "common/multiversion.h"
#include "kernels/tomography/tomography_cpu.h"
#ifdef _OPENMP
#include <omp.h>
#endif

enum { LANES = TOMOGRAPHY_LANES, CHUNK = 16 };

/* Transposes rows × columns, stride apart, into [column][lane]. */
static void turn(const float *from, size_t stride, int rows, int columns, float *to) {
    for (int x0 = 0; x0 < columns; x0 += CHUNK)
        for (int y = 0; y < rows; y++)
            for (int x = x0; x < x0 + CHUNK && x < columns; x++)
                to[(size_t)x * LANES + (size_t)y] = from[(size_t)y * stride + (size_t)x];
}

void tomography_cpu_pack(struct tomography_cpu *cpu, const float *projections) {
    const struct tomography_setup *s = cpu->setup;
    size_t nx = (size_t)s->nx;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int task = 0; task < cpu->blocks * s->tilts; task++) {
        int block = task / s->tilts, tilt = task % s->tilts, y = block * LANES;
        int rows = s->ny - y < LANES ? s->ny - y : LANES;
        float *to = cpu->measured + (size_t)task * cpu->rays * LANES;
        memset(to, 0, cpu->rays * LANES * sizeof *to);
        turn(projections + ((size_t)tilt * (size_t)s->ny + (size_t)y) * nx, nx, rows, s->nx,
             to + TOMOGRAPHY_PAD * LANES);
    }
}

/* Reads one voxel column of a block with the row before and the row after it: [LANES + 2]. */
static void read_column(const struct tomography_cpu *cpu, int block, size_t voxel, float *to) {
    size_t slice = (size_t)cpu->setup->nz * (size_t)cpu->setup->nx;
    const float *c = cpu->coefficients + ((size_t)block * slice + voxel) * LANES;
    to[0] = block > 0 ? c[-(ptrdiff_t)(slice * LANES) + LANES - 1] : 0;
    memcpy(to + 1, c, LANES * sizeof *to);
    to[LANES + 1] = block + 1 < cpu->blocks ? c[slice * LANES] : 0;
}

MULTIVERSION static void add_columns(float *sum, const float *column) {
    for (int lane = 0; lane < LANES + 2; lane++)
        sum[lane] += column[lane];
}

MULTIVERSION static void weigh(float sums[4][LANES + 2], const float *b, float *to) {
    for (int lane = 0; lane < LANES; lane++) {
        float sides = b[1] * (sums[0][lane] + sums[0][lane + 2]) + b[2] * (sums[1][lane] + sums[1][lane + 2]) +
                      b[3] * (sums[2][lane] + sums[2][lane + 2]);
        to[lane] = b[0] * sums[0][lane + 1] + b[1] * sums[1][lane + 1] + b[2] * sums[2][lane + 1] + sides;
    }
}

/* Evaluates Σ c b: neighbours in x and z are first summed by how many of the two differ. */
static void evaluate(const struct tomography_cpu *cpu, int block, int z, int x, float *to) {
    const struct tomography_setup *s = cpu->setup;
    float sums[4][LANES + 2] = {{0}}, column[LANES + 2];
    float b[4] = {(float)s->stencil[0], (float)s->stencil[1], (float)s->stencil[2], (float)s->stencil[3]};
    if (!s->halo) {
        read_column(cpu, block, (size_t)z * (size_t)s->nx + (size_t)x, column);
        memcpy(to, column + 1, LANES * sizeof *to);
        return;
    }
    for (int dz = -1; dz <= 1; dz++)
        for (int dx = -1; dx <= 1; dx++) {
            if (z + dz < 0 || z + dz >= s->nz || x + dx < 0 || x + dx >= s->nx) continue;
            read_column(cpu, block, (size_t)(z + dz) * (size_t)s->nx + (size_t)(x + dx), column);
            add_columns(sums[(dz != 0) + (dx != 0)], column);
        }
    weigh(sums, b, to);
}

void tomography_cpu_write(struct tomography_cpu *cpu, float *ret_volume) {
    const struct tomography_setup *s = cpu->setup;
    size_t nx = (size_t)s->nx;
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int task = 0; task < cpu->blocks * s->nz; task++) {
        int block = task / s->nz, z = task % s->nz, y0 = block * LANES;
        int rows = s->ny - y0 < LANES ? s->ny - y0 : LANES;
        float *to = ret_volume + ((size_t)z * (size_t)s->ny + (size_t)y0) * nx;
        float piece[CHUNK][LANES];
        for (int x0 = 0; x0 < s->nx; x0 += CHUNK) {
            int count = s->nx - x0 < CHUNK ? s->nx - x0 : CHUNK;
            for (int i = 0; i < count; i++)
                evaluate(cpu, block, z, x0 + i, piece[i]);
            for (int y = 0; y < rows; y++)
                for (int i = 0; i < count; i++)
                    to[(size_t)y * nx + (size_t)(x0 + i)] = piece[i][y];
        }
    }
}

static void filter_row(const struct tomography_cpu *cpu, int block, int tilt, int lane, float *line) {
    const struct tomography_setup *s = cpu->setup;
    size_t at =
        ((size_t)block * (size_t)s->tilts + (size_t)tilt) * cpu->rays * LANES + TOMOGRAPHY_PAD * LANES + (size_t)lane;
    float *complex_line = line + tomography_line_complex(s), share = (float)s->shares[tilt];
    for (int x = 0; x < s->nx; x++)
        line[x] = cpu->measured[at + (size_t)x * LANES];
    memset(line + s->nx, 0, (size_t)(s->padded - s->nx) * sizeof *line);
    fft_run(cpu->forward, line, complex_line);
    for (int k = 0; k <= s->padded / 2; k++) {
        complex_line[2 * k] *= s->filter[k] * share;
        complex_line[2 * k + 1] *= s->filter[k] * share;
    }
    fft_run(cpu->inverse, complex_line, line);
    for (int x = 0; x < s->nx; x++)
        cpu->rays0[at + (size_t)x * LANES] = line[x];
}

void tomography_cpu_filter(struct tomography_cpu *cpu) {
    const struct tomography_setup *s = cpu->setup;
    size_t floats = tomography_line_floats(s);
    memset(cpu->rays0, 0, (size_t)cpu->blocks * (size_t)s->tilts * cpu->rays * LANES * sizeof(float));
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
    for (int task = 0; task < cpu->blocks * s->tilts; task++) {
        int thread = 0;
#ifdef _OPENMP
        thread = omp_get_thread_num();
#endif
        int block = task / s->tilts, tilt = task % s->tilts;
        for (int lane = 0; lane < LANES && block * LANES + lane < s->ny; lane++)
            filter_row(cpu, block, tilt, lane, cpu->line + (size_t)thread * floats);
    }
}
