#include "kernels/differences/differences_cuda.h"

#include "common/device_cuda.h"
#include "kernels/fourier/launch.cuh"

namespace {

enum { THREADS = 256 };

__device__ inline size_t place() {
    return (size_t)blockIdx.x * THREADS + threadIdx.x;
}

__global__ void add(size_t count, float share, const float *map, float *sum) {
    size_t i = place();
    if (i < count) sum[i] += share * map[i];
}

__global__ void add_square(size_t count, float share, const float *map, float *sum) {
    size_t i = place();
    if (i < count) sum[i] += share * map[i] * map[i];
}

__global__ void weigh(size_t count, double noise, float *square) {
    size_t i = place();
    if (i < count) square[i] = (double)square[i] > noise ? (float)(1 - noise / (double)square[i]) : 0;
}

__global__ void multiply(size_t count, const float *weight, const float *difference, float *out) {
    size_t i = place();
    if (i < count) out[i] = weight[i] * difference[i];
}

__global__ void move(size_t count, const float *mean, float part, const float *weight, const float *difference,
                     float *out) {
    size_t i = place();
    if (i < count) out[i] = mean[i] + part * (weight ? weight[i] * difference[i] : difference[i]);
}

enum status queued(struct err *err) {
    CUDA_TRY(cudaGetLastError(), err, "comparing maps");
    return STATUS_OK;
}

} // namespace

extern "C" enum status differences_cuda_add(size_t count, float share, const float *map, float *sum, void *stream,
                                            struct err *err) {
    add<<<blocks_for(count, THREADS), THREADS, 0, (cudaStream_t)stream>>>(count, share, map, sum);
    return queued(err);
}

extern "C" enum status differences_cuda_add_square(size_t count, float share, const float *map, float *sum,
                                                   void *stream, struct err *err) {
    add_square<<<blocks_for(count, THREADS), THREADS, 0, (cudaStream_t)stream>>>(count, share, map, sum);
    return queued(err);
}

extern "C" enum status differences_cuda_weigh(size_t count, double noise, float *square, void *stream,
                                              struct err *err) {
    weigh<<<blocks_for(count, THREADS), THREADS, 0, (cudaStream_t)stream>>>(count, noise, square);
    return queued(err);
}

extern "C" enum status differences_cuda_multiply(size_t count, const float *weight, const float *difference, float *out,
                                                 void *stream, struct err *err) {
    multiply<<<blocks_for(count, THREADS), THREADS, 0, (cudaStream_t)stream>>>(count, weight, difference, out);
    return queued(err);
}

extern "C" enum status differences_cuda_move(size_t count, const float *mean, float part, const float *weight,
                                             const float *difference, float *out, void *stream, struct err *err) {
    move<<<blocks_for(count, THREADS), THREADS, 0, (cudaStream_t)stream>>>(count, mean, part, weight, difference, out);
    return queued(err);
}
