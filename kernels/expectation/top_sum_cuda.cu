/* Top-sum selection over stored weights. */
#include "kernels/expectation/top_sum.cuh"

namespace {

/* Most particles in a launch that uses several blocks per particle. */
constexpr int PARTICLES_MOST = 512;

struct stored {
    const float *weights;
    const size_t *begin;

    __device__ size_t length(int particle) const {
        return begin[particle + 1] - begin[particle];
    }

    template <typename Visit> __device__ void each(const part &part, Visit visit) const {
        const float *from = weights + begin[part.particle];
        for (size_t at = part.first; at < part.end; at += THREADS * UNROLL) {
            float value[UNROLL];
#pragma unroll
            for (int i = 0; i < UNROLL; i++) {
                size_t column = at + (size_t)i * THREADS + threadIdx.x;
                value[i] = column < part.end ? from[column] : 0;
            }
#pragma unroll
            for (int i = 0; i < UNROLL; i++)
                visit(value[i]);
        }
    }
};

__global__ void __launch_bounds__(THREADS, 2)
    select_stored(stored source, int shares, double fraction, unsigned most, meeting *meetings, top_sum *ret_sums) {
    __shared__ tables t;
    __shared__ progress p;
    part part = part_of(source.length((int)blockIdx.x / shares), shares);
    if (threadIdx.x == 0) begin_progress(p, most);
    __syncthreads();
    for (int round = 0; round < ROUNDS && !p.empty; round++) {
        histogram(source, part, t, p, meetings + part.particle, round);
        choose(t, p, fraction, most, round);
    }
    if (part.share > 0 || threadIdx.x > 0) return;
    unsigned count = p.empty ? (unsigned)source.length(part.particle) : p.counted[FRACTION];
    ret_sums[part.particle] =
        top_sum{p.total, 0, threshold_of(p), count, p.limited && !p.empty ? p.counted[MOST] : count};
}

} // namespace

extern "C" size_t top_sum_scratch(int n) {
    /* Only up to this many particles leave room for several blocks each. */
    size_t meetings = (size_t)(n < PARTICLES_MOST ? n : PARTICLES_MOST) * sizeof(meeting), other = posterior_scratch(n);
    return meetings > other ? meetings : other;
}

extern "C" enum status top_sum_cuda(const float *weights, const size_t *begin, int n, size_t longest, double fraction,
                                    uint32_t most, void *scratch, struct top_sum *ret_sums, void *stream,
                                    struct err *err) {
    if (n < 1) return STATUS_OK;
    int shares = 1;
    stored source = {weights, begin};
    meeting *meetings = (meeting *)scratch;
    TRY(shares_of(select_stored, 0, n, n <= PARTICLES_MOST ? longest : 0, &shares, err));
    if (shares == 1) {
        select_stored<<<n, THREADS, 0, (cudaStream_t)stream>>>(source, shares, fraction, most, meetings, ret_sums);
        CUDA_TRY(cudaGetLastError(), err, "choosing the largest weights");
        return STATUS_OK;
    }
    CUDA_TRY(cudaMemsetAsync(scratch, 0, (size_t)n * sizeof(meeting), (cudaStream_t)stream), err, "clearing memory");
    void *arguments[] = {&source, &shares, &fraction, &most, &meetings, &ret_sums};
    CUDA_TRY(cudaLaunchCooperativeKernel((const void *)select_stored, dim3((unsigned)(n * shares)), dim3(THREADS),
                                         arguments, 0, (cudaStream_t)stream),
             err, "choosing the largest weights");
    return STATUS_OK;
}
