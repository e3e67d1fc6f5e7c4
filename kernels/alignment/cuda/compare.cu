/* The fine comparison on a CUDA device: compares slices of some rows of the grid with one particle's image at some
 * shifts.
 *
 * A block takes SLOTS slices: the rotations of one row, or, if a row has fewer, those of several rows of a particle, at
 * all shifts that any of them needs. Each warp goes through blocks of pixels with the slices in registers. Shift by
 * shift it makes SUMS sums: SLOTS slices × (4 children of a shift, or 4 shifts).
 *
 * The four children of a shift lie symmetrically about it. With Y the image at the shift itself, Q = P conj Y, and a, b
 * the phases of half the distance between children in x and y, Re(P conj X) of a child is
 *   Re(Q exp(i(±a ± b))) = Re Q cos(a ± b) ∓ Im Q sin(a ± b),
 * so that four sums per slice, of the products with cos and sin of a + b and a − b, need one phase instead of four.
 *
 * A lane holds its sums in its own order: sum i of lane L is output i ^ L. The sums of a warp are then combined in 31
 * exchanges without choosing what to send, and lane L ends with output L. */
#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.cuh"

namespace {

enum { WARPS = 2, THREADS = 32 * WARPS, BLOCKS = 12 / WARPS, SLOTS = 8, CHILDREN = 4, SUMS = SLOTS * CHILDREN };
/* EACH: pixels of a lane at a time; PIXELS: of a warp; UNITS: groups of sums that a block keeps. */
enum { EACH = 4, PIXELS = 32 * EACH, UNITS = 48 };
static_assert(FINE_SLICE_STEP % PIXELS == 0, "a slice is read in whole blocks");
enum { SHIFTS_MOST = 4096 };

/* Source of slices: stored slices, a 2D reference, a 3D reference, or a 3D reference with quads. */
enum source { STORED, PLANE, VOLUME, QUADS };

struct work {
    references_cuda references;
    sampling_cuda sampling;
    particles_cuda particles;
    samples_cuda samples;
    int n_pixels, rotations, fine;
    size_t slice_row;
    float *values;
};

struct slot {
    float m[6];
    const float *values; /* of its reference (quads), or of the slice */
};

struct state {
    row_cuda rows[SLOTS + 1];
    slot slots[SLOTS];
    float norm[WARPS][SLOTS];
    float sums[WARPS][UNITS][SUMS];
    float2 shift[UNITS * CHILDREN]; /* radians per pixel */
    int shifts;                     /* shifts in list */
};

/* Rows of one particle in the list, and the shifts that any of them needs. */
struct segment {
    int rows, words;
    uint16_t *list;
    uint32_t *bits, *before; /* [SLOTS][words]: shifts of each row; number of shifts before each word */
};

/* Pixels of one lane; slice s of a lane is slot s ^ lane / 4. */
struct pixels {
    float2 p[SLOTS][EACH], x[EACH]; /* P, c X/σ² */
    float kx[EACH], ky[EACH];
    float m[EACH][CHILDREN]; /* factors of the sums; see load_factors */
};

__device__ inline void set_slot(const work &w, const state &s, int at, int rows, slot *ret) {
    int in_row = at / w.rotations, rotation = at - in_row * w.rotations;
    uint32_t row = (uint32_t)s.rows[in_row < rows ? in_row : 0].row;
    slice_place place = w.fine ? child_place(w.sampling, row, rotation) : row_place(w.sampling, row);
    if (w.fine)
        child_plane(w.sampling, place, GRID_PAD, ret->m);
    else
        row_plane(w.sampling, place, GRID_PAD, ret->m);
    const grid_cuda &grid = w.references.grids[place.reference];
    ret->values = grid.quads ? grid.quads : grid.values;
    if (w.fine && w.references.slices)
        ret->values = w.references.slices + ((size_t)row * w.rotations + rotation) * 2 * w.slice_row;
}

/* Lists the shifts of one row. */
__device__ inline void list_row(const work &w, state &s, const segment &g) {
    uint32_t first = s.rows[0].first, row = (uint32_t)s.rows[0].row * (uint32_t)w.sampling.shift_count;
    int count = (int)(s.rows[1].first - first);
    for (int i = (int)threadIdx.x; i < count; i += THREADS)
        g.list[i] = (uint16_t)(w.samples.samples[first + i] - row);
    if (threadIdx.x == 0) s.shifts = count;
}

/* Lists the shifts of several rows: bits of each row, number of bits before each word, and all shifts that any row
 * has. */
__device__ inline void list_rows(const work &w, state &s, const segment &g) {
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    for (int i = (int)threadIdx.x; i < g.rows * g.words; i += THREADS)
        g.bits[i] = 0;
    __syncthreads();
    for (uint32_t i = s.rows[0].first + threadIdx.x; i < s.rows[g.rows].first; i += THREADS) {
        int row = 0;
        while (row + 1 < g.rows && i >= s.rows[row + 1].first)
            row++;
        uint32_t shift = w.samples.samples[i] - (uint32_t)s.rows[row].row * (uint32_t)w.sampling.shift_count;
        atomicOr(&g.bits[row * g.words + (int)(shift / 32)], 1u << (shift % 32));
    }
    __syncthreads();
    for (int row = warp; row <= g.rows; row += WARPS) {
        int base = 0;
        for (int first = 0; first < g.words; first += 32) {
            int word = first + lane;
            uint32_t bits = 0;
            for (int r = row < g.rows ? row : 0; word < g.words && r < (row < g.rows ? row + 1 : g.rows); r++)
                bits |= g.bits[r * g.words + word];
            int sum = __popc(bits);
            for (int step = 1; step < 32; step *= 2) {
                int other = __shfl_up_sync(0xffffffffu, sum, step);
                if (lane >= step) sum += other;
            }
            int before = base + sum - __popc(bits);
            if (row < g.rows && word < g.words) g.before[row * g.words + word] = (uint32_t)before;
            for (; row == g.rows && bits; bits &= bits - 1)
                g.list[before++] = (uint16_t)(word * 32 + __ffs((int)bits) - 1);
            base += __shfl_sync(0xffffffffu, sum, 31);
        }
        if (row == g.rows && lane == 0) s.shifts = base;
    }
}

/* Loads the shifts of a tile of units, as the turn of a pixel of frequency 1. Children: the shift of their centre. */
template <bool FOUR> __device__ inline void load_shifts(const work &w, state &s, const segment &g, int first) {
    const int most = FOUR ? UNITS : UNITS * CHILDREN;
    float factor = -6.2831853072f / (float)w.references.pixels.box;
    const float *shifts = w.fine ? w.sampling.child_shifts : w.sampling.shifts;
    for (int i = (int)threadIdx.x; i < most; i += THREADS) {
        float2 shift = make_float2(0, 0);
        if (first + i < s.shifts) {
            const float *at = shifts + 2 * (size_t)g.list[first + i] * (FOUR ? CHILDREN : 1);
            shift = FOUR ? make_float2(0.5f * (at[0] + at[6]), 0.5f * (at[1] + at[7])) : make_float2(at[0], at[1]);
        }
        s.shift[i] = make_float2(factor * shift.x, factor * shift.y);
    }
}

/* Outputs 0 to 3 of a slice are the sums of Re Q cos(a + b), Im Q sin(a + b), Re Q cos(a − b), Im Q sin(a − b). A lane
 * makes its sums 0 and 2 from Re Q, and 1 and 3 from Im Q. In odd lanes Q is taken with i Y in place of Y, which gives
 * Im Q and −Re Q. */
__device__ inline void load_factors(float half_x, float half_y, int lane, float kx, float ky, float m[CHILDREN]) {
    float b = ky * half_y, c[2], s[2];
    __sincosf(fmaf(kx, half_x, b), &s[0], &c[0]);
    __sincosf(fmaf(kx, half_x, -b), &s[1], &c[1]);
    bool turned = lane & 2, odd = lane & 1;
    float c0 = turned ? c[1] : c[0], s0 = turned ? s[1] : s[0], c1 = turned ? c[0] : c[1], s1 = turned ? s[0] : s[1];
    m[0] = odd ? s0 : c0, m[1] = odd ? -c0 : s0;
    m[2] = odd ? s1 : c1, m[3] = odd ? -c1 : s1;
}

/* Sums output i ^ lane over the `COUNT · apart` lanes that hold it; the result is in i = 0 only. */
template <int COUNT> __device__ inline void meet(float *sums, int apart) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++)
        sums[i] += __shfl_xor_sync(0xffffffffu, sums[i + COUNT / 2], COUNT / 2 * apart);
    if constexpr (COUNT > 2) meet<COUNT / 2>(sums, apart);
}

/* Loads pixels first + 32 j + lane, and returns what they add to the norms. Pixels that do not count have images and
 * weights of 0. */
template <bool FOUR, source SOURCE>
__device__ inline float load_pixels(const work &w, const state &s, int particle, int first, int lane, pixels &t) {
    const references_cuda &r = w.references;
    grid_cuda grid = r.grids[0];
    grid.dimensions = SOURCE == PLANE ? 2 : 3;
    float half[EACH], half_x = 0, half_y = 0;
    if (FOUR) {
        const float *children = w.sampling.child_shifts;
        float factor = 3.1415926536f / (float)r.pixels.box;
        half_x = factor * (children[6] - children[0]), half_y = factor * (children[7] - children[1]);
    }
    int at[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        at[j] = min(first + 32 * j + lane, w.n_pixels - 1);
        int kx = r.pixels.kx[at[j]], ky = r.pixels.ky[at[j]];
        bool inside = first + 32 * j + lane < w.n_pixels && kx * kx + ky * ky <= grid.r_max * grid.r_max;
        size_t pixel = (size_t)particle * w.particles.stride + at[j];
        float c = inside ? w.particles.ctf[pixel] : 0, weight = c * w.particles.weight[pixel];
        float2 x = ((const float2 *)w.particles.masked)[pixel];
        x = make_float2(weight * x.x, weight * x.y);
        half[j] = 0.5f * c * weight;
        t.x[j] = FOUR && (lane & 1) ? make_float2(-x.y, x.x) : x;
        t.kx[j] = inside ? (float)kx : 0, t.ky[j] = inside ? (float)ky : 0;
        if (FOUR) load_factors(half_x, half_y, lane, t.kx[j], t.ky[j], t.m[j]);
    }
    float norm[SLOTS];
#pragma unroll
    for (int i = 0; i < SLOTS; i++) {
        const slot &slot = s.slots[i ^ (lane >> 2)];
        float m[6];
#pragma unroll
        for (int k = 0; SOURCE != STORED && k < 6; k++)
            m[k] = slot.m[k];
        grid.values = grid.quads = slot.values;
        norm[i] = 0;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            float u = t.kx[j], v = t.ky[j];
            if (SOURCE == STORED)
                t.p[i][j] = __ldg((const float2 *)slot.values + first + lane + 32 * j);
            else
                t.p[i][j] = grid_value<SOURCE == QUADS>(grid, grid_coordinate(m[0], m[3], u, v),
                                                        grid_coordinate(m[1], m[4], u, v),
                                                        SOURCE == PLANE ? 0 : grid_coordinate(m[2], m[5], u, v));
            norm[i] = fmaf(half[j], fmaf(t.p[i][j].x, t.p[i][j].x, t.p[i][j].y * t.p[i][j].y), norm[i]);
        }
    }
    meet<SLOTS>(norm, CHILDREN);
    norm[0] += __shfl_xor_sync(0xffffffffu, norm[0], 2);
    return norm[0] + __shfl_xor_sync(0xffffffffu, norm[0], 1);
}

__device__ inline float2 turned(float2 x, float angle) {
    float s, c;
    __sincosf(angle, &s, &c);
    return make_float2(fmaf(x.x, c, -(x.y * s)), fmaf(x.x, s, x.y * c));
}

/* Adds one unit over the lane's pixels: outputs i ^ lane. */
template <bool FOUR> __device__ inline void add_unit(const pixels &t, const float2 *shift, int lane, float a[SUMS]) {
    float2 d[CHILDREN];
#pragma unroll
    for (int k = 0; k < (FOUR ? 1 : CHILDREN); k++)
        d[k] = shift[FOUR ? 0 : k ^ (lane & 3)];
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        a[i] = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        float2 y[CHILDREN];
#pragma unroll
        for (int k = 0; k < (FOUR ? 1 : CHILDREN); k++)
            y[k] = turned(t.x[j], fmaf(t.kx[j], d[k].x, t.ky[j] * d[k].y));
#pragma unroll
        for (int i = 0; i < SLOTS; i++) {
            float2 p = t.p[i][j];
            if (FOUR) {
                float re = fmaf(p.x, y[0].x, p.y * y[0].y), im = fmaf(p.y, y[0].x, -(p.x * y[0].y));
                a[4 * i] = fmaf(re, t.m[j][0], a[4 * i]), a[4 * i + 1] = fmaf(im, t.m[j][1], a[4 * i + 1]);
                a[4 * i + 2] = fmaf(re, t.m[j][2], a[4 * i + 2]), a[4 * i + 3] = fmaf(im, t.m[j][3], a[4 * i + 3]);
            } else {
#pragma unroll
                for (int k = 0; k < CHILDREN; k++)
                    a[4 * i + k] = fmaf(p.y, y[k].y, fmaf(p.x, y[k].x, a[4 * i + k]));
            }
        }
    }
}

/* Adds a tile of units over all pixels of the warp: sums in s.sums, norms in s.norm. */
template <bool FOUR, source SOURCE> __device__ inline void add_tile(const work &w, state &s, int particle, int units) {
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    float norm = 0;
    for (int u = 0; u < units; u++)
        s.sums[warp][u][lane] = 0;
    for (int first = warp * PIXELS; first < w.n_pixels; first += WARPS * PIXELS) {
        pixels t;
        norm += load_pixels<FOUR, SOURCE>(w, s, particle, first, lane, t);
#pragma unroll 1
        for (int u = 0; u < units; u++) {
            float a[SUMS];
            add_unit<FOUR>(t, s.shift + (FOUR ? u : u * CHILDREN), lane, a);
            meet<SUMS>(a, 1);
            s.sums[warp][u][lane] += a[0];
        }
    }
    if (lane % CHILDREN == 0) s.norm[warp][lane / CHILDREN] = norm;
}

/* Returns the index of a row's sample at a listed shift; UINT32_MAX if there is none. */
__device__ inline uint32_t sample_at(const state &s, const segment &g, int row, int entry) {
    if (row >= g.rows || entry >= s.shifts) return UINT32_MAX;
    if (g.words == 0) return s.rows[0].first + (uint32_t)entry;
    uint32_t shift = g.list[entry], bits = g.bits[row * g.words + (int)(shift / 32)], bit = 1u << (shift % 32);
    if (!(bits & bit)) return UINT32_MAX;
    return s.rows[row].first + g.before[row * g.words + (int)(shift / 32)] + (uint32_t)__popc(bits & (bit - 1));
}

template <bool FOUR>
__device__ inline void store_tile(const work &w, const state &s, const segment &g, int first, int units) {
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, k = lane % CHILDREN, at = lane / CHILDREN;
    int row = at / w.rotations, rotation = at - row * w.rotations;
    float norm = 0;
    for (int i = 0; i < WARPS; i++)
        norm += s.norm[i][at];
    for (int u = warp; u < units; u += WARPS) {
        float dot = 0;
        for (int i = 0; i < WARPS; i++)
            dot += s.sums[i][u][lane];
        uint32_t sample = sample_at(s, g, row, first + (FOUR ? u : u * CHILDREN + k));
        if (FOUR) {
            /* Lanes 0 to 3 compute the children (+, +), (−, −), (+, −), (−, +). */
            float other = __shfl_xor_sync(0xffffffffu, dot, 1);
            dot = k & 1 ? dot + other : dot - other;
        }
        if (sample == UINT32_MAX) continue;
        size_t value = (size_t)sample * w.rotations + rotation;
        if (FOUR) value = value * CHILDREN + (k == 0 ? 3 : k == 1 ? 0 : k == 2 ? 2 : 1);
        w.values[value] = norm - dot;
    }
}

template <bool FOUR, source SOURCE>
__global__ void __launch_bounds__(THREADS, BLOCKS) compare(const __grid_constant__ work w) {
    __shared__ state s;
    extern __shared__ uint32_t more[];
    const int rows = SLOTS / w.rotations, end = min((int)(blockIdx.x + 1) * rows, (int)w.samples.row_count);
    segment g = {};
    g.words = rows > 1 ? (w.sampling.shift_count + 31) / 32 : 0;
    g.bits = more, g.before = more + SLOTS * g.words, g.list = (uint16_t *)(more + 2 * SLOTS * g.words);
    for (int first = (int)blockIdx.x * rows; first < end; first += g.rows) {
        int particle = w.samples.rows[first].particle;
        for (g.rows = 1; first + g.rows < end && w.samples.rows[first + g.rows].particle == particle;)
            g.rows++;
        if ((int)threadIdx.x <= g.rows) s.rows[threadIdx.x] = w.samples.rows[first + threadIdx.x];
        __syncthreads();
        if (threadIdx.x < SLOTS) set_slot(w, s, (int)threadIdx.x, g.rows, &s.slots[threadIdx.x]);
        if (g.words)
            list_rows(w, s, g);
        else
            list_row(w, s, g);
        __syncthreads();
        const int each = FOUR ? 1 : CHILDREN;
        for (int tile = 0; tile < s.shifts; tile += UNITS * each) {
            int units = min(UNITS, (s.shifts - tile + each - 1) / each);
            load_shifts<FOUR>(w, s, g, tile);
            __syncthreads();
            add_tile<FOUR, SOURCE>(w, s, particle, units);
            __syncthreads();
            store_tile<FOUR>(w, s, g, tile, units);
            __syncthreads();
        }
    }
}

template <bool FOUR> void launch(const work &w, unsigned blocks, size_t shared, cudaStream_t stream) {
    if (w.fine && w.references.slices)
        compare<FOUR, STORED><<<blocks, THREADS, shared, stream>>>(w);
    else if (w.references.grids[0].quads)
        compare<FOUR, QUADS><<<blocks, THREADS, shared, stream>>>(w);
    else if (w.references.grids[0].dimensions == 3)
        compare<FOUR, VOLUME><<<blocks, THREADS, shared, stream>>>(w);
    else
        compare<FOUR, PLANE><<<blocks, THREADS, shared, stream>>>(w);
}

} // namespace

extern "C" enum status alignment_cuda_compare(const struct references_cuda *references,
                                              const struct sampling_cuda *sampling,
                                              const struct particles_cuda *particles,
                                              const struct samples_cuda *samples, int fine, float *ret_values,
                                              void *stream, struct err *err) {
    int rotations = fine ? sampling_rotations(*sampling) : 1, children = fine ? sampling->shift_children : 1;
    FAIL_IF(rotations < 1 || SLOTS % rotations != 0 || (children != 1 && children != CHILDREN), err, STATUS_UNSUPPORTED,
            "a CUDA device compares 1, 2, 4 or 8 rotations and 1 or 4 shifts of a sample, not %d and %d", rotations,
            children);
    FAIL_IF(sampling->shift_count > SHIFTS_MOST, err, STATUS_UNSUPPORTED,
            "a CUDA device compares up to %d shifts, not %d: take larger steps", SHIFTS_MOST, sampling->shift_count);
    if (samples->row_count == 0) return STATUS_OK;
    int n_pixels = fine ? references->fine_pixels : references->coarse_pixels;
    const work w = {*references, *sampling, *particles, *samples,
                    n_pixels,    rotations, fine,       alignment_cuda_fine_slice_row(references),
                    ret_values};
    unsigned rows = SLOTS / rotations, blocks = (samples->row_count + rows - 1) / rows;
    size_t words = rows > 1 ? ((size_t)sampling->shift_count + 31) / 32 : 0;
    size_t shared = 2 * SLOTS * words * sizeof(uint32_t) + (size_t)sampling->shift_count * sizeof(uint16_t);
    if (children == CHILDREN)
        launch<true>(w, blocks, shared, (cudaStream_t)stream);
    else
        launch<false>(w, blocks, shared, (cudaStream_t)stream);
    CUDA_TRY(cudaGetLastError(), err, "comparing particles with slices");
    return STATUS_OK;
}
