/* Computes residuals Σ w |c P − X_t|², expanded so that each slice and each image is read once:
 *   Σ w |X|² − 2 c Σ Re(P conj Σ_t w X_t) + c² Σ w |P|².
 * A warp takes 128 pixels of a particle through all its poses in order; then shells are summed. */
#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.cuh"
#include "kernels/alignment/cuda/shift.cuh"

namespace {

enum { THREADS = 256, WARPS = THREADS / 32, EACH = 4, CHUNK = 32 * EACH };
static_assert((int)CHUNK == (int)FINE_SLICE_STEP, "rows of slices hold what the last chunk reads");

struct job {
    references_cuda references;
    sampling_cuda sampling;
    particles_cuda particles;
    const contribution_cuda *contributions;
    const uint32_t *begin;
    const best_cuda *best;
    float *values; /* [particles][stride]: residuals per pixel */
    size_t slice_row;
};

/* A pose in the form that a warp uses; shift in turns (shift.cuh). */
struct pose {
    float plane[6];
    uint32_t slice, x, y;
    int reference;
    float weight;
};

/* The pixels of one lane. */
struct pixels {
    int kx[EACH], ky[EACH];
    float2 image[EACH];
    float cross[EACH], power[EACH]; /* sums over the staged poses */
};

__device__ inline void place_pose(const job &j, const pose_cuda &of, pose *ret_pose) {
    slice_place at = fine_place(j.sampling, of);
    child_plane(j.sampling, at, GRID_PAD, ret_pose->plane);
    ret_pose->reference = at.reference;
    ret_pose->x = shift_turns(j.sampling.child_shifts[2 * of.shift], j.references.pixels.box);
    ret_pose->y = shift_turns(j.sampling.child_shifts[2 * of.shift + 1], j.references.pixels.box);
}

/* Source of slices. */
enum source { STORED, QUADS, VALUES };

/* Returns the number of a stored slice. For other slices it is enough to distinguish consecutive ones: returns how many
 * slices begin up to this lane's pose. All lanes call this. */
template <source FROM> __device__ inline uint32_t slice_number(const job &j, const pose_cuda &of, int lane) {
    if (FROM == STORED) return of.row * (uint32_t)sampling_rotations(j.sampling) + of.rotation;
    uint32_t row = __shfl_up_sync(0xffffffffu, of.row, 1);
    int rotation = __shfl_up_sync(0xffffffffu, (int)of.rotation, 1);
    unsigned begins = __ballot_sync(0xffffffffu, row != of.row || rotation != of.rotation);
    return (uint32_t)__popc(begins & ((2u << lane) - 2)); /* lane 0 has no pose before it */
}

/* Returns pixel `at` of a pose's slice, of frequency kx, ky. */
template <source FROM> __device__ inline float2 slice_value(const job &j, const pose &of, int at, int kx, int ky) {
    if (FROM == STORED) return __ldg((const float2 *)j.references.slices + (size_t)of.slice * j.slice_row + at);
    const grid_cuda &grid = j.references.grids[of.reference];
    const float *m = of.plane;
    if (kx * kx + ky * ky > grid.r_max * grid.r_max) return make_float2(0, 0);
    float u = (float)kx, v = (float)ky;
    return grid_value<FROM == QUADS>(grid, grid_coordinate(m[0], m[3], u, v), grid_coordinate(m[1], m[4], u, v),
                                     grid_coordinate(m[2], m[5], u, v));
}

/* Sums over the staged poses of one slice; returns the index of the next pose. pixel: the lane's first pixel. */
template <source FROM>
__device__ inline int add_slice(const job &j, const pose *poses, int at, int end, int pixel, pixels &p) {
    const pose &first = poses[at];
    float2 slice[EACH];
    if (FROM == STORED)
#pragma unroll
        for (int i = 0; i < EACH; i++)
            slice[i] = slice_value<FROM>(j, first, pixel + 32 * i, p.kx[i], p.ky[i]);
    float re[EACH] = {0}, im[EACH] = {0}, sum = 0;
    do {
        uint32_t x = poses[at].x, y = poses[at].y;
        float weight = poses[at++].weight;
        sum += weight;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            float2 phase = shift_phase((uint32_t)p.kx[i] * x + (uint32_t)p.ky[i] * y);
            re[i] = fmaf(weight, phase.x, re[i]);
            im[i] = fmaf(weight, phase.y, im[i]);
        }
    } while (at < end && poses[at].slice == first.slice);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        float2 s = FROM == STORED ? slice[i] : slice_value<FROM>(j, first, pixel + 32 * i, p.kx[i], p.ky[i]);
        float2 x = p.image[i];
        float x_re = fmaf(x.x, re[i], -(x.y * im[i])), x_im = fmaf(x.x, im[i], x.y * re[i]);
        p.cross[i] += fmaf(s.x, x_re, s.y * x_im);
        p.power[i] = fmaf(sum, fmaf(s.x, s.x, s.y * s.y), p.power[i]);
    }
    return at;
}

/* Processes one chunk of one particle per warp. */
template <source FROM>
__global__ void __launch_bounds__(THREADS, 3) residuals_of_pixels(const __grid_constant__ job job) {
    __shared__ pose staged[WARPS][32];
    int lane = threadIdx.x & 31, n = job.references.pixels.count, chunks = (n + CHUNK - 1) / CHUNK;
    long long item = (long long)blockIdx.x * WARPS + (threadIdx.x >> 5);
    if (item >= (long long)job.particles.count * chunks) return;
    pose *poses = staged[threadIdx.x >> 5];
    int particle = (int)(item / chunks), first = (int)(item % chunks) * CHUNK;
    size_t row = (size_t)particle * job.particles.stride;
    pixels p;
    double cross[EACH] = {0}, power[EACH] = {0};
    for (int i = 0; i < EACH; i++) {
        int pixel = first + 32 * i + lane;
        bool inside = pixel < n;
        p.kx[i] = inside ? job.references.pixels.kx[pixel] : 0;
        p.ky[i] = inside ? job.references.pixels.ky[pixel] : 0;
        p.image[i] = inside ? ((const float2 *)job.particles.masked)[row + pixel] : make_float2(0, 0);
    }
    /* References are empty beyond fine_pixels. */
    uint32_t end = first < job.references.fine_pixels ? job.begin[particle + 1] : job.begin[particle];
    for (uint32_t from = job.begin[particle]; from < end; from += 32) {
        int count = end - from < 32 ? (int)(end - from) : 32;
        __syncwarp();
        contribution_cuda c = {};
        if (lane < count) c = job.contributions[from + lane];
        uint32_t slice = slice_number<FROM>(job, c.pose, lane);
        if (lane < count) {
            place_pose(job, c.pose, &poses[lane]);
            poses[lane].slice = slice;
            poses[lane].weight = c.weight;
        }
        __syncwarp();
        for (int i = 0; i < EACH; i++)
            p.cross[i] = p.power[i] = 0;
        for (int at = 0; at < count;)
            at = add_slice<FROM>(job, poses, at, count, first + lane, p);
        for (int i = 0; i < EACH; i++)
            cross[i] += (double)p.cross[i], power[i] += (double)p.power[i];
    }
    double weight = job.best[particle].weight_sum;
    for (int i = 0; i < EACH; i++) {
        int pixel = first + 32 * i + lane;
        if (pixel >= n) continue;
        double c = (double)job.particles.ctf[row + pixel], re = (double)p.image[i].x, im = (double)p.image[i].y;
        job.values[row + pixel] = (float)fma(weight, fma(re, re, im * im), fma(c * c, power[i], -2 * c * cross[i]));
    }
}

/* Averages the residuals over shells: one particle per block, one shell per warp. begins: [shells + 1]. */
__global__ void __launch_bounds__(THREADS) mean_of_shells(const __grid_constant__ job job, int shells, float *power) {
    extern __shared__ int begins[];
    const short *shell = job.references.shell;
    int n = job.references.pixels.count, lane = threadIdx.x & 31, last = shell[n - 1];
    size_t row = (size_t)blockIdx.x * job.particles.stride, out = (size_t)blockIdx.x * shells;
    double weight = job.best[blockIdx.x].weight_sum;
    bool none = job.begin[blockIdx.x] == job.begin[blockIdx.x + 1] || !(weight > 0);
    for (int i = threadIdx.x; i < n; i += THREADS)
        if (i == 0 || shell[i] != shell[i - 1]) begins[shell[i]] = i;
    if (threadIdx.x == 0) begins[last + 1] = n;
    __syncthreads();
    for (int s = (int)threadIdx.x >> 5; s < shells; s += WARPS) {
        if (s == 0 || s > last || none) {
            if (lane == 0) power[out + s] = job.particles.power[out + s];
            continue;
        }
        double sum = 0;
        for (int i = begins[s] + lane; i < begins[s + 1]; i += 32)
            sum += (double)job.values[row + i];
        for (int step = 16; step > 0; step /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane == 0) power[out + s] = (float)(sum / weight / (2.0 * (begins[s + 1] - begins[s])));
    }
}

__device__ double sum_of_block(double value, double *parts) {
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = value;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < WARPS; w++)
        sum += parts[w];
    return sum;
}

/* Computes the residual at the best pose, one particle per block. */
__global__ void __launch_bounds__(THREADS)
    residual_at_best(const __grid_constant__ job job, const int *known_shell, double *residuals) {
    __shared__ pose best;
    __shared__ double parts[WARPS];
    size_t row = (size_t)blockIdx.x * job.particles.stride;
    int known = known_shell[blockIdx.x];
    if (threadIdx.x == 0) place_pose(job, job.best[blockIdx.x].pose, &best);
    __syncthreads();
    double below = 0, above = 0;
    for (int i = threadIdx.x; i < job.references.pixels.count; i += THREADS) {
        int kx = job.references.pixels.kx[i], ky = job.references.pixels.ky[i];
        float2 x = ((const float2 *)job.particles.masked)[row + i];
        float2 phase = shift_phase((uint32_t)kx * best.x + (uint32_t)ky * best.y);
        float2 s = grid_sample(job.references.grids[best.reference], best.plane, kx, ky);
        float c = job.particles.ctf[row + i];
        double re = (double)(x.x * phase.x - x.y * phase.y - c * s.x);
        double im = (double)(x.x * phase.y + x.y * phase.x - c * s.y);
        (job.references.shell[i] <= known ? below : above) += re * re + im * im;
    }
    below = sum_of_block(below, parts);
    above = sum_of_block(above, parts);
    if (threadIdx.x == 0) residuals[2 * blockIdx.x] = below, residuals[2 * blockIdx.x + 1] = below + above;
}

} // namespace

extern "C" enum status
alignment_cuda_residuals(const struct references_cuda *references, const struct sampling_cuda *sampling,
                         const struct particles_cuda *particles, const struct contribution_cuda *contributions,
                         const uint32_t *begin, const struct best_cuda *best, int shells, const int *known_shell,
                         void *scratch, float *ret_power, double *ret_residuals, void *stream, struct err *err) {
    cudaStream_t queue = (cudaStream_t)stream;
    job job = {*references, *sampling, *particles,       contributions,
               begin,       best,      (float *)scratch, alignment_cuda_fine_slice_row(references)};
    if (particles->count < 1) return STATUS_OK;
    long long items = (long long)particles->count * ((references->pixels.count + CHUNK - 1) / CHUNK);
    unsigned blocks = (unsigned)((items + WARPS - 1) / WARPS);
    if (references->slices)
        residuals_of_pixels<STORED><<<blocks, THREADS, 0, queue>>>(job);
    else if (references->grids[0].quads)
        residuals_of_pixels<QUADS><<<blocks, THREADS, 0, queue>>>(job);
    else
        residuals_of_pixels<VALUES><<<blocks, THREADS, 0, queue>>>(job);
    CUDA_TRY(cudaGetLastError(), err, "taking residuals");
    size_t bytes = ((size_t)shells + 1) * sizeof(int);
    mean_of_shells<<<particles->count, THREADS, bytes, queue>>>(job, shells, ret_power);
    CUDA_TRY(cudaGetLastError(), err, "summing residuals");
    if (ret_residuals == NULL) return STATUS_OK;
    residual_at_best<<<particles->count, THREADS, 0, queue>>>(job, known_shell, ret_residuals);
    CUDA_TRY(cudaGetLastError(), err, "taking residuals at the best pose");
    return STATUS_OK;
}
