/* Tools for the selection of samples (posterior_cuda.cu): stored differences, cells of their logarithms, brackets of
 * cells, and memory in which several blocks of a particle meet. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_POSTERIOR_CUH
#define ICESTREAM_KERNELS_EXPECTATION_POSTERIOR_CUH

#include <math_constants.h>
#include <stddef.h>

#include "kernels/expectation/top_sum.cuh"

namespace {

enum { CELLS = 4096, CELLS_EACH = CELLS / THREADS, LISTED = 8192, WARPS = THREADS / 32, PILOTS = 2 };
/* Sweeps of a kernel: the first and its repetition, then those that narrow each of the two brackets. */
enum { NARROWINGS = 3, LEVELS = 2 + TARGETS * NARROWINGS };
constexpr float SLACK = 43, DEEPEST = 87, LOG2_E = 1.44269504f;
/* Possible error of the weight at an edge. */
constexpr double SLOP = 1e-4;
/* Most particles in a launch that uses several blocks per particle. */
constexpr int PARTICLES_MOST = 128;

/* Samples with low <= x < high, where x is minus the difference; `above` samples are better. */
struct bracket {
    float low, high;
    unsigned above, members;
};

struct window {
    float low, high, scale; /* cells per unit of x */
};

/* Shared memory of a block. */
struct __align__(16) workspace {
    union {
        unsigned cells[CELLS];
        tables sums;
    };
    float listed[LISTED]; /* x of samples in the brackets: of FRACTION from the front, of MOST from the back */
    unsigned where[LISTED];
    progress p;
    bracket of[TARGETS];
    unsigned list_count[TARGETS], list_begin[TARGETS];
    float reference, greatest, of_warp[WARPS];
    double total, below; /* sums of weights relative to the reference: of all samples, of those below a window */
    bool limited, apart; /* as in struct progress */
    int cut_low, cut_high, cut_most, last;
};

/* Memory in which the blocks of a particle meet; initially zero. */
struct gathering {
    unsigned cells[LEVELS][CELLS];
    unsigned arrived[LEVELS + 1], greatest[LEVELS], list_count[TARGETS];
    double2 sums[LEVELS + 1][THREADS]; /* of each block */
    float listed[LISTED];
};

/* Reads a row; rows are `stride` bytes apart. The assembly keeps the compiler from moving reads behind conditions,
 * where each read would be waited for, and from merging the row and particle offsets into one 64-bit multiplication. */
__device__ inline float read_row(const float *first, unsigned row, unsigned stride) {
    float value;
    asm volatile("{ .reg .u64 at; mad.wide.u32 at, %1, %2, %3; ld.global.nc.L1::no_allocate.f32 %0, [at]; }"
                 : "=f"(value)
                 : "r"(row), "r"(stride), "l"(first));
    return value;
}

/* Stored differences: one row per shift. */
struct made {
    posterior_input p;
    float depth;
    unsigned words;      /* of a row of bits */
    const float *priors; /* of shifts, in shared memory, filled up to a multiple of UNROLL */

    /* Calls visit(row, x) for the shifts of a column, and rest() after every UNROLL of them. If not inside, x is −∞ and
     * `column` only has to exist. No read depends on a condition, so that all reads start before the first is waited
     * for. */
    template <typename Visit, typename Rest>
    __device__ void each_row(size_t particle, size_t column, bool inside, Visit visit, Rest rest) const {
        unsigned slices = (unsigned)p.n_slices, last = (unsigned)p.n_shifts - 1;
        const float *dots = p.dots + particle * p.n_shifts * slices + column;
        float base = -p.norms[particle * slices + column];
        if (p.slice_log_prior) base += p.slice_log_prior[column];
        if (!inside) base = -CUDART_INF_F;
        for (unsigned row = 0; row <= last; row += UNROLL) {
            float value[UNROLL];
#pragma unroll
            for (unsigned i = 0; i < UNROLL; i++)
                value[i] = read_row(dots, min(row + i, last), 4 * slices);
            float4 prior[UNROLL / 4];
#pragma unroll
            for (unsigned i = 0; i < UNROLL / 4; i++)
                prior[i] = ((const float4 *)priors)[row / 4 + i];
#pragma unroll
            for (unsigned i = 0; i < UNROLL; i++) {
                const float4 &four = prior[i / 4];
                float log_prior = i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
                if (i == 0 || row + i <= last) visit(row + i, base + log_prior - value[i]);
            }
            rest();
        }
    }

    /* Calls visit(row, column, x) for all columns of the part and some beyond it; all threads of a warp take part
     * together. */
    template <typename Visit, typename Rest> __device__ void each(const part &part, Visit visit, Rest rest) const {
        for (size_t at = part.first; at < part.end; at += THREADS) {
            size_t column = at + threadIdx.x;
            bool inside = column < part.end;
            each_row((size_t)part.particle, inside ? column : part.end - 1, inside,
                     [&](unsigned row, float x) { visit(row, column, x); }, rest);
        }
    }
};

/* Returns the smallest multiple of UNROLL that holds n shifts. */
__host__ __device__ inline int filled_up(int n) {
    return (n + UNROLL - 1) / UNROLL * UNROLL;
}

/* Source of weights: x in a bracket, of this block or of all blocks. */
struct list {
    const volatile float *x; /* other blocks write it too */
    int step;
    unsigned count;
    float least;

    template <typename Visit> __device__ void each(const part &, Visit visit) const;
};

__device__ inline float weight_of(float x, float least) {
    float weight;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(weight) : "f"((x + least) * LOG2_E));
    return weight;
}

template <typename Visit> __device__ void list::each(const part &, Visit visit) const {
    for (unsigned at = 0; at < count; at += THREADS) {
        unsigned i = at + threadIdx.x;
        visit(i < count ? weight_of(x[(ptrdiff_t)i * step], least) : 0);
    }
}

/* Maps floats to unsigned integers in the same order; 0 is below all of them. */
__device__ inline unsigned ordered(float value) {
    unsigned bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ inline float from_ordered(unsigned bits) {
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

/* Returns the cell of x, which is not below the window's low end. Rounding keeps the order, so that a cell holds all
 * values between two floats. */
__device__ inline int cell_of(const window &w, float x) {
    return min((int)((x - w.low) * w.scale), CELLS - 1);
}

/* Returns the smallest x of a cell and of those above it. */
__device__ float edge(const window &w, int cell) {
    if (cell <= 0) return w.low;
    if (cell >= CELLS) return w.high;
    unsigned below = ordered(w.low), above = ordered(w.high);
    while (above - below > 1) {
        unsigned middle = below + (above - below) / 2;
        if (cell_of(w, from_ordered(middle)) >= cell)
            above = middle;
        else
            below = middle;
    }
    return from_ordered(above);
}

/* Returns the maximum over the block, to all threads. */
__device__ float greatest_of(float mine, workspace &s) {
    for (int step = 16; step > 0; step /= 2)
        mine = fmaxf(mine, __shfl_down_sync(0xffffffffu, mine, step));
    if ((threadIdx.x & 31) == 0) s.of_warp[threadIdx.x >> 5] = mine;
    __syncthreads();
    mine = s.of_warp[0];
    for (int w = 1; w < WARPS; w++)
        mine = fmaxf(mine, s.of_warp[w]);
    __syncthreads();
    return mine;
}

/* Replaces the block's sums, and its cells if requested, by those of all blocks of the particle. */
__device__ void gather(const part &part, workspace &s, gathering *g, int level, bool cells, double2 *sums,
                       float *greatest) {
    if (part.shares == 1) return;
    if (cells)
        for (int i = threadIdx.x; i < CELLS; i += THREADS)
            if (s.cells[i]) atomicAdd(&g->cells[level][i], s.cells[i]);
    if (threadIdx.x == 0) {
        g->sums[level][part.share] = *sums;
        if (cells) atomicMax(&g->greatest[level], ordered(*greatest));
    }
    meet(part, &g->arrived[level]);
    bool mine = (int)threadIdx.x < part.shares;
    (void)sum_before(mine ? __ldcg(&g->sums[level][threadIdx.x]) : make_double2(0, 0), s.p, sums);
    if (!cells) return;
    *greatest = from_ordered(__ldcg(&g->greatest[level]));
    for (int i = threadIdx.x; i < CELLS; i += THREADS)
        s.cells[i] = __ldcg(&g->cells[level][i]);
}

} // namespace

#endif
