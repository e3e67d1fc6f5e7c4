/* Windows that slide, on a CUDA device: see texture_cpu.c for how they go.
 *
 * A block is one warp and one displacement; its lanes slide 32 neighbouring rows of the displacement's frame abreast,
 * so that all have the same number of pairs to change and read neighbouring pixels. Each lane has its own counts in
 * shared memory, word by word between those of the others, so no two lanes meet in a bank. Counts of cells share words:
 * three of 10 bits where no window has more than 1,023 pairs (the default's has 930 at most), else two of 16. At 64
 * levels that is 107 KiB a warp, and two warps a multiprocessor; what they lack in number they make up in independent
 * loads: the five counts that a pair changes are all read before the first is written. */
#include "kernels/texture/texture_device_cuda.cuh"

enum { WARP = 32 };

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

/* Running sums of a lane. */
struct lane_sums {
    int64_t cells, sums, differences, marginals, closeness;
    uint32_t sum, sum_squares, apart, apart_squares, squares, equal;
};

template <int SIGN> static __device__ __forceinline__ int64_t signed_of(int64_t x) {
    return SIGN > 0 ? x : -x;
}

/* A pair of levels i and j enters (SIGN 1) or leaves (−1). words: of this lane, WARP apart. */
template <int LEVELS, int BITS, int SIGN>
static __device__ __forceinline__ void change(uint32_t *words, lane_sums &s, const texture_tables *__restrict__ t,
                                              uint32_t i, uint32_t j) {
    typedef layout<LEVELS, BITS> at;
    const uint32_t one = (uint32_t)SIGN, before = SIGN > 0 ? 0 : 1;
    uint32_t low = min(i, j), high = max(i, j), sum = i + j, apart = high - low;
    uint32_t cell = high * (high + 1) / 2 + low, word = cell / at::PER_WORD;
    uint32_t cell_shift = (cell - word * at::PER_WORD) * BITS, sum_shift = sum % 2 * 16, apart_shift = apart % 2 * 16;
    uint32_t *of_cell = words + word * WARP, *of_sum = words + (at::SUMS + sum / 2) * WARP;
    uint32_t *of_apart = words + (at::DIFFERENCES + apart / 2) * WARP;
    uint32_t *of_low = words + (at::MARGINALS + low) * WARP, *of_high = words + (at::MARGINALS + high) * WARP;
    uint32_t c = *of_cell, a = *of_sum, d = *of_apart, l = *of_low, h = *of_high;
    if (apart == 0) h = l + one;
    *of_cell = c + (one << cell_shift);
    *of_sum = a + (one << sum_shift);
    *of_apart = d + (one << apart_shift);
    *of_low = l + one;
    *of_high = h + one;
    /* Of a change between n and n + 1. */
    uint32_t n = (c >> cell_shift & ((1u << BITS) - 1)) - before;
    s.cells += signed_of<SIGN>(__ldg(&t->step[n]));
    s.sums += signed_of<SIGN>(__ldg(&t->step[(a >> sum_shift & 0xffff) - before]));
    s.differences += signed_of<SIGN>(__ldg(&t->step[(d >> apart_shift & 0xffff) - before]));
    s.marginals += signed_of<SIGN>(__ldg(&t->step[l - before]) + __ldg(&t->step[h - before]));
    s.closeness += signed_of<SIGN>(__ldg(&t->closeness[apart]));
    s.sum += one * sum;
    s.sum_squares += one * (sum * sum);
    s.apart += one * apart;
    s.apart_squares += one * (apart * apart);
    s.squares += one * ((2 * n + 1) << (apart == 0));
    s.equal += apart == 0 ? one : 0;
}

/* As struct frame of texture_cpu.c, of one lane. */
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

static __device__ __forceinline__ void write(const lane_sums &s, texture_record *to) {
    texture_record r = {s.cells,       s.sums,  s.differences,   s.marginals, s.closeness, s.sum,
                        s.sum_squares, s.apart, s.apart_squares, s.squares,   s.equal};
    *to = r;
}

template <int LEVELS, int BITS>
static __device__ __forceinline__ void exchange(uint32_t *words, lane_sums &s, const texture_tables *__restrict__ t,
                                                const uint8_t *__restrict__ out, const uint8_t *__restrict__ in,
                                                int apart, int count) {
    /* The next pixels are on their way while these are counted. */
    uint32_t a = __ldg(out), b = __ldg(out + apart), c = __ldg(in), d = __ldg(in + apart);
    for (int k = 1; k <= count; k++) {
        uint32_t i = a, j = b, p = c, q = d;
        if (k < count) {
            a = __ldg(out + k);
            b = __ldg(out + k + apart);
            c = __ldg(in + k);
            d = __ldg(in + k + apart);
        }
        change<LEVELS, BITS, -1>(words, s, t, i, j);
        change<LEVELS, BITS, 1>(words, s, t, p, q);
    }
}

template <int LEVELS, int BITS>
static __global__
__launch_bounds__(WARP) void slide(texture_view view, texture_chunk chunk, const uint8_t *__restrict__ planes,
                                   const texture_tables *__restrict__ tables, texture_record *__restrict__ records) {
    extern __shared__ uint32_t shared_words[];
    uint32_t *words = shared_words + threadIdx.x;
    for (int k = 0; k < layout<LEVELS, BITS>::WORDS; k++)
        words[k * WARP] = 0;
    int row = blockIdx.y * WARP + threadIdx.x, v = min(row, view.positions - 1), reach = view.reach[v];
    /* A lane beyond the circle goes with the others and writes nothing. */
    bool inside = row < view.positions;
    int widest = __reduce_max_sync(0xffffffffu, inside ? reach : 0);
    lane_frame f = frame_of(view, view.displacements[chunk.first + blockIdx.x], planes, v);
    records += (size_t)blockIdx.x * view.pixels;
    int step = view.stride * view.side, lines = min(view.stride, f.along);
    const uint8_t *at = f.first + (size_t)(view.steps - widest) * step;
    lane_sums s = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    for (int u = 0; u < f.along; u++)
        for (int k = 0; k < f.across; k++)
            change<LEVELS, BITS, 1>(words, s, tables, __ldg(at + u * view.side + k),
                                    __ldg(at + u * view.side + k + f.apart));
    for (int u = -widest;; u++) {
        if (inside && abs(u) <= reach) {
            int x = f.along_x ? u : v - view.steps, y = f.along_x ? v : u + view.steps;
            write(s, records + view.number[y] + x + view.reach[y]);
        }
        if (u == widest) return;
        const uint8_t *to = at + step, *in = to + (size_t)(f.along - lines) * view.side;
        for (int line = 0; line < lines; line++)
            exchange<LEVELS, BITS>(words, s, tables, at + line * view.side, in + line * view.side, f.apart, f.across);
        at = to;
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
    slide<LEVELS, BITS><<<blocks, WARP, layout<LEVELS, BITS>::WORDS * WARP * sizeof(uint32_t), stream>>>(
        *view, *chunk, planes, view->tables, records);
}

/* A count of 10 bits holds all pairs of such a window. */
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
