/* Coarse search on a CUDA device: the cross-correlation of each frame with the sum of the others, and its peak. */
#include "kernels/motion/motion_align_cuda.cuh"

namespace {

enum { THREADS = ALIGN_THREADS, PEAK_THREADS = 1024 };

/* Fills the transform of the correlation of each frame: (R − t) conj(t) w, on the smaller search window. */
__global__ void multiply(align_set set, align_band search, const float *weight, float2 *product) {
    const int columns = search.nx / 2 + 1, count = search.ny * columns, frame = blockIdx.y;
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const int row = i / columns, x = i - row * columns, ring = search.rings[i];
    float2 value = {0, 0};
    if (ring < ALIGN_OUTSIDE) {
        const int window_row = row <= search.ny / 2 ? row : row - search.ny + set.band.ny;
        const int at = window_row * (set.band.nx / 2 + 1) + x, all = set.band.ny * (set.band.nx / 2 + 1);
        const float2 t =
            align_shifted(set.spectra[(size_t)frame * all + at], align_frequency(set.band, at), set.shifts[frame]);
        const float2 r = set.sum[at], d = make_float2(r.x - t.x, r.y - t.y);
        value = make_float2(weight[ring] * (d.x * t.x + d.y * t.y), weight[ring] * (d.y * t.x - d.x * t.y));
    }
    product[(size_t)frame * count + i] = value;
}

struct candidate {
    float value;
    int rank; /* −1: no shift; then row by row. The first of equal values wins. */
};

__device__ candidate better(candidate a, candidate b) {
    return b.value > a.value || (b.value == a.value && b.rank < a.rank) ? b : a;
}

/* Finds the largest value within the range, one block for each frame. */
__global__ void __launch_bounds__(PEAK_THREADS)
    find_peaks(const float *images, int nx, int ny, int range_x, int range_y, align_peak *peaks) {
    __shared__ candidate best_of[PEAK_THREADS];
    const float *image = images + (size_t)blockIdx.x * nx * ny;
    const int columns = 2 * range_x + 1, count = columns * (2 * range_y + 1);
    candidate best = {image[0], -1};
    for (int i = threadIdx.x; i < count; i += PEAK_THREADS) {
        const int y = i / columns - range_y, x = i % columns - range_x;
        const candidate here = {image[(size_t)((y + ny) % ny) * nx + (x + nx) % nx], i};
        best = better(best, here);
    }
    best_of[threadIdx.x] = best;
    for (int step = PEAK_THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < step) best_of[threadIdx.x] = better(best_of[threadIdx.x], best_of[threadIdx.x + step]);
    }
    if (threadIdx.x > 0) return;
    best = best_of[0];
    align_peak peak = {};
    if (best.rank >= 0) peak.x = best.rank % columns - range_x, peak.y = best.rank / columns - range_y;
    const int x = (peak.x + nx) % nx, y = (peak.y + ny) % ny;
    peak.middle = image[(size_t)y * nx + x];
    peak.left = image[(size_t)y * nx + (x + nx - 1) % nx], peak.right = image[(size_t)y * nx + (x + 1) % nx];
    peak.above = image[(size_t)((y + ny - 1) % ny) * nx + x], peak.below = image[(size_t)((y + 1) % ny) * nx + x];
    peaks[blockIdx.x] = peak;
}

} // namespace

enum status motion_align_cuda_search(void *state, const float *x, const float *y, const float *weight, float *ret_x,
                                     float *ret_y, struct err *err) {
    struct motion_align_cuda *a = (struct motion_align_cuda *)state;
    const struct motion_align_plan *plan = &a->plan;
    cudaStream_t stream = a->motion->stream;
    const int nx = plan->search_x, ny = plan->search_y, frames = plan->task.frames;
    const double step_x = plan->pitch_x * plan->window_x / nx, step_y = plan->pitch_y * plan->window_y / ny;
    CUDA_TRY(cudaMemcpyAsync(a->weight, weight, MOTION_RINGS * sizeof *weight, cudaMemcpyDefault, stream), err,
             "taking weights there");
    TRY(motion_align_cuda_put_shifts(a, &a->whole, x, y, err));
    TRY(motion_align_cuda_add(a, &a->whole, false, err));
    dim3 blocks(blocks_for(align_count(&a->search), THREADS), frames);
    multiply<<<blocks, THREADS, 0, stream>>>(a->whole, a->search, a->weight, a->correlation);
    CUDA_TRY(cudaGetLastError(), err, "correlating frames");
    CUFFT_TRY(cufftExecC2R(a->search_plan, a->correlation, a->image), err, "correlating frames");
    find_peaks<<<frames, PEAK_THREADS, 0, stream>>>(a->image, nx, ny, motion_align_range(plan, step_x, nx),
                                                    motion_align_range(plan, step_y, ny), a->peaks);
    CUDA_TRY(cudaGetLastError(), err, "finding the peaks of correlations");
    CUDA_TRY(cudaMemcpyAsync(a->host_peaks, a->peaks, frames * sizeof *a->peaks, cudaMemcpyDefault, stream), err,
             "fetching the peaks of correlations");
    CUDA_TRY(cudaStreamSynchronize(stream), err, "correlating frames");
    for (int i = 0; i < frames; i++) {
        const struct align_peak *p = &a->host_peaks[i];
        ret_x[i] =
            (float)((p->x + motion_align_parabola((double)p->left, (double)p->middle, (double)p->right)) * step_x);
        ret_y[i] =
            (float)((p->y + motion_align_parabola((double)p->above, (double)p->middle, (double)p->below)) * step_y);
    }
    return STATUS_OK;
}
