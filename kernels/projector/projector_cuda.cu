/* Transforms a map to the grid that slices are taken from. */
#include "kernels/fourier/padded.cuh"
#include "kernels/projector/projector_cuda.h"

namespace {

enum { PAD = 2, THREADS = 256, SHELL_THREADS = 64 };

/* Copies a row of the map, divided by the effect of interpolation, into a padded row. */
__global__ void pad_rows(const float *map, int box, int depth, int n, int first, const float *correction, float *out) {
    size_t row = (size_t)blockIdx.y * gridDim.z + blockIdx.z;
    int at = (int)(blockIdx.x * THREADS + threadIdx.x), x = at - first, c = box / 2;
    if (row >= (size_t)depth * box || at >= n + 2) return;
    int y = (int)(row % box) - c, z = depth == 1 ? 0 : (int)(row / box) - c;
    bool inside = x >= 0 && x < box;
    out[row * (n + 2) + at] = inside ? map[row * box + x] * correction[z * z + y * y + (x - c) * (x - c)] : 0;
}

/* Fills the column beyond Nyquist from its conjugate: the transform is Hermitian. x + y + z of the two points differs
 * by an even number, so that their alternating signs agree. */
__global__ void mirror_column(float2 *values, int nx, int ny, int nz, int from) {
    int row = (int)(blockIdx.x * THREADS + threadIdx.x), rows = ny * nz;
    if (row >= rows) return;
    /* Row (−y, −z) is as far from the end as row (y, z) from the beginning. */
    float2 value = values[(size_t)(rows - 1 - row) * nx + from];
    values[(size_t)row * nx + nx - 1] = make_float2(value.x, -value.y);
}

/* Copies the points within a radius from a smaller grid. */
__global__ void copy_inner(const float2 *from, grid_cuda inner, int radius, grid_cuda outer, float2 *to) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    bool deep = inner.dimensions == 3;
    if (at >= (size_t)inner.nx * inner.ny * (deep ? inner.ny : 1)) return;
    int x = (int)(at % inner.nx), y = (int)(at / inner.nx % inner.ny) - inner.reach;
    int z = deep ? (int)(at / inner.nx / inner.ny) - inner.reach : 0;
    if (x * x + y * y + z * z > radius * radius) return;
    size_t row = (size_t)(deep ? z + outer.reach : 0) * outer.ny + (size_t)(y + outer.reach);
    to[row * outer.nx + x] = from[at];
}

/* Sums one shell of one plane per block: ret_sums[plane][shell][2], |F|² and the number of points. Shell s holds the
 * padded radii 2 s − 1 ≤ r < 2 s + 1, up to the limit. */
__global__ void sum_power(const float2 *values, int nx, int ny, int reach, int depth, int limit, double *ret_sums) {
    int s = (int)blockIdx.x, z = (int)blockIdx.y - depth, far = (PAD * s + 1) * (PAD * s + 1) - 1;
    int near = s == 0 ? 0 : (PAD * s - 1) * (PAD * s - 1);
    double sum = 0, count = 0;
    if (far > limit * limit) far = limit * limit;
    for (int y = (int)threadIdx.x - limit; y <= limit; y += SHELL_THREADS) {
        int rest = y * y + z * z, first = root_above(near - rest), last = far < rest ? -1 : root_below(far - rest);
        const float2 *row = values + ((size_t)blockIdx.y * ny + (size_t)(y + reach)) * nx;
        for (int x = first; x <= last; x++) {
            sum += (double)(row[x].x * row[x].x + row[x].y * row[x].y);
            count += 1;
        }
    }
    sum = block_sum(sum);
    count = block_sum(count);
    if (threadIdx.x > 0) return;
    double *ret = ret_sums + 2 * ((size_t)blockIdx.y * gridDim.x + blockIdx.x);
    ret[0] = sum, ret[1] = count;
}

/* Averages one shell per block, over planes in a fixed order. Shells beyond the limit are 0. */
__global__ void mean_power(const double *sums, int planes, int shells, float *ret_power) {
    int s = (int)blockIdx.x;
    double sum = 0, count = 0;
    for (int plane = (int)threadIdx.x; plane < planes && s < shells; plane += SHELL_THREADS) {
        sum += sums[2 * ((size_t)plane * shells + s)];
        count += sums[2 * ((size_t)plane * shells + s) + 1];
    }
    sum = block_sum(sum);
    count = block_sum(count);
    if (threadIdx.x == 0) ret_power[s] = count > 0 ? (float)(sum / count / 2) : 0;
}

} // namespace

extern "C" struct grid_cuda projector_cuda_grid(int dimensions, int size) {
    int r_max = size / 2, reach = PAD * r_max + 1;
    struct grid_cuda grid = {};
    grid.nx = reach + 1, grid.ny = 2 * reach + 1;
    grid.reach = reach, grid.r_max = r_max, grid.dimensions = dimensions;
    return grid;
}

extern "C" size_t projector_cuda_bytes(const struct grid_cuda *grid) {
    return (size_t)grid->nx * grid->ny * (grid->dimensions == 3 ? grid->ny : 1) * sizeof(float2);
}

extern "C" enum status projector_cuda_set_map(struct padded_cuda *p, const float *map, int size,
                                              const struct grid_cuda *grid, float *values, void *scratch,
                                              void *cuda_stream, struct err *err) {
    cudaStream_t stream = (cudaStream_t)cuda_stream;
    FAIL_IF(size < 2 || size > p->box, err, STATUS_BAD_ARGUMENT, "a Fourier size of %d px does not fit a box of %d px",
            size, p->box);
    FAIL_IF(grid->dimensions != p->dimensions || grid->r_max != size / 2, err, STATUS_BAD_ARGUMENT,
            "a grid of %d px in %d dimensions is not that of a Fourier size of %d px", 2 * grid->r_max,
            grid->dimensions, size);
    padded_memory m;
    int n = p->n, most = n / 2 + 1, columns = grid->nx < most ? grid->nx : most;
    int nz = p->dimensions == 3 ? grid->ny : 1;
    TRY(padded_begin(p, columns, size, scratch, stream, &m, err));
    pad_rows<<<dim3(blocks_for((size_t)n + 2, THREADS), (unsigned)p->depth, (unsigned)p->box), THREADS, 0, stream>>>(
        map, p->box, p->depth, n, p->first, p->correction, (float *)m.planes);
    CUDA_TRY(cudaGetLastError(), err, "padding a reference");
    TRY(padded_planes_to_sheets(p, &m, stream, err));
    for (int row = 0, rows; row < grid->ny; row += rows) {
        rows = grid->ny - row < m.rows ? grid->ny - row : m.rows;
        TRY(padded_sheets_to_lines(p, &m, rows, (row - grid->reach + 2 * n) % n, stream, err));
        padded_move move = {};
        move.in = m.lines, move.in_outer = (size_t)columns * p->n_z, move.in_line = (size_t)p->n_z;
        move.in_lines = columns, move.outer = rows, move.rows = nz, move.columns = columns;
        move.out = (float2 *)values + (size_t)row * grid->nx, move.out_outer = (size_t)grid->nx;
        move.out_row = (size_t)grid->nx * grid->ny;
        move.first = nz > 1 ? (2 * n - grid->reach) % n : 0, move.wrap = p->n_z;
        move.factor = 1 / ((float)p->box * (float)p->box), move.alternating = true;
        /* x + y + z is even where the sum of the indices has this parity: y and z indices are larger by `reach`
         * each. */
        move.parity = (row + grid->reach * (nz > 1 ? 2 : 1)) & 1;
        TRY(padded_run_move(&move, stream, err));
    }
    if (grid->nx > columns) {
        mirror_column<<<blocks_for((size_t)grid->ny * nz, THREADS), THREADS, 0, stream>>>((float2 *)values, grid->nx,
                                                                                          grid->ny, nz, n - columns);
        CUDA_TRY(cudaGetLastError(), err, "padding a reference");
    }
    return STATUS_OK;
}

extern "C" enum status projector_cuda_copy_inner(const struct grid_cuda *inner, const float *inner_values, int radius,
                                                 const struct grid_cuda *grid, float *values, void *stream,
                                                 struct err *err) {
    size_t points = projector_cuda_bytes(inner) / sizeof(float2);
    FAIL_IF(inner->dimensions != grid->dimensions || inner->reach > grid->reach || radius < 0, err, STATUS_BAD_ARGUMENT,
            "a grid of %d px in %d dimensions is not part of a grid of %d px in %d", 2 * inner->r_max,
            inner->dimensions, 2 * grid->r_max, grid->dimensions);
    copy_inner<<<blocks_for(points, THREADS), THREADS, 0, (cudaStream_t)stream>>>((const float2 *)inner_values, *inner,
                                                                                  radius, *grid, (float2 *)values);
    CUDA_TRY(cudaGetLastError(), err, "setting shells of a reference");
    return STATUS_OK;
}

/* The grid has a margin of one plane at each end. */
static int power_planes(const struct grid_cuda *grid) {
    return grid->dimensions == 3 ? grid->ny : 1;
}

extern "C" size_t projector_cuda_power_scratch(const struct grid_cuda *grid) {
    return (size_t)power_planes(grid) * (grid->r_max + 1) * 2 * sizeof(double);
}

extern "C" enum status projector_cuda_power(const struct grid_cuda *grid, const float *values, int box, void *scratch,
                                            float *ret_power, void *cuda_stream, struct err *err) {
    cudaStream_t stream = (cudaStream_t)cuda_stream;
    int planes = power_planes(grid), shells = grid->r_max + 1, depth = planes > 1 ? grid->reach : 0;
    sum_power<<<dim3((unsigned)shells, (unsigned)planes), SHELL_THREADS, 0, stream>>>(
        (const float2 *)values, grid->nx, grid->ny, grid->reach, depth, PAD * grid->r_max, (double *)scratch);
    mean_power<<<(unsigned)box / 2 + 1, SHELL_THREADS, 0, stream>>>((const double *)scratch, planes, shells, ret_power);
    CUDA_TRY(cudaGetLastError(), err, "summing over shells");
    return STATUS_OK;
}
