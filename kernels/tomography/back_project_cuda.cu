/* Computes Wᵀ r of a slab and updates the volume. A block has 16 × 16 voxels (x, z) of 128 rows y. A warp has one x;
 * the sums of its 16 voxels z, of four rows per lane, stay in registers while it goes through all tilts. From one z to
 * the next u moves by sin θ, so of the four rays that a voxel meets, three or four are those of the voxel before: four
 * slots hold them, ray i in slot i mod 4, and a step reads the new ray. The threads of the block, as many as the voxels
 * of two tilts, lay weights down in the order of the slots. Asynchronous copies fetch the rays of the next two tilts
 * while the block works on the current two. */
#include <stdint.h>

#include "common/device_cuda.h"
#include "kernels/tomography/entry.cuh"

namespace {

enum { COLUMNS = 16, DEPTH = 16, TILTS = 2, LANES = 32, THREADS = LANES * COLUMNS, STAGES = 2 };
/* Rays that a tile meets at one tilt: 15 (cos + sin) < 21.3, a fraction, four weights, and one to spare at either end.
 */
enum { RAYS = 28 };

struct tile {
    float4 r[TILTS][RAYS][LANES];
    float4 weights[TILTS][COLUMNS][DEPTH][2];
    unsigned char first[TILTS][COLUMNS][DEPTH]; /* the first of a voxel's rays, from the first of the tile */
};
struct coupled_tile {
    struct tile plain;
    float4 r1[TILTS][RAYS][LANES];
};
template <bool COUPLED> struct tile_of { typedef struct tile type; };
template <> struct tile_of<true> { typedef struct coupled_tile type; };

/* Rays that the tile may meet at two tilts. */
struct range {
    int lowest[TILTS], count[TILTS];
};
enum { RANGES = 4 };

template <bool COUPLED> struct shared_memory {
    float4 table[TABLE_FLOATS / 4];
    typename tile_of<COUPLED>::type stages[STAGES];
    struct range ranges[RANGES];
};

struct place {
    int x, z;      /* of the tile's first voxel */
    size_t column; /* of the lane's first row */
};

static __device__ inline struct tile *plain(struct tile *t) {
    return t;
}
static __device__ inline struct tile *plain(struct coupled_tile *t) {
    return &t->plain;
}
static __device__ inline float4 *neighbours(struct tile *t, int which) {
    return &t->r[which][0][0];
}
static __device__ inline float4 *neighbours(struct coupled_tile *t, int which) {
    return &t->r1[which][0][0];
}

/* One thread per tilt. */
static __device__ inline void find_range(const struct tomography_matrix_cuda &m, const struct place &at, int tilt0,
                                         struct range *range) {
    int which = (int)threadIdx.x, tilt = tilt0 + which;
    if (which >= TILTS || tilt >= m.tilts) return;
    double cosine = m.cosines[tilt], sine = m.sines[tilt];
    range->lowest[which] =
        (int)floor(centred_position(m, tilt, at.x, sine < 0 ? at.z + DEPTH - 1 : at.z) + m.offsets[tilt]) - 2;
    range->count[which] = min((int)((COLUMNS - 1) * cosine + (DEPTH - 1) * fabs(sine)) + 8, (int)RAYS);
}

/* Copies 16 bytes, or zeros if there is nothing to read. */
static __device__ inline void copy_later(float4 *to, const float *from, bool there) {
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}
static __device__ inline void end_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
static __device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

/* Fetches the rays of tilts tilt0, tilt0 + 1 that the tile meets; those outside the images are zero. */
template <bool COUPLED, class TILE>
static __device__ inline void fetch(const struct tomography_matrix_cuda &m, const struct place &at, int tilt0,
                                    int pitch, const struct range &range, const float *r, const float *r1, TILE *tile) {
    int lane = (int)threadIdx.x % LANES;
#pragma unroll
    for (int which = 0; which < TILTS; which++) {
        if (tilt0 + which >= m.tilts) break;
        for (int i = (int)threadIdx.x / LANES; i < range.count[which]; i += THREADS / LANES) {
            int ray = range.lowest[which] + i;
            bool there = (unsigned)ray < (unsigned)m.nx;
            unsigned line = (unsigned)(tilt0 + which) * (unsigned)m.nx + (there ? (unsigned)ray : 0u);
            size_t from = (size_t)line * (unsigned)pitch + at.column;
            copy_later(&plain(tile)->r[which][i][lane], r + from, there);
            if (COUPLED) copy_later(neighbours(tile, which) + i * LANES + lane, r1 + from, there);
        }
    }
    end_copies();
}

static __device__ inline float4 in_slots(float4 w, int first) {
    /* Slot j gets the weight of the ray that is j mod 4: a rotation by first, in two steps. */
    if (first & 1) w = make_float4(w.w, w.x, w.y, w.z);
    if (first & 2) w = make_float4(w.z, w.w, w.x, w.y);
    return w;
}

/* Each thread finds one voxel's weights at one of the two tilts. */
template <int KIND, bool COUPLED>
static __device__ inline void weigh(const struct tomography_matrix_cuda &m, const float4 *table, const struct place &at,
                                    int tilt0, const struct range &range, struct tile *tile) {
    int which = (int)threadIdx.x / (COLUMNS * DEPTH), x = (int)threadIdx.x / DEPTH % COLUMNS,
        z = (int)threadIdx.x % DEPTH;
    if (tilt0 + which >= m.tilts) return;
    entry e = entry_of<KIND, COUPLED>(m, table, tilt0 + which, at.x + x, at.z + z);
    int first = e.first - range.lowest[which];
    tile->weights[which][x][z][0] = in_slots(e.q0, first);
    if (COUPLED) tile->weights[which][x][z][1] = in_slots(e.q1, first);
    tile->first[which][x][z] = (unsigned char)first;
}

static __device__ inline void add(float4 *sum, float4 w, const float4 *slots) {
    sum->x += w.x * slots[0].x, sum->y += w.x * slots[0].y, sum->z += w.x * slots[0].z, sum->w += w.x * slots[0].w;
    sum->x += w.y * slots[1].x, sum->y += w.y * slots[1].y, sum->z += w.y * slots[1].z, sum->w += w.y * slots[1].w;
    sum->x += w.z * slots[2].x, sum->y += w.z * slots[2].y, sum->z += w.z * slots[2].z, sum->w += w.z * slots[2].w;
    sum->x += w.w * slots[3].x, sum->y += w.w * slots[3].y, sum->z += w.w * slots[3].z, sum->w += w.w * slots[3].w;
}

/* Loads slot `slot` from shared memory if it is the meant one. Uses predicates, since the compiler would load and then
 * choose by moves. */
static __device__ inline void load_if(int meant, int slot, unsigned address, float4 *v) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.s32 p, %4, %5;\n\t@p ld.shared.v4.f32 {%0, %1, %2, %3}, [%6];\n\t}"
                 : "+f"(v->x), "+f"(v->y), "+f"(v->z), "+f"(v->w)
                 : "r"(meant), "r"(slot), "r"(address));
}

template <bool COUPLED, class TILE> static __device__ inline void gather(TILE *shared, int which, float4 *sums) {
    int x = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    struct tile *tile = plain(shared);
    const float4 *r = &tile->r[which][0][lane], *r1 = neighbours(shared, which) + lane;
    const float4(*weights)[2] = tile->weights[which][x];
    uint4 packed = *(const uint4 *)tile->first[which][x];
    unsigned firsts[4] = {packed.x, packed.y, packed.z, packed.w};
    int first = (int)(firsts[0] & 255);
    unsigned start = (unsigned)__cvta_generic_to_shared(r);
    unsigned to_r1 = COUPLED ? (unsigned)__cvta_generic_to_shared(r1) - start : 0;
    float4 a[4], b[4];
#pragma unroll
    for (int slot = 0; slot < 4; slot++) {
        int ray = first + ((slot - first) & 3);
        a[slot] = r[ray * LANES];
        if (COUPLED) b[slot] = r1[ray * LANES];
    }
#pragma unroll
    for (int z = 0; z < DEPTH; z++) {
        for (int wanted = (int)(firsts[z / 4] >> 8 * (z % 4) & 255); first != wanted;) {
            int up = wanted > first, ray = up ? first + 4 : first - 1;
            first += up ? 1 : -1;
            unsigned at = start + (unsigned)ray * (LANES * (unsigned)sizeof(float4));
#pragma unroll
            for (int slot = 0; slot < 4; slot++) {
                load_if(ray & 3, slot, at, &a[slot]);
                if (COUPLED) load_if(ray & 3, slot, at + to_r1, &b[slot]);
            }
        }
        add(&sums[z], weights[z][0], a);
        if (COUPLED) add(&sums[z], weights[z][1], b);
    }
}

static __device__ inline float changed(float before, float sum, float scale, const struct tomography_update &u) {
    float value = (u.kept != 0 ? u.kept * before : 0) + scale * sum;
    return u.non_negative && value < 0 ? 0 : value;
}

static __device__ inline void update(const struct tomography_matrix_cuda &m, const struct place &at, int pitch,
                                     const struct tomography_update &u, const float4 *sums, float *volume) {
    int x = at.x + (int)threadIdx.x / LANES, row = (int)at.column;
    if (x >= m.nx) return;
    int last = u.rows - 1;
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
        int z = at.z + i;
        if (z >= m.nz) break;
        size_t voxel = (size_t)z * (size_t)m.nx + (size_t)x, all = (size_t)m.nz * (size_t)m.nx;
        float4 *to = (float4 *)(volume + voxel * (size_t)pitch + at.column), value = *to;
        float *values = &value.x;
        const float *added = &sums[i].x;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int y = row + k;
            if (y > last) break;
            int ends = (y == 0 && u.first_is_end) + (y == last && u.last_is_end);
            float scale = u.voxels ? u.scale * u.voxels[(size_t)(2 - ends) * all + voxel] : u.scale;
            float next = changed(values[k], added[k], scale, u);
            values[k] = u.mask && u.mask[voxel * (size_t)pitch + at.column + (size_t)k] == 0 ? 0 : next;
        }
        *to = value;
    }
}

template <int KIND, bool COUPLED>
__global__ void __launch_bounds__(THREADS, 1)
    back_project(struct tomography_matrix_cuda m, struct tomography_chunks chunks, int pitch, const float *r,
                 const float *r1, struct tomography_update u, float *volume) {
    extern __shared__ float4 dynamic[];
    shared_memory<COUPLED> *shared = (shared_memory<COUPLED> *)dynamic;
    int lane = (int)threadIdx.x % LANES;
    struct place at = {(int)blockIdx.y * COLUMNS, (int)blockIdx.x * DEPTH,
                       (size_t)(chunks.first + (int)blockIdx.z * chunks.step) * TOMOGRAPHY_CHUNK + 4 * (size_t)lane};
    float4 sums[DEPTH];
#pragma unroll
    for (int z = 0; z < DEPTH; z++)
        sums[z] = make_float4(0, 0, 0, 0);
    copy_table(m, (float *)shared->table);
    find_range(m, at, 0, &shared->ranges[0]);
    find_range(m, at, TILTS, &shared->ranges[1]);
    __syncthreads();
    fetch<COUPLED>(m, at, 0, pitch, shared->ranges[0], r, r1, &shared->stages[0]);
    weigh<KIND, COUPLED>(m, shared->table, at, 0, shared->ranges[0], plain(&shared->stages[0]));
    for (int tilt = 0, step = 0; tilt < m.tilts; tilt += TILTS, step++) {
        wait_for_copies();
        __syncthreads();
        int next = tilt + TILTS;
        const struct range &range = shared->ranges[(step + 1) % RANGES];
        find_range(m, at, next + TILTS, &shared->ranges[(step + 2) % RANGES]);
        if (next < m.tilts) {
            fetch<COUPLED>(m, at, next, pitch, range, r, r1, &shared->stages[(step + 1) % STAGES]);
            weigh<KIND, COUPLED>(m, shared->table, at, next, range, plain(&shared->stages[(step + 1) % STAGES]));
        }
        for (int which = 0; which < TILTS && tilt + which < m.tilts; which++)
            gather<COUPLED>(&shared->stages[step % STAGES], which, sums);
    }
    update(m, at, pitch, u, sums, volume);
}

struct arguments {
    const struct tomography_matrix_cuda *m;
    struct tomography_chunks chunks;
    int pitch;
    const float *r, *r1;
    const struct tomography_update *update;
    float *volume;
    cudaStream_t stream;
};

template <int KIND, bool COUPLED> enum status launch(const struct arguments *a, struct err *err) {
    const int bytes = (int)sizeof(shared_memory<COUPLED>);
    dim3 grid((unsigned)((a->m->nz + DEPTH - 1) / DEPTH), (unsigned)((a->m->nx + COLUMNS - 1) / COLUMNS),
              (unsigned)a->chunks.count);
    CUDA_TRY(cudaFuncSetAttribute(back_project<KIND, COUPLED>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), err,
             "preparing the back-projection");
    back_project<KIND, COUPLED>
        <<<grid, THREADS, bytes, a->stream>>>(*a->m, a->chunks, a->pitch, a->r, a->r1, *a->update, a->volume);
    CUDA_TRY(cudaGetLastError(), err, "back-projecting");
    return STATUS_OK;
}

} // namespace

extern "C" enum status tomography_cuda_back_project(const struct tomography_matrix_cuda *m,
                                                    struct tomography_chunks chunks, int pitch, const float *r,
                                                    const float *r1, const struct tomography_update *update,
                                                    float *volume, void *stream, struct err *err) {
    struct arguments a = {m, chunks, pitch, r, r1, update, volume, (cudaStream_t)stream};
    if (chunks.count < 1) return STATUS_OK;
    if (m->kind == TOMOGRAPHY_ELLR)
        return m->coupled ? launch<TOMOGRAPHY_ELLR, true>(&a, err) : launch<TOMOGRAPHY_ELLR, false>(&a, err);
    if (m->kind == TOMOGRAPHY_BLOB_ELLR)
        return m->coupled ? launch<TOMOGRAPHY_BLOB_ELLR, true>(&a, err) : launch<TOMOGRAPHY_BLOB_ELLR, false>(&a, err);
    return m->coupled ? launch<TOMOGRAPHY_ON_THE_FLY, true>(&a, err) : launch<TOMOGRAPHY_ON_THE_FLY, false>(&a, err);
}
