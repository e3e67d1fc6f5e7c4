/* Computes Q0 and Q1 of a slab. A block has 32 rays of each of four tilts that are neighbours by angle, and 128 rows y.
 * A warp has eight rays of one tilt, whose sums stay in registers while it goes through all slices z. In a slice these
 * rays meet some voxels x, at one u for all rows: each lane finds the weights of another x, and then all lanes go
 * through these x together, reading a voxel of four rows for 32 multiply-adds. Jumps that all lanes take decide which
 * sums a voxel contributes to, so that registers are indexed by constants. Asynchronous copies fetch the voxels that
 * the four tilts meet in a slice, which are nearly the same, two pieces ahead. */
#include "common/device_cuda.h"
#include "kernels/tomography/entry.cuh"

namespace {

enum { TILTS = 4, GROUPS = 4, RAYS = 8, WARPS = TILTS * GROUPS, THREADS = 32 * WARPS, LANES = 32 };
/* Voxels x of a piece; stages of the copies; pieces that fit. */
enum { WIDTH = 112, STAGES = 3, PIECES = 8 };

/* Voxels from … to of slice z, of which the block wants those up to end, width at a time. */
struct piece {
    int z, from, to, end, width;
};

/* The places where rays meet a slice: ray i is at x = zero + z · slope + i · step; near 90° a ray meets all x. */
struct line {
    double zero, slope, step;
    bool all;
};

struct shared_memory {
    float4 table[TABLE_FLOATS / 4];
    float4 weights[WARPS][LANES][2];
    float4 voxels[STAGES][WIDTH][LANES];
    struct line lines[TILTS];
    struct piece pieces[PIECES];
};

static __device__ inline void add(float4 *sum, float weight, float4 value) {
    sum->x += weight * value.x;
    sum->y += weight * value.y;
    sum->z += weight * value.z;
    sum->w += weight * value.w;
}

/* Adds four weights to sums k … k + 3, as far as these are among the COUNT; k is a constant of unrolled code. */
template <int COUNT> static __device__ inline void add_to(float4 *sums, int k, float4 weights, float4 value) {
    if (k >= 0) add(&sums[k], weights.x, value);
    if (k >= -1 && k + 1 < COUNT) add(&sums[k + 1], weights.y, value);
    if (k >= -2 && k + 2 < COUNT) add(&sums[k + 2], weights.z, value);
    if (k + 3 < COUNT) add(&sums[k + 3], weights.w, value);
}

struct span {
    int from, to;
};

/* Returns the voxels of a slice that may touch rays first … first + count − 1, rather too many than too few. */
static __device__ inline span touched(const struct line &l, int z, int first, int count, int nx) {
    if (l.all) return {0, nx - 1};
    double zero = l.zero + z * l.slope, spare = 0.01 + 1e-4 * l.step;
    double from = zero + (first - 2) * l.step - spare, to = zero + (first + count + 1) * l.step + spare;
    /* These conversions stop at the ends of int. */
    return {max(0, min(nx, __double2int_ru(from))), max(-1, min(nx - 1, __double2int_rd(to)))};
}

/* Returns the piece after p; z = nz if there is none. By one warp: a lane has a tilt. */
static __device__ inline piece next_piece(const struct shared_memory &shared, const piece &p, int ray, int tilts,
                                          int nx, int nz) {
    if (p.to < p.end) return {p.z, p.to + 1, min(p.to + p.width, p.end), p.end, p.width};
    int lane = (int)threadIdx.x % LANES;
    for (int z = p.z + 1; z < nz; z++) {
        span s = touched(shared.lines[min(lane, tilts - 1)], z, ray, RAYS * GROUPS, nx);
        if (s.from > s.to) s = {nx, -1};
        int from = __reduce_min_sync(~0u, s.from), to = __reduce_max_sync(~0u, s.to), count = to - from + 1;
        if (count < 1) continue;
        int pieces = (count + WIDTH - 1) / WIDTH, width = (count + pieces - 1) / pieces;
        return {z, from, from + width - 1, to, width};
    }
    return {nz, 0, -1, -1, 1};
}

/* Begins to fetch a piece; closes a group of copies here even if there is none. */
static __device__ inline void fetch(const piece &p, const float *volume, int nx, int pitch, size_t column,
                                    float4 (*to)[LANES]) {
    int lane = (int)threadIdx.x % LANES;
    for (int x = p.from + (int)threadIdx.x / LANES; x <= p.to; x += WARPS) {
        const float *from = volume + ((size_t)p.z * (size_t)nx + (size_t)x) * (size_t)pitch + column;
        unsigned address = (unsigned)__cvta_generic_to_shared(&to[x - p.from][lane]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

static __device__ inline void fill_lines(const struct tomography_matrix_cuda &m, int place, int tilts,
                                         struct line *lines) {
    int t = (int)threadIdx.x;
    if (t >= tilts) return;
    int tilt = m.order[place + t];
    double cosine = m.cosines[tilt], corner = centred_position(m, tilt, 0, 0) + m.offsets[tilt];
    lines[t].all = cosine < 1e-6;
    lines[t].step = 1 / cosine, lines[t].zero = -corner / cosine, lines[t].slope = -m.sines[tilt] / cosine;
}

/* Projects a piece by one warp. */
template <int KIND, bool COUPLED>
static __device__ inline void add_piece(const struct tomography_matrix_cuda &m, struct shared_memory &shared,
                                        const piece &p, const float4 (*voxels)[LANES], int tilt, int first, float4 *q0,
                                        float4 *q1) {
    int warp = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    float4(*weights)[2] = shared.weights[warp];
    span xs = touched(shared.lines[warp / GROUPS], p.z, first, RAYS, m.nx);
    xs.from = max(xs.from, p.from), xs.to = min(xs.to, p.to);
    for (int x0 = xs.from; x0 <= xs.to; x0 += LANES) {
        int x = x0 + lane, ray = RAYS;
        __syncwarp();
        if (x <= xs.to) {
            entry e = entry_of<KIND, COUPLED>(m, shared.table, tilt, x, p.z);
            ray = e.first - first;
            weights[lane][0] = e.q0;
            if (COUPLED) weights[lane][1] = e.q1;
        }
        __syncwarp();
        /* Rays rise with x. */
        int i = __popc(__ballot_sync(~0u, ray < -3));
        const float4 *at = &voxels[x0 - p.from + i][lane], (*w)[2] = weights + i;
#pragma unroll
        for (int k = -3; k < RAYS; k++)
#pragma unroll 1
            for (int end = __popc(__ballot_sync(~0u, ray <= k)); i < end; i++, at += LANES, w++) {
                float4 value = *at;
                add_to<RAYS>(q0, k, (*w)[0], value);
                if (COUPLED) add_to<RAYS>(q1, k, (*w)[1], value);
            }
    }
}

template <int KIND, bool COUPLED>
__global__ void __launch_bounds__(THREADS, 1) project(struct tomography_matrix_cuda m, struct tomography_chunks chunks,
                                                      int pitch, const float *volume, float *ret_q0, float *ret_q1) {
    extern __shared__ float4 dynamic[];
    struct shared_memory &shared = *(struct shared_memory *)dynamic;
    int warp = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    int place = (int)blockIdx.y * TILTS, tilts = min((int)TILTS, m.tilts - place),
        ray = (int)blockIdx.x * GROUPS * RAYS;
    int first = ray + warp % GROUPS * RAYS;
    bool works = warp / GROUPS < tilts && first < m.nx;
    int tilt = works ? m.order[place + warp / GROUPS] : 0;
    size_t column = (size_t)(chunks.first + (int)blockIdx.z * chunks.step) * TOMOGRAPHY_CHUNK + 4 * (size_t)lane;
    float4 q0[RAYS], q1[RAYS];
#pragma unroll
    for (int i = 0; i < RAYS; i++)
        q0[i] = q1[i] = make_float4(0, 0, 0, 0);
    copy_table(m, (float *)shared.table);
    fill_lines(m, place, tilts, shared.lines);
    __syncthreads();

    /* Computes piece i, fetches piece i + STAGES − 1, finds the one after it. */
    if (warp == 0) {
        piece p = {-1, 0, 0, 0, 1};
        for (int i = 0; i < STAGES; i++) {
            p = next_piece(shared, p, ray, tilts, m.nx, m.nz);
            if (lane == 0) shared.pieces[i] = p;
        }
    }
    __syncthreads();
    for (int i = 0; i < STAGES - 1; i++)
        fetch(shared.pieces[i], volume, m.nx, pitch, column, shared.voxels[i]);
    for (int i = 0, stage = 0;; i++, stage = stage + 1 < STAGES ? stage + 1 : 0) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        piece now = shared.pieces[i % PIECES];
        if (now.z >= m.nz) break;
        piece ahead = shared.pieces[(i + STAGES - 1) % PIECES];
        fetch(ahead, volume, m.nx, pitch, column, shared.voxels[stage > 0 ? stage - 1 : STAGES - 1]);
        if (warp == i % WARPS) {
            ahead = next_piece(shared, ahead, ray, tilts, m.nx, m.nz);
            if (lane == 0) shared.pieces[(i + STAGES) % PIECES] = ahead;
        }
        if (works) add_piece<KIND, COUPLED>(m, shared, now, shared.voxels[stage], tilt, first, q0, q1);
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
enum status launch(const struct tomography_matrix_cuda *m, struct tomography_chunks chunks, int pitch,
                   const float *volume, float *ret_q0, float *ret_q1, cudaStream_t stream, struct err *err) {
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
                                               int pitch, const float *volume, float *ret_q0, float *ret_q1,
                                               void *stream, struct err *err) {
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
