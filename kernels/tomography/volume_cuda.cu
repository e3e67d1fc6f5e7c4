/* Converts between the host's order, x fastest, and the device's, y fastest; evaluates the volume from coefficients. */
#include "common/device_cuda.h"
#include "kernels/tomography/tomography_cuda.h"

namespace {

enum { SIDE = 32, LINES = 8 };

static __device__ inline bool is_bad(float value) {
    return !isfinite(value);
}
static __device__ inline bool is_bad(unsigned char) {
    return false;
}

/* A block transposes tiles of 32 × 32; columns of `to` from `rows` to pitch become zero. */
template <class T>
__global__ void turn(const T *from, int rows, int columns, int from_pitch, int pitch, struct tomography_origin origin,
                     T *to, unsigned long long *ret_bad) {
    __shared__ T tile[SIDE][SIDE + 1];
    int column0 = (int)blockIdx.x * SIDE, row0 = (int)blockIdx.y * SIDE;
    size_t plane = blockIdx.z;
    for (int i = (int)threadIdx.y; i < SIDE; i += LINES) {
        int row = row0 + i, column = column0 + (int)threadIdx.x;
        T value = 0;
        if (row < rows && column < columns)
            value = from[(plane * (size_t)rows + (size_t)row) * (size_t)from_pitch + (size_t)column];
        if (ret_bad && is_bad(value))
            atomicMin(ret_bad, origin.first + plane * origin.plane + (unsigned long long)row * (unsigned)columns +
                                   (unsigned)column);
        tile[i][threadIdx.x] = value;
    }
    __syncthreads();
    for (int i = (int)threadIdx.y; i < SIDE; i += LINES) {
        int row = row0 + (int)threadIdx.x, column = column0 + i;
        if (row < pitch && column < columns)
            to[(plane * (size_t)columns + (size_t)column) * (size_t)pitch + (size_t)row] = tile[threadIdx.x][i];
    }
}

template <class T>
enum status turn_all(const T *from, int planes, int rows, int columns, int from_pitch, int pitch,
                     const struct tomography_origin *origin, T *to, unsigned long long *ret_bad, cudaStream_t stream,
                     struct err *err) {
    dim3 grid((unsigned)((columns + SIDE - 1) / SIDE), (unsigned)((pitch + SIDE - 1) / SIDE), (unsigned)planes);
    turn<T><<<grid, dim3(SIDE, LINES), 0, stream>>>(from, rows, columns, from_pitch, pitch, *origin, to, ret_bad);
    CUDA_TRY(cudaGetLastError(), err, "turning images");
    return STATUS_OK;
}

/* Returns the coefficient of column x, row y of slice z; 0 outside. */
static __device__ inline float coefficient(const struct tomography_stencil &s, int z, int x, int y) {
    if (z < 0 || z >= s.nz || x < 0 || x >= s.nx || y < -1 || y > s.rows) return 0;
    size_t column = (size_t)z * (size_t)s.nx + (size_t)x;
    if (y < 0) return s.below ? s.below[column] : 0;
    if (y == s.rows) return s.above ? s.above[column] : 0;
    return s.coefficients[column * (size_t)s.pitch + (size_t)y];
}

__global__ void spread(struct tomography_stencil s, int first, float *ret_slices) {
    __shared__ float middle[SIDE + 2][SIDE + 3], sides[SIDE + 2][SIDE + 3]; /* slice z; z − 1 and z + 1; [x][y] */
    int x0 = (int)blockIdx.x * SIDE - 1, y0 = (int)blockIdx.y * SIDE - 1, z = first + (int)blockIdx.z;
    for (int i = (int)(threadIdx.y * SIDE + threadIdx.x); i < (SIDE + 2) * (SIDE + 2); i += SIDE * LINES) {
        int x = i / (SIDE + 2), y = i % (SIDE + 2);
        middle[x][y] = coefficient(s, z, x0 + x, y0 + y);
        if (!s.plain) sides[x][y] = coefficient(s, z - 1, x0 + x, y0 + y) + coefficient(s, z + 1, x0 + x, y0 + y);
    }
    __syncthreads();
    int x = (int)threadIdx.x, left = x0 + 1 + x;
    for (int y = (int)threadIdx.y; y < SIDE; y += LINES) {
        if (left >= s.nx || y0 + 1 + y >= s.rows) continue;
        float value = middle[x + 1][y + 1];
        if (!s.plain) {
            value = 0;
#pragma unroll
            for (int i = 0; i < 3; i++)
#pragma unroll
                for (int k = 0; k < 3; k++) {
                    int differ = (i != 1) + (k != 1);
                    value += s.weights[differ] * middle[x + i][y + k] + s.weights[differ + 1] * sides[x + i][y + k];
                }
        }
        ret_slices[((size_t)blockIdx.z * (size_t)s.rows + (size_t)(y0 + 1 + y)) * (size_t)s.nx + (size_t)left] = value;
    }
}

} // namespace

extern "C" enum status tomography_cuda_turn(const float *from, int planes, int rows, int columns, int from_pitch,
                                            int pitch, const struct tomography_origin *origin, float *ret_to,
                                            unsigned long long *ret_bad, void *stream, struct err *err) {
    return turn_all(from, planes, rows, columns, from_pitch, pitch, origin, ret_to, ret_bad, (cudaStream_t)stream, err);
}

extern "C" enum status tomography_cuda_turn_mask(const unsigned char *from, int planes, int rows, int columns,
                                                 int pitch, unsigned char *ret_to, void *stream, struct err *err) {
    struct tomography_origin origin = {0, 0};
    return turn_all(from, planes, rows, columns, columns, pitch, &origin, ret_to, (unsigned long long *)NULL,
                    (cudaStream_t)stream, err);
}

extern "C" enum status tomography_cuda_stencil(const struct tomography_stencil *stencil, int first, int planes,
                                               float *ret_slices, void *stream, struct err *err) {
    dim3 grid((unsigned)((stencil->nx + SIDE - 1) / SIDE), (unsigned)((stencil->rows + SIDE - 1) / SIDE),
              (unsigned)planes);
    spread<<<grid, dim3(SIDE, LINES), 0, (cudaStream_t)stream>>>(*stencil, first, ret_slices);
    CUDA_TRY(cudaGetLastError(), err, "making the volume");
    return STATUS_OK;
}
