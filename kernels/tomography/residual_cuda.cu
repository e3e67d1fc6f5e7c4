/* Computes residuals, their sums by row, sums of neighbouring rows, and rows to hand on. */
#include "kernels/fourier/cufft.cuh"
#include "kernels/tomography/tomography_cuda.h"

namespace {

enum { THREADS = TOMOGRAPHY_CHUNK, SUMS = 64 };

static __device__ inline int row_of(const struct tomography_chunks &chunks) {
    return (chunks.first + (int)blockIdx.x * chunks.step) * TOMOGRAPHY_CHUNK + (int)threadIdx.x;
}

/* Returns a row beside y, of this slab or of the neighbour's. */
static __device__ inline float beside(const float *rows, const float *outside, size_t ray, int pitch, bool inside,
                                      int y) {
    if (inside) return rows[ray * (size_t)pitch + (size_t)y];
    return outside ? outside[ray] : 0;
}

/* A thread has a row, a block a group of rays: the sums of a row do not depend on its slab. */
__global__ void subtract(struct tomography_residual s, struct tomography_chunks chunks) {
    int y = row_of(chunks);
    size_t rays = (size_t)s.tilts * (size_t)s.nx, group = blockIdx.y;
    size_t from = rays * group / TOMOGRAPHY_RESIDUAL_GROUPS, to = rays * (group + 1) / TOMOGRAPHY_RESIDUAL_GROUPS;
    int beside_it = 2 - (y == 0 && s.first_is_end) - (y == s.rows - 1 && s.last_is_end);
    const float *reciprocals = s.rays + (size_t)beside_it * rays;
    double sum = 0;
    for (size_t ray = from; ray < to; ray++) {
        size_t at = ray * (size_t)s.pitch + (size_t)y;
        float r = 0;
        if (y < s.rows) {
            float difference = s.projections[at], scale = reciprocals[ray];
            if (s.q0) difference -= s.q0[at];
            if (s.q1)
                difference -= beside(s.q1, s.below, ray, s.pitch, y > 0, y - 1) +
                              beside(s.q1, s.above, ray, s.pitch, y + 1 < s.rows, y + 1);
            sum += (double)scale * (double)difference * (double)difference;
            r = s.plain ? difference : scale * difference;
        }
        s.r[at] = r;
    }
    s.sums[group * (size_t)s.pitch + (size_t)y] = sum;
}

__global__ void add_groups(const double *sums, int rows, int pitch, double *ret_rows) {
    int y = (int)(blockIdx.x * SUMS + threadIdx.x);
    if (y >= rows) return;
    double sum = 0;
    for (int group = 0; group < TOMOGRAPHY_RESIDUAL_GROUPS; group++)
        sum += sums[(size_t)group * (size_t)pitch + (size_t)y];
    ret_rows[y] = sum;
}

__global__ void add_neighbours(struct tomography_residual s, struct tomography_chunks chunks, const float *r,
                               const float *below, const float *above, float *ret_r1) {
    int y = row_of(chunks);
    size_t rays = (size_t)s.tilts * (size_t)s.nx;
    for (size_t ray = blockIdx.y; ray < rays; ray += gridDim.y) {
        float sum = 0;
        if (y < s.rows)
            sum = beside(r, below, ray, s.pitch, y > 0, y - 1) + beside(r, above, ray, s.pitch, y + 1 < s.rows, y + 1);
        ret_r1[ray * (size_t)s.pitch + (size_t)y] = sum;
    }
}

__global__ void take_row(const float *from, size_t lines, int pitch, int row, float *ret_row) {
    size_t line = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (line < lines) ret_row[line] = from[line * (size_t)pitch + (size_t)row];
}

} // namespace

extern "C" enum status tomography_cuda_residual(const struct tomography_residual *residual,
                                                struct tomography_chunks chunks, void *stream, struct err *err) {
    if (chunks.count < 1) return STATUS_OK;
    dim3 grid((unsigned)chunks.count, TOMOGRAPHY_RESIDUAL_GROUPS);
    subtract<<<grid, THREADS, 0, (cudaStream_t)stream>>>(*residual, chunks);
    CUDA_TRY(cudaGetLastError(), err, "a residual");
    return STATUS_OK;
}

extern "C" enum status tomography_cuda_row_sums(const double *sums, int rows, int pitch, double *ret_rows, void *stream,
                                                struct err *err) {
    add_groups<<<blocks_for((size_t)rows, SUMS), SUMS, 0, (cudaStream_t)stream>>>(sums, rows, pitch, ret_rows);
    CUDA_TRY(cudaGetLastError(), err, "the sum of a residual");
    return STATUS_OK;
}

extern "C" enum status tomography_cuda_neighbours(const struct tomography_residual *residual,
                                                  struct tomography_chunks chunks, const float *r, const float *below,
                                                  const float *above, float *ret_r1, void *stream, struct err *err) {
    if (chunks.count < 1) return STATUS_OK;
    size_t rays = (size_t)residual->tilts * (size_t)residual->nx;
    dim3 grid((unsigned)chunks.count, (unsigned)(rays < 4096 ? rays : 4096));
    add_neighbours<<<grid, THREADS, 0, (cudaStream_t)stream>>>(*residual, chunks, r, below, above, ret_r1);
    CUDA_TRY(cudaGetLastError(), err, "adding neighbouring rows");
    return STATUS_OK;
}

extern "C" enum status tomography_cuda_take_row(const float *from, size_t lines, int pitch, int row, float *ret_row,
                                                void *stream, struct err *err) {
    take_row<<<blocks_for(lines, THREADS), THREADS, 0, (cudaStream_t)stream>>>(from, lines, pitch, row, ret_row);
    CUDA_TRY(cudaGetLastError(), err, "taking a row");
    return STATUS_OK;
}
