#include "kernels/fsc/fsc_cuda.h"

#include "kernels/fourier/cufft.cuh"

namespace {

enum { THREADS = 128, CROSS = 0, POWER_A, POWER_B, TERMS };

/* Sums one shell of one plane z per block: ret_sums[plane][shell][TERMS]. Shell s holds s² − s < k² ≤ s² + s. Columns
 * other than the first and the last count twice, for their conjugates. */
__global__ void correlate(int box, const float2 *a, const float2 *b, double *ret_sums) {
    int s = (int)blockIdx.x, z = (int)blockIdx.y, kz = z <= box / 2 ? z : z - box;
    double sums[TERMS] = {0, 0, 0};
    for (int y = (int)threadIdx.x; y < box; y += THREADS) {
        int ky = y <= box / 2 ? y : y - box, rest = ky * ky + kz * kz, most = s * s + s - rest;
        int first = s == 0 ? 0 : root_above(s * s - s + 1 - rest), last = most < 0 ? -1 : root_below(most);
        size_t row = ((size_t)z * box + y) * (size_t)(box / 2 + 1);
        for (int x = first; x <= last && x <= box / 2; x++) {
            double are = (double)a[row + x].x, aim = (double)a[row + x].y;
            double bre = (double)b[row + x].x, bim = (double)b[row + x].y;
            double copies = x == 0 || 2 * x == box ? 1 : 2;
            sums[CROSS] += copies * (are * bre + aim * bim);
            sums[POWER_A] += copies * (are * are + aim * aim);
            sums[POWER_B] += copies * (bre * bre + bim * bim);
        }
    }
    for (int t = 0; t < TERMS; t++) {
        double sum = block_sum(sums[t]);
        if (threadIdx.x == 0) ret_sums[((size_t)z * gridDim.x + s) * TERMS + t] = sum;
    }
}

/* Computes one shell per block. */
__global__ void divide(const double *sums, int planes, float *ret_fsc) {
    double totals[TERMS] = {0, 0, 0};
    for (int t = 0; t < TERMS; t++) {
        for (int z = (int)threadIdx.x; z < planes; z += THREADS)
            totals[t] += sums[((size_t)z * gridDim.x + blockIdx.x) * TERMS + t];
        totals[t] = block_sum(totals[t]);
    }
    double scale = sqrt(totals[POWER_A] * totals[POWER_B]);
    if (threadIdx.x == 0) ret_fsc[blockIdx.x] = scale > 0 ? (float)(totals[CROSS] / scale) : 0;
}

__global__ void __launch_bounds__(THREADS) subtract(float *a, const float *b, size_t count) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) a[i] -= b[i];
}

} // namespace

extern "C" size_t fsc_cuda_scratch(int box) {
    return (size_t)box * (size_t)(box / 2 + 1) * TERMS * sizeof(double);
}

extern "C" enum status fsc_cuda_spectra(int box, const float *a, const float *b, void *scratch, float *ret_fsc,
                                        void *cuda_stream, struct err *err) {
    cudaStream_t stream = (cudaStream_t)cuda_stream;
    unsigned shells = (unsigned)box / 2 + 1;
    correlate<<<dim3(shells, (unsigned)box), THREADS, 0, stream>>>(box, (const float2 *)a, (const float2 *)b,
                                                                   (double *)scratch);
    divide<<<shells, THREADS, 0, stream>>>((const double *)scratch, box, ret_fsc);
    CUDA_TRY(cudaGetLastError(), err, "correlating maps");
    return STATUS_OK;
}

extern "C" enum status fsc_cuda_subtract(int box, float *a, const float *b, void *cuda_stream, struct err *err) {
    size_t count = (size_t)box * (size_t)box * (size_t)box;
    subtract<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)cuda_stream>>>(a, b, count);
    CUDA_TRY(cudaGetLastError(), err, "subtracting maps");
    return STATUS_OK;
}
