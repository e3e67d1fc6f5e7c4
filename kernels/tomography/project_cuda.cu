/* Q0 and Q1 of a slab. A block has 32 rays of each of four tilts that are neighbours by angle, 128 rows y: a warp has
 * eight rays of one tilt, whose sums stay in its registers while it goes through all slices z. In a slice these rays meet
 * some voxels x, at one u for all rows: each lane finds the weights of another x, and then all lanes go through these x
 * together, reading a voxel of four rows for 32 multiply-adds. Which of the sums a voxel goes to is decided by jumps that
 * all lanes take, so that registers are indexed by constants. Nothing is shared between warps but what they read, which
 * is why neighbours sit in one block. */
#include "common/device_cuda.h"
#include "kernels/tomography/entry_device.cuh"

namespace {

enum { TILTS = 4, GROUPS = 4, RAYS = 8, WARPS = TILTS * GROUPS, THREADS = 32 * WARPS, LANES = 32, TOGETHER = 8 };

struct shared_memory {
    float4 table[TABLE_FLOATS / 4];
    float4 weights[WARPS][LANES][2];
};

static __device__ inline void add(float4 *sum, float weight, float4 value) {
    sum->x += weight * value.x;
    sum->y += weight * value.y;
    sum->z += weight * value.z;
    sum->w += weight * value.w;
}

/* Voxels of a slice that may touch rays first − 3 … first + RAYS + 2: more rather than fewer. */
struct span {
    int from, to;
};
static __device__ inline span touched(double at_zero, double cosine, int first, int nx) {
    span s = {0, nx - 1};
    if (cosine < 1e-6) return s;
    double spare = 0.01 + 1e-4 / cosine;
    double from = (first - 2 - at_zero) / cosine - spare, to = (first + RAYS + 1 - at_zero) / cosine + spare;
    s.from = from > 0 ? (int)fmin(ceil(from), (double)nx) : 0;
    s.to = to < nx - 1 ? (int)fmax(floor(to), -1.0) : nx - 1;
    return s;
}

template <int KIND, bool COUPLED>
__global__ void __launch_bounds__(THREADS, 1)
    project(struct tomography_matrix_cuda m, struct tomography_chunks chunks, int pitch, const float *volume, float *ret_q0,
            float *ret_q1) {
    extern __shared__ float4 dynamic[];
    struct shared_memory *shared = (struct shared_memory *)dynamic;
    copy_table(m, (float *)shared->table);
    __syncthreads();
    int warp = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    int place = (int)blockIdx.y * TILTS + warp / GROUPS, first = ((int)blockIdx.x * GROUPS + warp % GROUPS) * RAYS;
    bool works = place < m.tilts && first < m.nx;
    int tilt = works ? m.order[place] : 0;
    size_t column = (size_t)(chunks.first + (int)blockIdx.z * chunks.step) * TOMOGRAPHY_CHUNK + 4 * (size_t)lane;
    size_t stride = (size_t)pitch / 4;
    float4(*weights)[2] = shared->weights[warp];
    double cosine = m.cosines[tilt], sine = m.sines[tilt];
    double corner = m.offsets[tilt] - 0.5 * (m.nx - 1) * cosine - 0.5 * (m.nz - 1) * sine;
    float4 q0[RAYS], q1[RAYS];
#pragma unroll
    for (int i = 0; i < RAYS; i++)
        q0[i] = q1[i] = make_float4(0, 0, 0, 0);

    for (int z = 0; z < m.nz; z++) {
        /* Warps that stay together find each other's voxels in the cache. */
        if (z % TOGETHER == 0) __syncthreads();
        if (!works) continue;
        span xs = touched(corner + z * sine, cosine, first, m.nx);
        const float4 *slice = (const float4 *)(volume + (size_t)z * (size_t)m.nx * (size_t)pitch + column);
        for (int x0 = xs.from; x0 <= xs.to; x0 += LANES) {
            int x = x0 + lane, ray = RAYS;
            const float4 *voxels = slice + (size_t)x0 * stride;
            int ready = 0;
            float4 ahead = __ldg(voxels);
            __syncwarp();
            if (x <= xs.to) {
                entry e = entry_of<KIND, COUPLED>(m, shared->table, tilt, x, z);
                ray = e.first - first;
                weights[lane][0] = e.q0;
                if (COUPLED) weights[lane][1] = e.q1;
            }
            __syncwarp();
#pragma unroll
            for (int k = -3; k < RAYS; k++) {
                for (unsigned which = __ballot_sync(~0u, ray == k); which != 0; which &= which - 1) {
                    int i = __ffs((int)which) - 1;
                    if (i != ready) ahead = __ldg(voxels + (size_t)i * stride);
                    float4 value = ahead, w0 = weights[i][0];
                    ready = i + 1;
                    ahead = __ldg(voxels + (size_t)ready * stride);
                    if (k >= 0) add(&q0[k >= 0 ? k : 0], w0.x, value);
                    if (k >= -1 && k < RAYS - 1) add(&q0[k >= -1 && k < RAYS - 1 ? k + 1 : 0], w0.y, value);
                    if (k >= -2 && k < RAYS - 2) add(&q0[k >= -2 && k < RAYS - 2 ? k + 2 : 0], w0.z, value);
                    if (k < RAYS - 3) add(&q0[k < RAYS - 3 ? k + 3 : 0], w0.w, value);
                    if (COUPLED) {
                        float4 w1 = weights[i][1];
                        if (k >= 0) add(&q1[k >= 0 ? k : 0], w1.x, value);
                        if (k >= -1 && k < RAYS - 1) add(&q1[k >= -1 && k < RAYS - 1 ? k + 1 : 0], w1.y, value);
                        if (k >= -2 && k < RAYS - 2) add(&q1[k >= -2 && k < RAYS - 2 ? k + 2 : 0], w1.z, value);
                        if (k < RAYS - 3) add(&q1[k < RAYS - 3 ? k + 3 : 0], w1.w, value);
                    }
                }
            }
        }
    }
    if (!works) return;
#pragma unroll
    for (int i = 0; i < RAYS; i++) {
        if (first + i >= m.nx) break;
        size_t at = ((size_t)tilt * (size_t)m.nx + (size_t)(first + i)) * (size_t)pitch + column;
        *(float4 *)(ret_q0 + at) = q0[i];
        if (COUPLED) *(float4 *)(ret_q1 + at) = q1[i];
    }
}

template <int KIND, bool COUPLED>
enum status launch(const struct tomography_matrix_cuda *m, struct tomography_chunks chunks, int pitch, const float *volume,
                   float *ret_q0, float *ret_q1, cudaStream_t stream, struct err *err) {
    const int bytes = (int)sizeof(struct shared_memory);
    dim3 grid((unsigned)((m->nx + RAYS * GROUPS - 1) / (RAYS * GROUPS)), (unsigned)((m->tilts + TILTS - 1) / TILTS),
              (unsigned)chunks.count);
    CUDA_TRY(cudaFuncSetAttribute(project<KIND, COUPLED>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), err,
             "preparing the projection");
    project<KIND, COUPLED><<<grid, THREADS, bytes, stream>>>(*m, chunks, pitch, volume, ret_q0, ret_q1);
    CUDA_TRY(cudaGetLastError(), err, "projecting a volume");
    return STATUS_OK;
}

} // namespace

extern "C" enum status tomography_cuda_project(const struct tomography_matrix_cuda *m, struct tomography_chunks chunks,
                                               int pitch, const float *volume, float *ret_q0, float *ret_q1, void *stream,
                                               struct err *err) {
    cudaStream_t s = (cudaStream_t)stream;
    if (chunks.count < 1) return STATUS_OK;
    if (m->kind == TOMOGRAPHY_ELLR)
        return m->coupled ? launch<TOMOGRAPHY_ELLR, true>(m, chunks, pitch, volume, ret_q0, ret_q1, s, err)
                          : launch<TOMOGRAPHY_ELLR, false>(m, chunks, pitch, volume, ret_q0, ret_q1, s, err);
    if (m->kind == TOMOGRAPHY_BLOB_ELLR)
        return m->coupled ? launch<TOMOGRAPHY_BLOB_ELLR, true>(m, chunks, pitch, volume, ret_q0, ret_q1, s, err)
                          : launch<TOMOGRAPHY_BLOB_ELLR, false>(m, chunks, pitch, volume, ret_q0, ret_q1, s, err);
    return m->coupled ? launch<TOMOGRAPHY_ON_THE_FLY, true>(m, chunks, pitch, volume, ret_q0, ret_q1, s, err)
                      : launch<TOMOGRAPHY_ON_THE_FLY, false>(m, chunks, pitch, volume, ret_q0, ret_q1, s, err);
}
