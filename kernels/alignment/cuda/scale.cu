/* Measures how well particles fit a reference at any grey scale, from the products of the coarse pass. */
#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.h"

namespace {

enum { THREADS = 512 };

struct candidate {
    double fit; /* D²/N */
    size_t index;
};

/* If candidates are equal, the first one wins, as on the CPU. */
__device__ inline bool better(const candidate &a, const candidate &b) {
    return a.fit > b.fit || (a.fit == b.fit && a.index < b.index);
}

/* Finds the best fit of one particle per block. dots: −D, norms: N/2. */
__global__ void __launch_bounds__(THREADS)
    find_fits(const float *dots, const float *norms, int shifts, int rows, int orientations, double2 *ret_fits) {
    __shared__ candidate best[THREADS];
    const float *halves = norms + (size_t)blockIdx.x * rows;
    const float *products = dots + (size_t)blockIdx.x * shifts * rows;
    candidate mine = {0, (size_t)shifts * rows};
    for (int t = 0; t < shifts; t++)
        for (int o = (int)threadIdx.x; o < orientations; o += THREADS) {
            double dot = -(double)products[(size_t)t * rows + o], half = (double)halves[o];
            candidate other = {dot > 0 && half > 0 ? dot * dot / half : 0, (size_t)o * shifts + t};
            if (other.fit > 0 && better(other, mine)) mine = other;
        }
    best[threadIdx.x] = mine;
    for (int step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < step && better(best[threadIdx.x + step], best[threadIdx.x]))
            best[threadIdx.x] = best[threadIdx.x + step];
    }
    if (threadIdx.x > 0) return;
    int o = (int)(best[0].index / shifts), t = (int)(best[0].index % shifts);
    ret_fits[blockIdx.x] = best[0].fit > 0
                               ? make_double2(-(double)products[(size_t)t * rows + o], 2 * (double)halves[o])
                               : make_double2(0, 0);
}

__global__ void __launch_bounds__(THREADS) find_mean(const float *norms, int orientations, double *ret_mean) {
    __shared__ double sums[THREADS];
    double mine = 0;
    for (int o = (int)threadIdx.x; o < orientations; o += THREADS)
        mine += (double)norms[o];
    sums[threadIdx.x] = mine;
    for (int step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    if (threadIdx.x == 0) *ret_mean = sums[0] / orientations;
}

} // namespace

extern "C" enum status alignment_cuda_best_fits(const float *dots, const float *norms, int particles, int shifts,
                                                int rows, int orientations, double *ret_fits, double *ret_mean,
                                                void *stream, struct err *err) {
    if (particles == 0) return STATUS_OK;
    find_fits<<<(unsigned)particles, THREADS, 0, (cudaStream_t)stream>>>(dots, norms, shifts, rows, orientations,
                                                                         (double2 *)ret_fits);
    find_mean<<<1, THREADS, 0, (cudaStream_t)stream>>>(norms, orientations, ret_mean);
    CUDA_TRY(cudaGetLastError(), err, "finding a grey scale");
    return STATUS_OK;
}
