/* Spectra of binned frames and of patches, on a CUDA device. */
#include "kernels/motion/motion_align_cuda.cuh"

namespace {

enum { THREADS = ALIGN_THREADS, MEAN_THREADS = 1024, ROW_STEP = 16 };

struct binning {
    device_frames frames;
    int bin, nx, ny, first_x, first_y; /* nx, ny: of the binned image */
};

template <typename PIXEL> __device__ float binned_at(const binning &b, const PIXEL *frame, int x, int y) {
    float sum = 0;
    for (int v = 0; v < b.bin; v++)
        for (int u = 0; u < b.bin; u++) {
            size_t at = (size_t)(b.first_y + y * b.bin + v) * b.frames.nx + b.first_x + x * b.bin + u;
            float value = (float)frame[at];
            sum += b.frames.gain ? value * b.frames.gain[at] : value;
        }
    return sum;
}

/* Finds the mean of every sixteenth row of each binned frame, as on the CPU. */
template <typename PIXEL> __global__ void __launch_bounds__(MEAN_THREADS) find_means(binning b, float *means) {
    const PIXEL *frame = (const PIXEL *)b.frames.pixels + (size_t)blockIdx.x * b.frames.nx * b.frames.ny;
    const int rows = (b.ny - ROW_STEP / 2 + ROW_STEP - 1) / ROW_STEP;
    double sum = 0;
    for (int i = threadIdx.x; i < rows * b.nx; i += MEAN_THREADS)
        sum += (double)binned_at(b, frame, i % b.nx, ROW_STEP / 2 + i / b.nx * ROW_STEP);
    sum = block_sum(sum);
    if (threadIdx.x == 0) means[blockIdx.x] = (float)(sum / ((double)rows * b.nx));
}

/* Bins one frame, without its mean, under the taper. to: [ny][nx + 2]. */
template <typename PIXEL>
__global__ void bin_frame(binning b, int frame, const float *means, const float *taper_x, const float *taper_y,
                          float *to) {
    const int x = blockIdx.x * THREADS + threadIdx.x, y = blockIdx.y;
    if (x >= b.nx) return;
    const PIXEL *pixels = (const PIXEL *)b.frames.pixels + (size_t)frame * b.frames.nx * b.frames.ny;
    const float value = binned_at(b, pixels, x, y) - means[frame];
    to[(size_t)y * (b.nx + 2) + x] = value * taper_x[x] * taper_y[y];
}

/* Copies the frequencies of the window. */
__global__ void crop(const float2 *from, int from_nx, int from_ny, int nx, int ny, float2 *to) {
    const int columns = nx / 2 + 1, i = blockIdx.x * THREADS + threadIdx.x, y = i / columns, x = i - y * columns;
    if (y >= ny) return;
    const int row = y <= ny / 2 ? y : y - ny + from_ny;
    to[i] = from[(size_t)row * (from_nx / 2 + 1) + x];
}

template <typename PIXEL> void launch_means(const binning &b, float *means, cudaStream_t stream) {
    find_means<PIXEL><<<b.frames.count, MEAN_THREADS, 0, stream>>>(b, means);
}

template <typename PIXEL> void launch_bin(const motion_align_cuda *a, const binning &b, int frame) {
    dim3 blocks(blocks_for(b.nx, THREADS), b.ny);
    bin_frame<PIXEL><<<blocks, THREADS, 0, a->motion->stream>>>(b, frame, a->means, a->taper_x, a->taper_y, a->binned);
}

/* Sums the shifted spectra of the frames of a group. */
__global__ void add_group(align_set whole, int first, int last, float2 *to) {
    const int count = whole.band.ny * (whole.band.nx / 2 + 1), i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const float2 f = align_frequency(whole.band, i);
    float2 sum = {0, 0};
    for (int j = first; j < last; j++) {
        const float2 t = align_shifted(whole.spectra[(size_t)j * count + i], f, whole.shifts[j]);
        sum.x += t.x, sum.y += t.y;
    }
    to[i] = sum;
}

struct cutting {
    int window_x, window_y, nx, ny, groups;
    const int2 *starts; /* [patches] */
    const float *taper_x, *taper_y;
    const float *images; /* [groups][window_y][window_x] */
    float *patches;      /* [patches][groups][ny][nx] */
};

/* Cuts one patch out of one group's image, without its mean, under the taper. */
__global__ void __launch_bounds__(THREADS) cut_patches(cutting c) {
    __shared__ float mean;
    const int group = blockIdx.x, patch = blockIdx.y, pixels = c.nx * c.ny;
    const int2 start = c.starts[patch];
    const float *image = c.images + ((size_t)group * c.window_y + start.y) * c.window_x + start.x;
    float *to = c.patches + ((size_t)patch * c.groups + group) * pixels;
    const float scale = 1 / ((float)c.window_x * (float)c.window_y);
    double sum = 0;
    for (int i = threadIdx.x; i < pixels; i += THREADS)
        sum += (double)image[(size_t)(i / c.nx) * c.window_x + i % c.nx];
    sum = block_sum(sum);
    if (threadIdx.x == 0) mean = (float)(sum / pixels);
    __syncthreads();
    for (int i = threadIdx.x; i < pixels; i += THREADS) {
        const int y = i / c.nx, x = i % c.nx;
        to[i] = (image[(size_t)y * c.window_x + x] - mean) * c.taper_y[y] * scale * c.taper_x[x];
    }
}

} // namespace

enum status motion_align_cuda_spectra(void *state, struct err *err) {
    struct motion_align_cuda *a = (struct motion_align_cuda *)state;
    const struct motion_align_plan *plan = &a->plan;
    const binning b = {a->motion->frames, plan->bin, plan->binned_x, plan->binned_y, plan->first_x, plan->first_y};
    cudaStream_t stream = a->motion->stream;
    size_t count = align_count(&a->whole.band);
    MOTION_TYPED(b.frames.type, launch_means, b, a->means, stream);
    for (int frame = 0; frame < b.frames.count; frame++) {
        MOTION_TYPED(b.frames.type, launch_bin, a, b, frame);
        CUDA_TRY(cudaGetLastError(), err, "binning frames");
        CUFFT_TRY(cufftExecR2C(a->binned_plan, a->binned, (cufftComplex *)a->binned), err, "transforming frames");
        crop<<<blocks_for(count, THREADS), THREADS, 0, stream>>>((const float2 *)a->binned, b.nx, b.ny, plan->window_x,
                                                                 plan->window_y, a->whole.spectra + frame * count);
    }
    CUDA_TRY(cudaGetLastError(), err, "transforming frames");
    return STATUS_OK;
}

enum status motion_align_cuda_cut(void *state, const float *x, const float *y, struct err *err) {
    struct motion_align_cuda *a = (struct motion_align_cuda *)state;
    const struct motion_align_plan *plan = &a->plan;
    cudaStream_t stream = a->motion->stream;
    size_t count = align_count(&a->whole.band);
    TRY(motion_align_cuda_put_shifts(a, &a->whole, x, y, err));
    for (int group = 0; group < plan->groups; group++)
        add_group<<<blocks_for(count, THREADS), THREADS, 0, stream>>>(
            a->whole, motion_group_start(plan->task.frames, plan->groups, group),
            motion_group_start(plan->task.frames, plan->groups, group + 1), a->group_sums + group * count);
    CUDA_TRY(cudaGetLastError(), err, "summing groups of frames");
    CUFFT_TRY(cufftExecC2R(a->group_plan, a->group_sums, a->group_images), err, "transforming groups of frames");
    const cutting c = {plan->window_x,  plan->window_y,   plan->patch_x,    plan->patch_y,   plan->groups,
                       a->patch_starts, a->patch_taper_x, a->patch_taper_y, a->group_images, a->patch_images};
    cut_patches<<<dim3(plan->groups, a->patches.members), THREADS, 0, stream>>>(c);
    CUDA_TRY(cudaGetLastError(), err, "cutting patches");
    CUFFT_TRY(cufftExecR2C(a->patch_plan, a->patch_images, a->patches.spectra), err, "transforming patches");
    return STATUS_OK;
}
