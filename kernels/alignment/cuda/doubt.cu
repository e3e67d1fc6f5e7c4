/* Images that may show no particle: applies the probability of that after the fine pass. */
#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.h"

namespace {

enum { THREADS = 128 };

/* Processes one particle per block. */
__global__ void __launch_bounds__(THREADS)
    apply(particles_cuda particles, const doubt *doubts, const double *shell_pixels, int shells, const uint32_t *begin,
          best_cuda *best, contribution_cuda *contributions, float *power, float *reference_weights, int references,
          float *factors) {
    __shared__ double nothing, something, parts[THREADS];
    __shared__ float kept;
    size_t particle = blockIdx.x, row = particle * (size_t)shells;
    const doubt mine = doubts[particle];
    best_cuda *found = best + particle;
    if (threadIdx.x == 0) {
        double more = log(found->sum) - (double)found->least - mine.nothing;
        nothing = 1 / (1 + exp(fmin(more, 700.0)));
        something = 1 / (1 + exp(fmin(-more, 700.0)));
    }
    __syncthreads();
    double sum = 0;
    for (int s = threadIdx.x; s < shells; s += THREADS) {
        float value = (float)(something * (double)power[row + s] + nothing * (double)particles.power[row + s]);
        power[row + s] = value;
        if (s > 0) sum += 2 * shell_pixels[s] * (double)value;
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double norm = 0;
        for (int i = 0; i < THREADS; i++)
            norm += parts[i];
        bool inside = norm >= mine.norm_least && norm <= mine.norm_most;
        double share = inside ? something : 0;
        kept = (float)share;
        found->nothing = nothing;
        found->left_out = !inside;
        found->weight_sum *= share;
        found->offset2 *= share;
        if (!inside) factors[particle] = 0;
    }
    __syncthreads();
    for (uint32_t i = begin[particle] + threadIdx.x; i < begin[particle + 1]; i += THREADS)
        contributions[i].weight *= kept;
    for (int k = threadIdx.x; k < references; k += THREADS)
        reference_weights[particle * (size_t)references + k] *= kept;
}

} // namespace

extern "C" enum status alignment_cuda_doubt(const struct particles_cuda *particles, const struct doubt *doubts,
                                            const double *shell_pixels, int shells, const uint32_t *begin,
                                            struct best_cuda *best, struct contribution_cuda *contributions,
                                            float *power, float *reference_weights, int references, float *factors,
                                            void *stream, struct err *err) {
    if (particles->count < 1) return STATUS_OK;
    apply<<<(unsigned)particles->count, THREADS, 0, (cudaStream_t)stream>>>(*particles, doubts, shell_pixels, shells,
                                                                            begin, best, contributions, power,
                                                                            reference_weights, references, factors);
    CUDA_TRY(cudaGetLastError(), err, "weighing images against nothing");
    return STATUS_OK;
}
