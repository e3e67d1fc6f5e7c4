/* Back-projection: sums the contributions of all particles to a slice pixel by pixel in registers, then scatters them
 * as integers (alignment.h). A warp takes 128 pixels of a piece. */
#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.cuh"
#include "kernels/alignment/cuda/back_project.cuh"
#include "kernels/alignment/cuda/shift.cuh"

namespace {

using back_project::entry;
using back_project::list;
using back_project::piece;

enum { THREADS = 256, WARPS = THREADS / 32, EACH = 4, CHUNK = 32 * EACH, FILL_THREADS = 256 };
const unsigned ALL = 0xffffffffu, NOWHERE = 0xffffffffu;

struct job {
    pixels_cuda pixels;
    particles_cuda particles;
    const float *factor;
    list of;
};

/* The pixels of one lane. */
struct gathered {
    int kx[EACH], ky[EACH];
    float re[EACH], im[EACH], weight[EACH];
};

/* Contributions of a warp's pixels, to be scattered: index of the lowest corner (or NOWHERE) and the fractions beyond
 * it; re, im, weight in units. */
struct placed {
    float4 place[32], value[32];
};

/* Sums consecutive entries of one particle; returns the index of the next one. */
__device__ inline int add_particle(const job &j, const entry *entries, int at, int end, int first, float weight_most,
                                   gathered &g) {
    int particle = entries[at].particle, lane = threadIdx.x & 31;
    float2 image[EACH];
    float ctf[EACH], noise[EACH], re[EACH] = {0}, im[EACH] = {0}, sum = 0, factor = j.factor[particle];
    size_t row = (size_t)particle * j.particles.stride;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int p = first + 32 * i + lane;
        bool inside = p < j.pixels.count;
        image[i] = inside ? ((const float2 *)j.particles.unmasked)[row + p] : make_float2(0, 0);
        ctf[i] = inside ? j.particles.ctf[row + p] : 0;
        noise[i] = inside ? fminf(j.particles.weight[row + p], weight_most) : 0;
    }
    do {
        entry e = entries[at++];
        sum += e.weight;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            float2 phase = shift_phase((uint32_t)g.kx[i] * e.x + (uint32_t)g.ky[i] * e.y);
            re[i] += e.weight * phase.x;
            im[i] += e.weight * phase.y;
        }
    } while (at < end && entries[at].particle == particle);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        float scale = ctf[i] * noise[i];
        g.weight[i] += sum * ctf[i] * scale;
        scale *= factor;
        g.re[i] += scale * (image[i].x * re[i] - image[i].y * im[i]);
        g.im[i] += scale * (image[i].x * im[i] + image[i].y * re[i]);
    }
    return at;
}

/* Sums of a warp over the entries before the staged ones. */
struct sums_before {
    float re[EACH][32], im[EACH][32], weight[EACH][32];
};

/* A sum with too many terms for single precision is a sum of sums. */
__device__ inline void add_before(gathered &g, sums_before &before, bool first, bool last) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (!first) {
            g.re[i] += before.re[i][lane];
            g.im[i] += before.im[i][lane];
            g.weight[i] += before.weight[i][lane];
        }
        if (last) continue;
        before.re[i][lane] = g.re[i], before.im[i][lane] = g.im[i], before.weight[i][lane] = g.weight[i];
        g.re[i] = g.im[i] = g.weight[i] = 0;
    }
}

/* Sums all entries of a piece. staged: [32] of the warp. */
__device__ inline void gather(const job &j, const piece &p, int first, float weight_most, entry *staged,
                              sums_before &before, gathered &g) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int pixel = first + 32 * i + lane;
        bool inside = pixel < j.pixels.count;
        g.kx[i] = inside ? j.pixels.kx[pixel] : 0;
        g.ky[i] = inside ? j.pixels.ky[pixel] : 0;
        g.re[i] = g.im[i] = g.weight[i] = 0;
    }
    for (int begin = 0; begin < p.length; begin += 32) {
        int count = p.length - begin < 32 ? p.length - begin : 32;
        __syncwarp();
        if (lane < count) staged[lane] = j.of.entries[(size_t)p.first + begin + lane];
        __syncwarp();
        for (int at = 0; at < count;)
            at = add_particle(j, staged, at, count, first, weight_most, g);
        if (p.length > 32) add_before(g, before, begin == 0, begin + 32 >= p.length);
    }
}

/* Places a pixel by the rules of kernels/reconstruct. */
template <bool IS_3D>
__device__ inline void place(const sums_cuda &s, const float m[6], int kx, int ky, bool inside, float re, float im,
                             float weight, float4 *ret_place, float4 *ret_value) {
    float u = (float)kx, v = (float)ky;
    float x = m[0] * u + m[3] * v, y = m[1] * u + m[4] * v, z = IS_3D ? m[2] * u + m[5] * v : 0;
    float turn = x < 0 ? -1.0f : 1.0f;
    x *= turn, y *= turn, z *= turn;
    int gx = (int)x, gy = (int)(y + (float)s.reach), gz = IS_3D ? (int)(z + (float)s.reach) : 0;
    unsigned index = NOWHERE;
    if (inside && kx * kx + ky * ky <= s.r_max * s.r_max)
        index = ((unsigned)gz * (unsigned)s.ny + (unsigned)gy) * (unsigned)s.nx + (unsigned)gx;
    *ret_place = make_float4(__uint_as_float(index), x - (float)gx, y - (float)(gy - s.reach),
                             IS_3D ? z - (float)(gz - s.reach) : 0);
    float scale = (float)s.data_scale;
    *ret_value = make_float4(scale * re, turn * scale * im, (float)s.weight_scale * weight, 0);
}

/* Scatters pixels. Four lanes serve a corner, of which three add re, im and weight: these lie in one sector of memory.
 * A pixel takes half a warp in 2D, a whole warp in 3D. */
template <bool IS_3D> __device__ inline void scatter(const sums_cuda &s, int64_t *voxels, const placed &w) {
    const int lane = threadIdx.x & 31, part = lane & 3, corner = lane >> 2 & (IS_3D ? 7 : 3);
    const int x = corner & 1, y = corner >> 1 & 1, z = corner >> 2, half = IS_3D ? 0 : lane >> 4;
    const float sx = x ? 1.0f : -1.0f, sy = y ? 1.0f : -1.0f, sz = z ? 1.0f : -1.0f;
    const float ox = x ? 0.0f : 1.0f, oy = y ? 0.0f : 1.0f, oz = z ? 0.0f : 1.0f;
    unsigned long long *to = (unsigned long long *)voxels + (((size_t)z * s.ny + y) * s.nx + x) * 4 + part;
#pragma unroll 4
    for (int q = half; q < 32; q += IS_3D ? 1 : 2) {
        float4 at = w.place[q];
        unsigned index = __float_as_uint(at.x);
        float share = (ox + sx * at.y) * (oy + sy * at.z);
        if (IS_3D) share *= oz + sz * at.w;
        long long value = __float2ll_rn(share * ((const float *)&w.value[q])[part]);
        if (index != NOWHERE && part < 3) atomicAdd(to + (size_t)index * 4, (unsigned long long)value);
    }
}

template <bool IS_3D>
__global__ void __launch_bounds__(THREADS, 3)
    back_project_pieces(const __grid_constant__ sums_cuda sums, const __grid_constant__ job job) {
    __shared__ entry staged[WARPS][32];
    __shared__ placed warps[WARPS];
    __shared__ sums_before before[WARPS];
    int warp = (int)threadIdx.x >> 5, lane = threadIdx.x & 31, count = job.pixels.count;
    unsigned chunks = (unsigned)(count + CHUNK - 1) / CHUNK, pieces = *job.of.piece_count;
    unsigned long long items = (unsigned long long)pieces * chunks;
    for (unsigned long long item = (unsigned long long)blockIdx.x * WARPS + warp; item < items;
         item += (unsigned long long)gridDim.x * WARPS) {
        /* Chunks are shells: all pieces then add to the same part of the grid at a time, and that part stays in the
         * cache. */
        piece p = job.of.pieces[item % pieces];
        int first = (int)(item / pieces) * CHUNK;
        gathered g;
        gather(job, p, first, sums.weight_most, staged[warp], before[warp], g);
        int64_t *voxels = sums.voxels[p.reference];
        placed &w = warps[warp];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            __syncwarp();
            place<IS_3D>(sums, p.plane, g.kx[i], g.ky[i], first + 32 * i + lane < count, g.re[i], g.im[i], g.weight[i],
                         &w.place[lane], &w.value[lane]);
            __syncwarp();
            scatter<IS_3D>(sums, voxels, w);
        }
    }
}

__device__ inline void add_fill(sums_fill *fill, uint64_t *to, double units) {
    const double most = 4611686018427387904.0; /* 2^62 */
    if (!(units < most)) {
        fill->overflow = 1;
        return;
    }
    unsigned long long more = (unsigned long long)units + 1, before = atomicAdd((unsigned long long *)to, more);
    if ((double)before + (double)more > most) fill->overflow = 1;
}

/* Adds up the most that each particle may add to a voxel; NaN if any value is NaN. One particle per block. */
__global__ void __launch_bounds__(FILL_THREADS)
    fill(const __grid_constant__ sums_cuda sums, const __grid_constant__ job job) {
    __shared__ float all[2][FILL_THREADS / 32];
    size_t row = (size_t)blockIdx.x * job.particles.stride;
    float data = 0, weight = 0;
    bool bad = false;
    for (int p = threadIdx.x; p < job.pixels.count; p += FILL_THREADS) {
        float2 x = ((const float2 *)job.particles.unmasked)[row + p];
        float c = job.particles.ctf[row + p], w = fminf(job.particles.weight[row + p], sums.weight_most);
        float size = fabsf(c * w) * hypotf(x.x, x.y), square = c * c * w;
        bad = bad || !(size >= 0) || !(square >= 0);
        data = fmaxf(data, size), weight = fmaxf(weight, square);
    }
    for (int step = 16; step > 0; step /= 2) {
        data = fmaxf(data, __shfl_xor_sync(ALL, data, step));
        weight = fmaxf(weight, __shfl_xor_sync(ALL, weight, step));
    }
    if ((threadIdx.x & 31) == 0) all[0][threadIdx.x >> 5] = data, all[1][threadIdx.x >> 5] = weight;
    bad = __syncthreads_or(bad);
    if (threadIdx.x > 0) return;
    for (int i = 1; i < FILL_THREADS / 32; i++)
        data = fmaxf(data, all[0][i]), weight = fmaxf(weight, all[1][i]);
    if (bad) sums.overflow->overflow = 1;
    add_fill(sums.overflow, &sums.overflow->data,
             (double)data * fabs((double)job.factor[blockIdx.x]) * sums.data_scale);
    add_fill(sums.overflow, &sums.overflow->weight, (double)weight * sums.weight_scale);
}

/* Converts two of the four words of a voxel per thread: re and im, or weight and 0. */
__global__ void to_double(longlong2 *values, size_t count, double data_unit, double weight_unit) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    longlong2 v = values[i];
    double unit = i % 2 == 0 ? data_unit : weight_unit;
    ((double2 *)values)[i] = make_double2((double)v.x * unit, (double)v.y * unit);
}

/* A row of the smaller grid is part of a row of the larger one. */
__global__ void add_to_doubles(sums_cuda sums, sums_to_cuda to, double data_unit, double weight_unit) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, row = i / sums.nx, more = (size_t)(to.reach - sums.reach);
    if (i >= (size_t)sums.nx * sums.ny * sums.nz) return;
    size_t y = row % sums.ny + more, z = sums.dimensions == 3 ? row / sums.ny + more : 0;
    size_t at = (z * (2 * to.reach + 1) + y) * (to.reach + 1) + i % sums.nx;
    const longlong2 *from = (const longlong2 *)sums.voxels[blockIdx.y] + 2 * i;
    double2 *sum = (double2 *)to.voxels[blockIdx.y] + 2 * at;
    longlong2 data = from[0], weight = from[1];
    sum[0] = make_double2(sum[0].x + (double)data.x * data_unit, sum[0].y + (double)data.y * data_unit);
    sum[1].x += (double)weight.x * weight_unit;
}

template <bool IS_3D> enum status launch(const sums_cuda *sums, const job &job, cudaStream_t stream, err *err) {
    int device = 0, processors = 0, blocks = 0;
    CUDA_TRY(cudaGetDevice(&device), err, "asking which it is");
    CUDA_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), err, "asking for its size");
    CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, back_project_pieces<IS_3D>, THREADS, 0), err,
             "asking for its size");
    back_project_pieces<IS_3D><<<processors *(blocks > 0 ? blocks : 1), THREADS, 0, stream>>>(*sums, job);
    CUDA_TRY(cudaGetLastError(), err, "adding up images");
    return STATUS_OK;
}

} // namespace

extern "C" enum status alignment_cuda_back_project(const struct references_cuda *references,
                                                   const struct sampling_cuda *sampling,
                                                   const struct particles_cuda *particles, const float *factor,
                                                   const struct contribution_cuda *contributions, const uint32_t *begin,
                                                   uint32_t count, int near, void *scratch,
                                                   const struct sums_cuda *sums, void *stream, struct err *err) {
    if (count == 0) return STATUS_OK;
    job job = {references->pixels, *particles, factor, {}};
    fill<<<particles->count, FILL_THREADS, 0, (cudaStream_t)stream>>>(*sums, job);
    CUDA_TRY(cudaGetLastError(), err, "measuring images");
    if (near && alignment_cuda_back_project_can_be_near(sampling, sums))
        return alignment_cuda_back_project_near(references, sampling, particles, factor, contributions, begin, sums,
                                                stream, err);
    TRY(alignment_cuda_back_project_list(sampling, references->pixels.box, contributions, count, scratch, &job.of,
                                         stream, err));
    if (sums->dimensions == 3) return launch<true>(sums, job, (cudaStream_t)stream, err);
    return launch<false>(sums, job, (cudaStream_t)stream, err);
}

extern "C" enum status alignment_cuda_sums_to_double(const struct sums_cuda *sums, int reference, void *stream,
                                                     struct err *err) {
    size_t count = 2 * (size_t)sums->nx * (size_t)sums->ny * (size_t)sums->nz;
    unsigned blocks = (unsigned)((count + THREADS - 1) / THREADS);
    to_double<<<blocks, THREADS, 0, (cudaStream_t)stream>>>((longlong2 *)sums->voxels[reference], count,
                                                            1 / sums->data_scale, 1 / sums->weight_scale);
    CUDA_TRY(cudaGetLastError(), err, "reading sums");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_sums_add_to(const struct sums_cuda *sums, int references,
                                                  const struct sums_to_cuda *to, void *stream, struct err *err) {
    size_t count = (size_t)sums->nx * sums->ny * sums->nz;
    dim3 blocks((unsigned)((count + THREADS - 1) / THREADS), (unsigned)references);
    add_to_doubles<<<blocks, THREADS, 0, (cudaStream_t)stream>>>(*sums, *to, 1 / sums->data_scale,
                                                                 1 / sums->weight_scale);
    CUDA_TRY(cudaGetLastError(), err, "reading sums");
    return STATUS_OK;
}

extern "C" void alignment_cuda_sums_scale(const float *sigma2, int optics, int shells, double particles,
                                          struct sums_cuda *sums) {
    const double bits = 62, deviations = 64, ctf2 = 4, range = 16777216;
    double least = 0, greatest = 0;
    for (int i = 0; i < optics * shells; i++) {
        int shell = i % shells;
        if (shell < 1 || shell > sums->r_max || !(sigma2[i] > 0) || isinf(sigma2[i])) continue;
        if (least == 0 || sigma2[i] < least) least = sigma2[i];
        if (sigma2[i] > greatest) greatest = sigma2[i];
    }
    if (least == 0) least = greatest = 1;
    double weight = 1 / fmax(least, greatest / range);
    sums->weight_most = (float)weight;
    sums->data_scale = exp2(floor(bits - log2(fmax(particles, 1) * deviations * sqrt(weight))));
    sums->weight_scale = exp2(floor(bits - log2(fmax(particles, 1) * ctf2 * weight)));
}
