#include "kernels/differences/shells_cuda.h"

#include "kernels/fourier/cufft.cuh"

namespace {

enum { THREADS = 128 };

__global__ void filter(int box, const float *gains, float scale, float2 *spectrum) {
    int x = (int)(blockIdx.x * THREADS + threadIdx.x), y = (int)blockIdx.y, z = (int)blockIdx.z, half = box / 2;
    if (x > half) return;
    int ky = y <= half ? y : y - box, kz = z <= half ? z : z - box;
    int shell = __double2int_rn(sqrt((double)(x * x + ky * ky + kz * kz)));
    float gain = shell <= half ? scale * gains[shell] : 0;
    float2 *value = spectrum + ((size_t)z * box + y) * (size_t)(half + 1) + x;
    *value = make_float2(gain * value->x, gain * value->y);
}

/* Sums one shell of one plane per block: ret_sums[plane][shell]. Shell s holds s² − s < k² ≤ s² + s. Columns other than
 * the first and the last count twice, for their conjugates. */
__global__ void sum_planes(int box, const float2 *spectrum, double *ret_sums) {
    int s = (int)blockIdx.x, z = (int)blockIdx.y, half = box / 2, kz = z <= half ? z : z - box;
    double sum = 0;
    for (int y = (int)threadIdx.x; y < box; y += THREADS) {
        int ky = y <= half ? y : y - box, rest = ky * ky + kz * kz, most = s * s + s - rest;
        int first = s == 0 ? 0 : root_above(s * s - s + 1 - rest), last = most < 0 ? -1 : root_below(most);
        const float2 *row = spectrum + ((size_t)z * box + y) * (size_t)(half + 1);
        for (int x = first; x <= last && x <= half; x++) {
            double re = (double)row[x].x, im = (double)row[x].y;
            sum += (x == 0 || x == half ? 1 : 2) * (re * re + im * im);
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) ret_sums[(size_t)z * gridDim.x + s] = sum;
}

__global__ void add_planes(int box, const double *sums, double *ret_power) {
    double sum = 0;
    for (int z = (int)threadIdx.x; z < box; z += THREADS)
        sum += sums[(size_t)z * gridDim.x + blockIdx.x];
    sum = block_sum(sum);
    if (threadIdx.x == 0) ret_power[blockIdx.x] = sum;
}

} // namespace

extern "C" enum status shells_cuda_filter(int box, const float *gains, float *spectrum, void *stream, struct err *err) {
    dim3 blocks(blocks_for((size_t)box / 2 + 1, THREADS), (unsigned)box, (unsigned)box);
    float scale = (float)(1 / ((double)box * box * box));
    filter<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(box, gains, scale, (float2 *)spectrum);
    CUDA_TRY(cudaGetLastError(), err, "filtering a map");
    return STATUS_OK;
}

extern "C" enum status shells_cuda_power(int box, const float *spectrum, void *scratch, double *ret_power, void *stream,
                                         struct err *err) {
    unsigned shells = (unsigned)box / 2 + 1;
    double *sums = (double *)scratch;
    sum_planes<<<dim3(shells, (unsigned)box), THREADS, 0, (cudaStream_t)stream>>>(box, (const float2 *)spectrum, sums);
    add_planes<<<shells, THREADS, 0, (cudaStream_t)stream>>>(box, sums, ret_power);
    CUDA_TRY(cudaGetLastError(), err, "summing the shells of a map");
    return STATUS_OK;
}
