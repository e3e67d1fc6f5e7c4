#include "kernels/accuracy/accuracy_cuda.h"

#include "kernels/alignment/cuda/prepare.cuh"
#include "kernels/expectation/grid.cuh"

namespace {

enum { THREADS = 256 }; /* block_sum sums over one block */

struct comparison {
    grid_cuda grid;
    pixels_cuda pixels;
    const short *shell;
    const accuracy_moves_cuda *particles;
    int angles;
    double step;
    const float *sigma2;
    int shells;
};

/* Returns f shifted by x, y px. */
__device__ inline float2 shifted_by(float2 f, float x, float y, int kx, int ky, int box) {
    float s, c;
    sincospif(-2 * (kx * x + ky * y) / (float)box, &s, &c);
    return make_float2(f.x * c - f.y * s, f.x * s + f.y * c);
}

/* Compares one step of one particle per block. */
__global__ void compare_moved(comparison a, double *ret_differences) {
    const accuracy_moves_cuda *p = a.particles + blockIdx.y;
    int move = (int)blockIdx.x, offset = move - a.angles;
    const float *sigma2 = a.sigma2 + (size_t)p->optics * a.shells;
    float pose[6], turned[6];
    double terms[CTF_TERMS_PLAIN], sum = 0;
    for (int i = 0; i < 6; i++) {
        pose[i] = p->pose[i];
        turned[i] = offset < 0 ? p->turned[move][i] : 0;
    }
    for (int i = 0; i < CTF_TERMS_PLAIN; i++)
        terms[i] = p->ctf[i];
    for (int i = (int)threadIdx.x; i < a.pixels.count; i += THREADS) {
        int kx = a.pixels.kx[i], ky = a.pixels.ky[i];
        float2 f = grid_sample(a.grid, pose, kx, ky), g;
        if (offset < 0)
            g = grid_sample(a.grid, turned, kx, ky);
        else
            g = shifted_by(f, p->shifts[offset][0], p->shifts[offset][1], kx, ky, a.pixels.box);
        double c = p->has_ctf ? (double)contrast(terms, p->ctf + CTF_TERMS_PLAIN, kx, ky, a.step) : 1;
        double re = (double)(f.x - g.x), im = (double)(f.y - g.y);
        sum += c * c * (re * re + im * im) / (2 * (double)sigma2[a.shell[i]]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) ret_differences[(size_t)blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

} // namespace

extern "C" enum status accuracy_cuda_differences(const struct grid_cuda *grid, const struct pixels_cuda *pixels,
                                                 const short *shell, const struct accuracy_moves_cuda *particles,
                                                 int count, int angles, int offsets, double step, const float *sigma2,
                                                 int shells, double *ret_differences, void *stream, struct err *err) {
    const comparison a = {*grid, *pixels, shell, particles, angles, step, sigma2, shells};
    compare_moved<<<dim3((unsigned)(angles + offsets), (unsigned)count), THREADS, 0, (cudaStream_t)stream>>>(
        a, ret_differences);
    CUDA_TRY(cudaGetLastError(), err, "estimating accuracies");
    return STATUS_OK;
}
