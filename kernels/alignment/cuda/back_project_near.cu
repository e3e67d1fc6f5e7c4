/* Back-projection for local searches, where the slices of a particle lie close together. Contributions near a place of
 * the grid are summed in shared memory before they are added there, which needs several times fewer additions to the
 * grid.
 *
 * A warp takes one pixel of a particle; its lanes take the slices. Voxels around the pixel's place in the mean slice
 * are summed in 32-bit fixed point, so that the order of lanes does not matter: the weights of a particle sum to 1, so
 * that 30 bits hold any of their sums times a phase. Slices that place the pixel further away add to the grid
 * directly. */
#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.cuh"
#include "kernels/alignment/cuda/back_project.cuh"
#include "kernels/alignment/cuda/shift.cuh"

namespace {

enum { THREADS = 256, WARPS = THREADS / 32, EACH = 8, PIXELS = EACH * WARPS, BLOCKS = 3 };
/* POSES, SLICES: of a particle, at a time. EDGE: voxels of a window along an edge. */
enum { POSES = 1024, SLICES = THREADS, EDGE = 8, VOXELS = EDGE * EDGE * EDGE, SHIFTS_MOST = 256 };
const unsigned ALL = 0xffffffffu;
const float ONE = 1073741824.0f; /* 2^30: a weight of 1 */

struct job {
    pixels_cuda pixels;
    sampling_cuda sampling;
    particles_cuda particles;
    const float *factor;
    const contribution_cuda *contributions;
    const uint32_t *begin;
    int shifts;
};

/* Data that a block works on. */
struct alignas(16) stage {
    float weight[POSES];
    uint16_t shift[POSES], starts[POSES + 1]; /* first pose of each slice */
    float plane[6][SLICES], middle[6];        /* of slices of one reference */
    uint32_t turns[2][SHIFTS_MOST];
    int counts[WARPS], slices, end;
};

/* Sums of a warp. A voxel lies at its coordinates modulo EDGE. */
struct window {
    int sums[3][VOXELS];
};

/* A pixel: `data` and `unit` are the size and the phase of c X factor/σ²; weight is c²/σ². */
struct pixel {
    int kx, ky;
    float2 unit;
    float data, weight;
};

/* Place of a pixel in a slice. */
struct point {
    int x, y, z; /* lowest corner */
    float fx, fy, fz, turn;
};

__device__ inline pixel load_pixel(const job &j, const sums_cuda &s, int i) {
    pixel p = {0, 0, make_float2(0, 0), 0, 0};
    if (i >= j.pixels.count) return p;
    size_t row = (size_t)blockIdx.x * j.particles.stride + i;
    float2 x = ((const float2 *)j.particles.unmasked)[row];
    float c = j.particles.ctf[row], noise = fminf(j.particles.weight[row], s.weight_most);
    int kx = j.pixels.kx[i], ky = j.pixels.ky[i];
    if (kx * kx + ky * ky > s.r_max * s.r_max) return p;
    float scale = c * noise * j.factor[blockIdx.x], size = hypotf(x.x, x.y);
    p.kx = kx, p.ky = ky;
    p.weight = c * c * noise;
    p.data = fabsf(scale) * size;
    float sign = size > 0 ? copysignf(1 / size, scale) : 0;
    p.unit = make_float2(sign * x.x, sign * x.y);
    return p;
}

__device__ inline pixel of_lane(const pixel &p, int lane) {
    return pixel{__shfl_sync(ALL, p.kx, lane), __shfl_sync(ALL, p.ky, lane),
                 make_float2(__shfl_sync(ALL, p.unit.x, lane), __shfl_sync(ALL, p.unit.y, lane)),
                 __shfl_sync(ALL, p.data, lane), __shfl_sync(ALL, p.weight, lane)};
}

/* Locates a pixel by the rules of kernels/reconstruct. */
__device__ inline point locate(const sums_cuda &s, const float m[6], const pixel &p) {
    float u = (float)p.kx, v = (float)p.ky;
    float x = m[0] * u + m[3] * v, y = m[1] * u + m[4] * v, z = m[2] * u + m[5] * v;
    float turn = x < 0 ? -1.0f : 1.0f;
    x *= turn, y *= turn, z *= turn;
    point at;
    at.x = (int)x, at.y = (int)(y + (float)s.reach), at.z = (int)(z + (float)s.reach);
    at.fx = x - (float)at.x, at.fy = y - (float)(at.y - s.reach), at.fz = z - (float)(at.z - s.reach);
    at.turn = turn;
    return at;
}

/* Lists poses from .. from + count − 1 and where their slices begin. All threads call this, with four poses each. */
__device__ void list_slices(const job &j, uint32_t from, int count, stage &s) {
    int lane = threadIdx.x & 31, warp = (int)threadIdx.x >> 5, first = 4 * (int)threadIdx.x, begins = 0;
    bool begin[4];
    for (int i = 0; i < 4; i++) {
        int at = first + i;
        begin[i] = false;
        if (at >= count) continue;
        contribution_cuda c = j.contributions[from + at];
        s.weight[at] = c.weight;
        s.shift[at] = c.pose.shift;
        begin[i] = at == 0 || !same_slice(j.contributions[from + at - 1].pose, c.pose);
        begins += begin[i];
    }
    int sum = begins;
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(ALL, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) s.counts[warp] = sum;
    __syncthreads();
    int before = sum - begins, all = 0;
    for (int w = 0; w < WARPS; w++) {
        if (w < warp) before += s.counts[w];
        all += s.counts[w];
    }
    for (int i = 0; i < 4; i++)
        if (begin[i]) s.starts[before++] = (uint16_t)(first + i);
    if (threadIdx.x == 0) s.slices = all, s.starts[all] = (uint16_t)count;
}

/* Lists the planes of slices from `first` on, as many as have one reference, and their weighted mean. All threads call
 * this. Returns the reference. */
__device__ int list_planes(const job &j, uint32_t from, int first, stage &s) {
    int lane = threadIdx.x & 31, index = first + (int)threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) s.end = s.slices < first + SLICES ? s.slices : first + SLICES;
    __syncthreads();
    int reference = fine_place(j.sampling, j.contributions[from + s.starts[first]].pose).reference;
    if (index < s.slices) {
        slice_place place = fine_place(j.sampling, j.contributions[from + s.starts[index]].pose);
        float m[6];
        child_plane(j.sampling, place, GRID_PAD, m);
        for (int i = 0; i < 6; i++)
            s.plane[i][threadIdx.x] = m[i];
        if (place.reference != reference) atomicMin(&s.end, index);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        float sum[7] = {0};
        for (int i = first + lane; i < s.end; i += 32) {
            float weight = 0;
            for (int k = s.starts[i]; k < s.starts[i + 1]; k++)
                weight += s.weight[k];
            for (int k = 0; k < 6; k++)
                sum[k] += weight * s.plane[k][i - first];
            sum[6] += weight;
        }
        for (int k = 0; k < 7; k++)
            for (int step = 16; step > 0; step /= 2)
                sum[k] += __shfl_xor_sync(ALL, sum[k], step);
        if (lane < 6) {
            float mean = 0;
            for (int k = 0; k < 6; k++)
                if (k == lane) mean = sum[k];
            s.middle[lane] = sum[6] > 0 ? mean / sum[6] : s.plane[lane][0];
        }
    }
    __syncthreads();
    return reference;
}

/* Returns the place of a voxel in a window, by its coordinates modulo EDGE. The eight voxels around a point fall into
 * eight banks. */
__device__ inline int slot_of(int x, int y, int z) {
    return (x & 7) | ((y + 2 * z) & 7) << 3 | (z & 7) << 6;
}

__device__ inline void exchange(bool which, int &i, int &j, float &a, float &b) {
    int k = which ? j : i;
    float c = which ? b : a;
    j = which ? i : j, b = which ? a : b;
    i = k, a = c;
}

/* Adds a slice's contributions to the voxels around a point to the window. Each lane takes the eight voxels in an order
 * of its own, so that lanes with the same point do not wait for each other. */
__device__ inline void add_to_window(window &w, const point &at, float re, float im, float weight) {
    int x[2] = {at.x, at.x + 1}, y[2] = {at.y, at.y + 1}, z[2] = {at.z, at.z + 1};
    float fx[2] = {1 - at.fx, at.fx}, fy[2] = {1 - at.fy, at.fy}, fz[2] = {1 - at.fz, at.fz};
    exchange(threadIdx.x & 1, x[0], x[1], fx[0], fx[1]);
    exchange(threadIdx.x & 2, y[0], y[1], fy[0], fy[1]);
    exchange(threadIdx.x & 4, z[0], z[1], fz[0], fz[1]);
#pragma unroll
    for (int corner = 0; corner < 8; corner++) {
        int slot = slot_of(x[corner & 1], y[corner >> 1 & 1], z[corner >> 2]);
        float share = fx[corner & 1] * fy[corner >> 1 & 1] * fz[corner >> 2];
        atomicAdd(&w.sums[0][slot], __float2int_rn(share * re));
        atomicAdd(&w.sums[1][slot], __float2int_rn(share * im));
        atomicAdd(&w.sums[2][slot], __float2int_rn(share * weight));
    }
}

/* Adds the contributions of the lanes in `which` directly to the grid. Four lanes serve a corner; three of them add. */
__device__ inline void add_to_grid(const sums_cuda &s, int64_t *voxels, unsigned which, const point &at, float re,
                                   float im, float weight) {
    const int lane = threadIdx.x & 31, part = lane & 3, x = lane >> 2 & 1, y = lane >> 3 & 1, z = lane >> 4;
    for (; which; which &= which - 1) {
        int from = __ffs((int)which) - 1;
        int ix = __shfl_sync(ALL, at.x, from), iy = __shfl_sync(ALL, at.y, from), iz = __shfl_sync(ALL, at.z, from);
        float fx = __shfl_sync(ALL, at.fx, from), fy = __shfl_sync(ALL, at.fy, from);
        float fz = __shfl_sync(ALL, at.fz, from), a = __shfl_sync(ALL, re, from), b = __shfl_sync(ALL, im, from);
        float c = __shfl_sync(ALL, weight, from);
        float share = (x ? fx : 1 - fx) * (y ? fy : 1 - fy) * (z ? fz : 1 - fz);
        long long value = __float2ll_rn(share * (part == 0 ? a : part == 1 ? b : c));
        size_t voxel = ((size_t)(iz + z) * s.ny + (iy + y)) * s.nx + (ix + x);
        if (part < 3) atomicAdd((unsigned long long *)voxels + voxel * 4 + part, (unsigned long long)value);
    }
}

/* Adds the window to the grid and clears it. A sum times a phase is never larger than the sum of weights, so that a
 * voxel without weight is empty. low: lowest voxel of the window. touched: [VOXELS]. */
__device__ inline void flush(const sums_cuda &s, int64_t *voxels, window &w, uint16_t *touched, int low_x, int low_y,
                             int low_z, float data, float weight) {
    const int lane = threadIdx.x & 31, part = lane & 3;
    int count = 0;
    __syncwarp();
    for (int slot = lane; slot < VOXELS; slot += 32) {
        bool any = w.sums[2][slot] != 0;
        unsigned mask = __ballot_sync(ALL, any);
        if (any) touched[count + __popc(mask & ((1u << lane) - 1))] = (uint16_t)slot;
        count += __popc(mask);
    }
    __syncwarp();
    float scale = part < 2 ? data : weight;
    for (int i = lane >> 2; i < count; i += 8) {
        int slot = touched[i];
        if (part == 3) continue;
        int dz = slot >> 6, dy = (slot >> 3) - 2 * dz;
        int x = low_x + ((slot - low_x) & 7), y = low_y + ((dy - low_y) & 7), z = low_z + ((dz - low_z) & 7);
        long long value = __float2ll_rn((float)w.sums[part][slot] * scale);
        w.sums[part][slot] = 0;
        size_t voxel = ((size_t)z * s.ny + y) * s.nx + x;
        atomicAdd((unsigned long long *)voxels + voxel * 4 + part, (unsigned long long)value);
    }
    __syncwarp();
}

/* Adds the contributions of slices first .. s.end − 1 to one pixel; one warp. table: [shifts] phases, later the list of
 * voxels. */
__device__ void add_pixel(const sums_cuda &sums, const job &j, const stage &s, int first, const pixel &p,
                          int64_t *voxels, window &w, float2 *table) {
    const int lane = threadIdx.x & 31;
    const float data = p.data * (float)sums.data_scale, weight = p.weight * (float)sums.weight_scale;
    for (int t = lane; t < j.shifts; t += 32) {
        float2 phase = shift_phase((uint32_t)p.kx * s.turns[0][t] + (uint32_t)p.ky * s.turns[1][t]);
        table[t] = make_float2(p.unit.x * phase.x - p.unit.y * phase.y, p.unit.x * phase.y + p.unit.y * phase.x);
    }
    point middle = locate(sums, s.middle, p);
    int low_x = middle.x - (EDGE / 2 - 1), low_y = middle.y - (EDGE / 2 - 1), low_z = middle.z - (EDGE / 2 - 1);
    __syncwarp();
    for (int begin = first; begin < s.end; begin += 32) {
        int slice = begin + lane;
        float re = 0, im = 0, sum = 0, m[6] = {0};
        bool mine = slice < s.end;
        if (mine) {
            for (int k = s.starts[slice]; k < s.starts[slice + 1]; k++) {
                float2 phase = table[s.shift[k]];
                float of = s.weight[k];
                re += of * phase.x, im += of * phase.y, sum += of;
            }
            for (int i = 0; i < 6; i++)
                m[i] = s.plane[i][slice - first];
        }
        point at = locate(sums, m, p);
        im *= at.turn;
        bool inside = (unsigned)(at.x - low_x) < EDGE - 1 && (unsigned)(at.y - low_y) < EDGE - 1 &&
                      (unsigned)(at.z - low_z) < EDGE - 1;
        if (mine && inside) add_to_window(w, at, re * ONE, im * ONE, sum * ONE);
        unsigned outside = __ballot_sync(ALL, mine && !inside);
        if (outside) add_to_grid(sums, voxels, outside, at, re * data, im * data, sum * weight);
    }
    flush(sums, voxels, w, (uint16_t *)table, low_x, low_y, low_z, data / ONE, weight / ONE);
}

/* Returns the bytes of a warp's table, which holds phases, then numbers of voxels. */
__host__ __device__ inline size_t table_bytes(int shifts) {
    size_t phases = (size_t)shifts * sizeof(float2), voxels = VOXELS * sizeof(uint16_t);
    return phases > voxels ? phases : voxels;
}

/* Processes PIXELS pixels of one particle per block. The same pixels of all particles come before the next pixels, so
 * that blocks add to a part of the grid that stays in the cache. */
__global__ void __launch_bounds__(THREADS, BLOCKS)
    add_near(const __grid_constant__ sums_cuda sums, const __grid_constant__ job job) {
    extern __shared__ double memory[];
    window *windows = (window *)memory;
    stage &s = *(stage *)(windows + WARPS);
    int warp = (int)threadIdx.x >> 5, lane = threadIdx.x & 31;
    window &w = windows[warp];
    float2 *table = (float2 *)((char *)(&s + 1) + warp * table_bytes(job.shifts));
    uint32_t begin = job.begin[blockIdx.x], end = job.begin[blockIdx.x + 1];
    for (int i = lane; i < 3 * VOXELS; i += 32)
        (&w.sums[0][0])[i] = 0;
    for (int i = threadIdx.x; i < 2 * job.shifts; i += THREADS)
        s.turns[i & 1][i >> 1] = shift_turns(job.sampling.child_shifts[i], job.pixels.box);
    pixel own = load_pixel(job, sums, lane < EACH ? (int)blockIdx.y * PIXELS + warp * EACH + lane : job.pixels.count);
    for (uint32_t from = begin; from < end; from += POSES) {
        __syncthreads();
        list_slices(job, from, end - from < POSES ? (int)(end - from) : POSES, s);
        __syncthreads();
        for (int first = 0; first < s.slices; first = s.end) {
            int64_t *voxels = sums.voxels[list_planes(job, from, first, s)];
            for (int i = 0; i < EACH; i++) {
                pixel p = of_lane(own, i);
                if (p.weight > 0) add_pixel(sums, job, s, first, p, voxels, w, table);
            }
        }
    }
}

} // namespace

/* The table of turns in shared memory limits the number of shifts. */
extern "C" int alignment_cuda_back_project_can_be_near(const struct sampling_cuda *sampling,
                                                       const struct sums_cuda *sums) {
    return sums->dimensions == 3 && sampling->shift_count * sampling->shift_children <= SHIFTS_MOST;
}

enum status alignment_cuda_back_project_near(const struct references_cuda *references,
                                             const struct sampling_cuda *sampling,
                                             const struct particles_cuda *particles, const float *factor,
                                             const struct contribution_cuda *contributions, const uint32_t *begin,
                                             const struct sums_cuda *sums, void *stream, struct err *err) {
    int shifts = sampling->shift_count * sampling->shift_children, n = references->pixels.count;
    job job = {references->pixels, *sampling, *particles, factor, contributions, begin, shifts};
    size_t bytes = WARPS * (sizeof(window) + table_bytes(shifts)) + sizeof(stage);
    CUDA_TRY(cuda_allow_shared((const void *)add_near), err, "adding up images");
    dim3 blocks((unsigned)particles->count, (unsigned)((n + PIXELS - 1) / PIXELS));
    add_near<<<blocks, THREADS, bytes, (cudaStream_t)stream>>>(*sums, job);
    CUDA_TRY(cudaGetLastError(), err, "adding up images");
    return STATUS_OK;
}
