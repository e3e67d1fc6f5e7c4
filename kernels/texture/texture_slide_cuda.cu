/* Slides windows over the image, on a CUDA device; texture_cpu.c explains how they move.
 *
 * A block handles one displacement. Its lanes slide 32 neighbouring rows of the displacement's frame side by side, so
 * that all change the same number of pairs and read neighbouring pixels. Each lane has its own counts in shared memory,
 * interleaved word by word with those of the other lanes, so that no two lanes meet in a bank. Counts of cells share
 * words: three of 10 bits if no window has more than 1,023 pairs (the default window has 930 at most), otherwise two of
 * 16 bits. At 64 levels that is 107 KiB for 32 windows, and 64 windows on a multiprocessor. To have more than two warps
 * there, each warp of a block keeps a part of the counts (its role): cells, sums, differences or marginals. Roles share
 * only what they read, so a block never waits for itself. */
#include "kernels/texture/texture.cuh"

/* BATCH: number of pairs whose pixels are read before the first of them is counted. */
enum { WARP = 32, ROLES = 4, BATCH = 4 };

template <int LEVELS, int BITS> struct layout {
    enum {
        PER_WORD = 32 / BITS,
        CELLS = 0,
        SUMS = (LEVELS * (LEVELS + 1) / 2 + PER_WORD - 1) / PER_WORD, /* two a word */
        DIFFERENCES = SUMS + LEVELS,                                  /* two a word */
        MARGINALS = DIFFERENCES + LEVELS / 2,                         /* one a word: a pair can change two */
        WORDS = MARGINALS + LEVELS
    };
};

template <int SIGN> static __device__ __forceinline__ int64_t signed_of(int64_t x) {
    return SIGN > 0 ? x : -x;
}

/* Adds SIGN to the half word `k` of a lane's counts and returns the lesser of the counts before and after. */
template <int SIGN> static __device__ __forceinline__ uint32_t count_half(uint32_t *words, uint32_t k) {
    uint32_t shift = k % 2 * 16, *at = words + k / 2 * WARP, word = *at;
    *at = word + ((uint32_t)SIGN << shift);
    return (word >> shift & 0xffff) - (SIGN < 0);
}

/* The roles. change: a pair of levels i and j enters (SIGN 1) or leaves (−1). */
template <int LEVELS, int BITS> struct cells_role {
    enum { FROM = layout<LEVELS, BITS>::CELLS, TO = layout<LEVELS, BITS>::SUMS };
    int64_t cells;
    uint32_t squares, equal;

    template <int SIGN>
    __device__ __forceinline__ void change(uint32_t *words, const texture_tables *__restrict__ t, uint32_t i,
                                           uint32_t j) {
        const uint32_t one = (uint32_t)SIGN, per_word = layout<LEVELS, BITS>::PER_WORD;
        uint32_t low = min(i, j), high = max(i, j), cell = high * (high + 1) / 2 + low, word = cell / per_word;
        uint32_t shift = (cell - word * per_word) * BITS, *at = words + word * WARP, c = *at;
        *at = c + (one << shift);
        uint32_t n = (c >> shift & ((1u << BITS) - 1)) - (SIGN < 0);
        cells += signed_of<SIGN>(__ldg(&t->step[n]));
        squares += one * ((2 * n + 1) << (i == j));
        equal += i == j ? one : 0;
    }
    __device__ __forceinline__ void write(texture_record *to) const {
        to->cells = cells;
        to->squares = squares;
        to->equal = equal;
    }
};

template <int LEVELS, int BITS> struct sums_role {
    enum { FROM = layout<LEVELS, BITS>::SUMS, TO = layout<LEVELS, BITS>::DIFFERENCES };
    int64_t sums;
    uint32_t sum, sum_squares;

    template <int SIGN>
    __device__ __forceinline__ void change(uint32_t *words, const texture_tables *__restrict__ t, uint32_t i,
                                           uint32_t j) {
        uint32_t k = i + j, n = count_half<SIGN>(words, k);
        sums += signed_of<SIGN>(__ldg(&t->step[n]));
        sum += (uint32_t)SIGN * k;
        sum_squares += (uint32_t)SIGN * (k * k);
    }
    __device__ __forceinline__ void write(texture_record *to) const {
        to->sums = sums;
        to->sum = sum;
        to->sum_squares = sum_squares;
    }
};

template <int LEVELS, int BITS> struct differences_role {
    enum { FROM = layout<LEVELS, BITS>::DIFFERENCES, TO = layout<LEVELS, BITS>::MARGINALS };
    int64_t differences, closeness;
    uint32_t apart, apart_squares;

    template <int SIGN>
    __device__ __forceinline__ void change(uint32_t *words, const texture_tables *__restrict__ t, uint32_t i,
                                           uint32_t j) {
        uint32_t k = max(i, j) - min(i, j), n = count_half<SIGN>(words, k);
        differences += signed_of<SIGN>(__ldg(&t->step[n]));
        closeness += signed_of<SIGN>(__ldg(&t->closeness[k]));
        apart += (uint32_t)SIGN * k;
        apart_squares += (uint32_t)SIGN * (k * k);
    }
    __device__ __forceinline__ void write(texture_record *to) const {
        to->differences = differences;
        to->closeness = closeness;
        to->apart = apart;
        to->apart_squares = apart_squares;
    }
};

template <int LEVELS, int BITS> struct marginals_role {
    enum { FROM = layout<LEVELS, BITS>::MARGINALS, TO = layout<LEVELS, BITS>::WORDS };
    int64_t marginals;

    template <int SIGN>
    __device__ __forceinline__ void change(uint32_t *words, const texture_tables *__restrict__ t, uint32_t i,
                                           uint32_t j) {
        const uint32_t one = (uint32_t)SIGN, before = SIGN < 0;
        uint32_t *of_i = words + i * WARP, *of_j = words + j * WARP, n = *of_i, m = *of_j;
        if (i == j) m += one;
        *of_i = n + one;
        *of_j = m + one;
        marginals += signed_of<SIGN>(__ldg(&t->step[n - before]) + __ldg(&t->step[m - before]));
    }
    __device__ __forceinline__ void write(texture_record *to) const {
        to->marginals = marginals;
    }
};

/* The frame of one lane, as struct frame of texture_cpu.c. */
struct lane_frame {
    const uint8_t *first; /* of the window at u = 0 */
    int apart, across, along;
    bool along_x;
};

static __device__ lane_frame frame_of(const texture_view &view, const texture_displacement &d, const uint8_t *planes,
                                      int v) {
    bool along_x = abs(d.dy) >= abs(d.dx);
    int du = along_x ? d.dx : d.dy, dv = along_x ? d.dy : d.dx;
    lane_frame f = {planes + (along_x ? (size_t)view.side * view.side : 0), du * view.side + dv, view.window - abs(dv),
                    view.window - abs(du), along_x};
    f.first += (size_t)max(0, -du) * view.side + v * view.stride + max(0, -dv);
    return f;
}

/* Removes `COUNT` neighbouring pairs and adds as many. */
template <int COUNT, class ROLE>
static __device__ __forceinline__ void exchange(ROLE &role, uint32_t *words, const texture_tables *__restrict__ t,
                                                const uint8_t *__restrict__ out, const uint8_t *__restrict__ in,
                                                int apart) {
    uint32_t pixels[COUNT][4];
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        pixels[k][0] = __ldg(out + k);
        pixels[k][1] = __ldg(out + k + apart);
        pixels[k][2] = __ldg(in + k);
        pixels[k][3] = __ldg(in + k + apart);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        role.template change<-1>(words, t, pixels[k][0], pixels[k][1]);
        role.template change<1>(words, t, pixels[k][2], pixels[k][3]);
    }
}

template <class ROLE>
static __device__ __forceinline__ void plough(const texture_view &view, const lane_frame &f, uint32_t *words,
                                              const texture_tables *__restrict__ t, int row, int v,
                                              texture_record *__restrict__ records) {
    int reach = view.reach[v], step = view.stride * view.side, lines = min(view.stride, f.along);
    /* A lane beyond the circle follows the others and writes nothing. */
    bool inside = row < view.positions;
    int widest = __reduce_max_sync(0xffffffffu, inside ? reach : 0);
    for (int k = ROLE::FROM; k < ROLE::TO; k++)
        words[k * WARP] = 0;
    words += ROLE::FROM * WARP;
    ROLE role = {};
    const uint8_t *at = f.first + (size_t)(view.steps - widest) * step;
    for (int u = 0; u < f.along; u++)
        for (int k = 0; k < f.across; k++)
            role.template change<1>(words, t, __ldg(at + u * view.side + k), __ldg(at + u * view.side + k + f.apart));
    for (int u = -widest;; u++) {
        if (inside && abs(u) <= reach) {
            int x = f.along_x ? u : v - view.steps, y = f.along_x ? v : u + view.steps;
            role.write(records + view.number[y] + x + view.reach[y]);
        }
        if (u == widest) return;
        const uint8_t *to = at + step, *in = to + (size_t)(f.along - lines) * view.side;
        for (int line = 0; line < lines; line++) {
            const uint8_t *leaving = at + line * view.side, *entering = in + line * view.side;
            int k = 0;
            for (; k + BATCH <= f.across; k += BATCH)
                exchange<BATCH>(role, words, t, leaving + k, entering + k, f.apart);
            for (; k < f.across; k++)
                exchange<1>(role, words, t, leaving + k, entering + k, f.apart);
        }
        at = to;
    }
}

template <int LEVELS, int BITS>
static __global__ __launch_bounds__(WARP *ROLES) void slide(texture_view view, texture_chunk chunk,
                                                            const uint8_t *__restrict__ planes,
                                                            const texture_tables *__restrict__ tables,
                                                            texture_record *__restrict__ records) {
    extern __shared__ uint32_t shared_words[];
    uint32_t lane = threadIdx.x % WARP, *words = shared_words + lane;
    int row = blockIdx.y * WARP + lane, v = min(row, view.positions - 1);
    lane_frame f = frame_of(view, view.displacements[chunk.first + blockIdx.x], planes, v);
    records += (size_t)blockIdx.x * view.pixels;
    switch (threadIdx.x / WARP) {
    case 0:
        return plough<cells_role<LEVELS, BITS>>(view, f, words, tables, row, v, records);
    case 1:
        return plough<sums_role<LEVELS, BITS>>(view, f, words, tables, row, v, records);
    case 2:
        return plough<differences_role<LEVELS, BITS>>(view, f, words, tables, row, v, records);
    default:
        return plough<marginals_role<LEVELS, BITS>>(view, f, words, tables, row, v, records);
    }
}

static __global__ void turn(int side, uint8_t *planes) {
    uint8_t *plane = planes + (size_t)blockIdx.z * 2 * side * side, *turned = plane + (size_t)side * side;
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < side && y < side) turned[(size_t)x * side + y] = plane[(size_t)y * side + x];
}

enum status texture_turn_launch(int side, uint8_t *planes, cudaStream_t stream, struct err *err) {
    dim3 threads(32, 8), blocks((side + 31) / 32, (side + 7) / 8, TEXTURE_QUANTISATIONS);
    turn<<<blocks, threads, 0, stream>>>(side, planes);
    CUDA_TRY(cudaGetLastError(), err, "turning grey levels");
    return STATUS_OK;
}

template <int LEVELS, int BITS> static enum status prepare(struct err *err) {
    CUDA_TRY(cudaFuncSetAttribute(slide<LEVELS, BITS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  layout<LEVELS, BITS>::WORDS * WARP * (int)sizeof(uint32_t)),
             err, "asking for shared memory");
    CUDA_TRY(cudaFuncSetAttribute(slide<LEVELS, BITS>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared),
             err, "asking for shared memory");
    return STATUS_OK;
}

template <int LEVELS, int BITS>
static void launch(const struct texture_view *view, const struct texture_chunk *chunk, const uint8_t *planes,
                   struct texture_record *records, cudaStream_t stream) {
    dim3 blocks(chunk->count, (view->positions + WARP - 1) / WARP);
    slide<LEVELS, BITS><<<blocks, WARP * ROLES, layout<LEVELS, BITS>::WORDS * WARP * sizeof(uint32_t), stream>>>(
        *view, *chunk, planes, view->tables, records);
}

/* Returns whether a count of 10 bits holds all pairs of such a window. */
static bool tight(int window) {
    return window * (window - 1) < 1024;
}

enum status texture_slide_prepare(int window, struct err *err) {
    if (tight(window)) {
        TRY((prepare<16, 10>(err)));
        TRY((prepare<32, 10>(err)));
        return prepare<64, 10>(err);
    }
    TRY((prepare<16, 16>(err)));
    TRY((prepare<32, 16>(err)));
    return prepare<64, 16>(err);
}

enum status texture_slide_launch(const struct texture_view *view, const struct texture_chunk *chunk, int levels,
                                 const uint8_t *planes, struct texture_record *records, cudaStream_t stream,
                                 struct err *err) {
    bool narrow = tight(view->window);
    (levels <= 16   ? narrow ? launch<16, 10> : launch<16, 16>
       : levels <= 32 ? narrow ? launch<32, 10> : launch<32, 16>
       : narrow ? launch<64, 10>
                    : launch<64, 16>)(view, chunk, planes, records, stream);
    CUDA_TRY(cudaGetLastError(), err, "sliding windows");
    return STATUS_OK;
}
