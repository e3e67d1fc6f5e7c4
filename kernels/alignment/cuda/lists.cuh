/* Lists of a batch of particles. Kernels count first, so that the host can take memory, then fill: one block fills a
 * particle's part, and each thread knows where its entries go. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_LISTS_CUH
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_LISTS_CUH

#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.h"

namespace {

constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ inline sample_counts plus(sample_counts a, sample_counts b) {
    return {a.samples + b.samples, a.rows + b.rows};
}

__device__ inline unsigned lanes_before() {
    return (1u << (threadIdx.x & 31)) - 1;
}

/* Returns the sum over the threads of the block before this one, and over all threads. part: shared memory, one per
 * warp. */
template <int THREADS>
__device__ sample_counts sum_before(sample_counts mine, sample_counts *part, sample_counts *ret_all) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    sample_counts sum = mine;
    for (int step = 1; step < 32; step *= 2) {
        sample_counts other = {__shfl_up_sync(ALL_LANES, sum.samples, step), __shfl_up_sync(ALL_LANES, sum.rows, step)};
        if (lane >= step) sum = plus(sum, other);
    }
    if (lane == 31) part[warp] = sum;
    __syncthreads();
    sample_counts before = {0, 0}, all = {0, 0};
    for (int w = 0; w < THREADS / 32; w++) {
        if (w < warp) before = plus(before, part[w]);
        all = plus(all, part[w]);
    }
    __syncthreads();
    *ret_all = all;
    return {before.samples + sum.samples - mine.samples, before.rows + sum.rows - mine.rows};
}

struct stored_counts {
    const sample_counts *counts;
    __device__ sample_counts operator()(int i) const {
        return counts[i];
    }
};

struct contribution_counts {
    const best_cuda *best;
    __device__ sample_counts operator()(int i) const {
        return {best[i].contributions, 0};
    }
};

/* Finds where the list of each of n particles begins; one block. row_begin may be NULL. */
template <int THREADS, typename Counts>
__global__ void make_begin(Counts counts, int n, uint32_t *begin, uint32_t *row_begin) {
    __shared__ sample_counts part[THREADS / 32];
    sample_counts at = {0, 0}, all;
    for (int first = 0; first < n; first += THREADS) {
        int i = first + (int)threadIdx.x;
        sample_counts before = plus(at, sum_before<THREADS>(i < n ? counts(i) : sample_counts{0, 0}, part, &all));
        if (i < n) begin[i] = before.samples;
        if (i < n && row_begin) row_begin[i] = before.rows;
        at = plus(at, all);
    }
    if (threadIdx.x > 0) return;
    begin[n] = at.samples;
    if (row_begin) row_begin[n] = at.rows;
}

} // namespace

#endif
