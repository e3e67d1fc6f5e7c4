/* Selects, from the differences of the coarse pass, the samples that matter, in two sweeps over them.
 *
 * The first sweep sums all weights and counts them in narrow cells of their logarithm: counting is the only thing that
 * shared memory does fast. The edges of a cell bound the weights in it, so the counts leave a bracket of few cells that
 * contains the threshold. The second sweep marks samples above the bracket, sums those below and lists those inside.
 * The list then gives the exact threshold (top_sum.cuh).
 *
 * Weights are relative to the largest, which is not known at first. A pilot (a part of the samples) gives a reference
 * not far below it. Cells reach from the depth below the reference at which all n weights together cannot come to 1 −
 * fraction, up to SLACK above it. If the largest lies above that, the first sweep is repeated. If too many samples are
 * in the bracket, it is swept again with narrower cells. */
#include "kernels/expectation/posterior.cuh"

namespace {

/* Returns the largest x of a part of the samples: all shifts of columns that lie apart. All blocks of a particle get
 * the same value. */
__device__ float pilot(const made &source, int particle, workspace &s) {
    size_t slices = (size_t)source.p.n_slices;
    float greatest = -CUDART_INF_F;
    for (int i = 0; i < PILOTS; i++) {
        size_t stripe = (threadIdx.x >> 5) + (size_t)i * WARPS;
        size_t column = slices * stripe / (PILOTS * WARPS) + (threadIdx.x & 31);
        source.each_row((size_t)particle, column < slices ? column : slices - 1, true,
                        [&](unsigned, float x) { greatest = fmaxf(greatest, x); }, [] {});
    }
    greatest = greatest_of(greatest, s);
    return greatest > -CUDART_MAX_NORMAL_F ? greatest : -CUDART_MAX_NORMAL_F;
}

/* Counts the samples in the window by cells, and sums the weights below it. The FIRST sweep sums all weights. */
template <bool FIRST>
__device__ void sweep(const made &source, const part &part, workspace &s, gathering *g, int level, const window &w) {
    for (int i = threadIdx.x; i < CELLS; i += THREADS)
        s.cells[i] = 0;
    __syncthreads();
    double2 sums = {0, 0}; /* all weights; those below the window */
    float least = -s.reference, greatest = -CUDART_INF_F, some = 0, few = 0;
    source.each(
        part,
        [&](unsigned, size_t, float x) {
            float weight = weight_of(x, least);
            if (FIRST) {
                some += weight;
                greatest = fmaxf(greatest, x);
            }
            if (x < w.low) few += weight;
            if (x >= w.low && (FIRST || x < w.high)) atomicAdd(&s.cells[cell_of(w, x)], 1u);
        },
        [&] {
            sums = sums + make_double2((double)some, (double)few);
            some = few = 0;
        });
    greatest = greatest_of(greatest, s);
    (void)sum_before(sums, s.p, &sums);
    gather(part, s, g, level, true, &sums, &greatest);
    if (threadIdx.x == 0) {
        s.below = sums.y;
        if (FIRST) s.total = sums.x, s.greatest = greatest;
    }
    __syncthreads();
}

/* Finds the cells that bound the threshold of FRACTION, going up from the smallest weight, and the cell of MOST. */
__device__ void cut(const window &w, double fraction, unsigned most, unsigned better, workspace &s) {
    float offset = w.low - s.reference, step = 1 / w.scale;
    int first = (int)threadIdx.x * CELLS_EACH;
    double2 bounds = {0, 0}, all_bounds;
    double count = 0, all;
    auto bounds_of = [&](int cell) {
        return make_double2(expf(offset + (float)cell * step) * (1 - SLOP),
                            expf(offset + (float)(cell + 1) * step) * (1 + SLOP));
    };
    for (int cell = first; cell < first + CELLS_EACH; cell++) {
        if (s.cells[cell] == 0) continue;
        bounds = bounds + s.cells[cell] * bounds_of(cell);
        count += s.cells[cell];
    }
    if (threadIdx.x == 0) s.cut_low = s.cut_high = CELLS, s.cut_most = s.last = -1;
    double2 sum = make_double2(s.below, s.below) + sum_before(bounds, s.p, &all_bounds); /* lower and upper bound */
    double counted = sum_before(count, s.p, &all), wanted = (1 - fraction) * s.total;
    for (int cell = first; cell < first + CELLS_EACH; cell++) {
        if (s.cells[cell] == 0) continue;
        if ((double)better + all - counted >= (double)most) atomicMax(&s.cut_most, cell);
        sum = sum + s.cells[cell] * bounds_of(cell);
        counted += s.cells[cell];
        if (sum.y >= wanted) atomicMin(&s.cut_low, cell);
        if (sum.x >= wanted) atomicMin(&s.cut_high, cell);
        atomicMax(&s.last, cell);
    }
    __syncthreads();
}

/* Narrows a window to the bracket of `target`. */
__device__ void narrow(const window &w, double fraction, unsigned most, int target, workspace &s) {
    unsigned better = s.of[target].above;
    cut(w, fraction, most, better, s);
    int low = min(s.cut_low, s.last), high = min(s.cut_high, s.last);
    double2 counts = {0, 0}; /* counts in the new bracket and above it */
    double over_most = 0;
    for (int cell = (int)threadIdx.x * CELLS_EACH; cell < ((int)threadIdx.x + 1) * CELLS_EACH; cell++) {
        if (cell >= low && cell <= high) counts.x += s.cells[cell];
        if (cell > high) counts.y += s.cells[cell];
        if (cell > s.cut_most) over_most += s.cells[cell];
    }
    (void)sum_before(counts, s.p, &counts);
    (void)sum_before(over_most, s.p, &over_most);
    if (threadIdx.x == 0) {
        bool beyond = s.cut_most > high;
        if (target == FRACTION) {
            s.of[FRACTION] = bracket{edge(w, low), edge(w, high + 1), better + (unsigned)counts.y, (unsigned)counts.x};
            s.limited = s.limited && (s.apart || s.cut_most >= low);
        }
        if (target == MOST || (s.limited && !s.apart && beyond)) {
            s.of[MOST] = bracket{edge(w, s.cut_most), edge(w, s.cut_most + 1), better + (unsigned)over_most,
                                 s.cells[max(s.cut_most, 0)]};
            s.apart = true;
        }
    }
    __syncthreads();
}

/* Returns whether the samples of a bracket are listed one by one. If there are too many for the list, they are all
 * equal. */
__device__ inline bool is_listed(const workspace &s, int target) {
    bool fractions = s.of[FRACTION].members <= LISTED;
    if (target == FRACTION) return fractions;
    return s.apart && s.of[MOST].members <= LISTED - (fractions ? s.of[FRACTION].members : 0);
}

/* Narrows the brackets until their samples fit the list. */
__device__ void find_brackets(const made &source, const part &part, workspace &s, gathering *g) {
    double fraction = source.p.fraction;
    int level = 0;
    float scale = CELLS / (source.depth + SLACK);
    for (; level < 2; level++) {
        __syncthreads();
        if (threadIdx.x == 0 && level == 1) s.reference = s.greatest;
        __syncthreads();
        sweep<true>(source, part, s, g, level, window{s.reference - source.depth, CUDART_INF_F, scale});
        if (s.greatest <= s.reference + SLACK) break;
    }
    if (!(s.total > 0)) return;
    level = 2;
    window first = {s.reference - source.depth, from_ordered(ordered(s.greatest) + 1), scale};
    narrow(first, fraction, source.p.most, FRACTION, s);
    for (int target = FRACTION; target <= MOST; target++) {
        if (target == MOST && !s.apart) break;
        for (int i = 0; i < NARROWINGS && !is_listed(s, target); i++) {
            bracket b = s.of[target];
            if (ordered(b.high) - ordered(b.low) <= 1) break;
            window w = {b.low, b.high, CELLS / (b.high - b.low)};
            sweep<false>(source, part, s, g, level++, w);
            narrow(w, fraction, source.p.most, target, s);
        }
    }
}

/* Marks samples that are surely kept, lists the samples in the brackets and sums the weights below the bracket of
 * FRACTION. */
__device__ void collect(const made &source, const part &part, workspace &s, gathering *g, unsigned *kept) {
    bool fractions = is_listed(s, FRACTION), mosts = is_listed(s, MOST);
    const bracket f = s.of[FRACTION], last = s.of[s.apart ? MOST : FRACTION];
    const float sure = (s.apart ? mosts : fractions) ? last.high : last.low, none = CUDART_INF_F;
    const float f_low = fractions ? f.low : none, m_low = mosts ? last.low : none, least = -s.reference;
    const unsigned slices = (unsigned)source.p.n_slices, words = source.words;
    unsigned *rows = kept + (size_t)part.particle * source.p.n_shifts * words;
    double2 sums = {0, 0};
    float few = 0, greatest = 0;
    source.each(
        part,
        [&](unsigned t, size_t column, float x) {
            if (x < f_low) few += weight_of(x, least);
            unsigned bits = __ballot_sync(0xffffffffu, x >= sure);
            if ((threadIdx.x & 31) == 0 && column < part.end) rows[t * words + (unsigned)column / 32] = bits;
            bool in = x >= f_low && x < f.high;
            if (!in && !(x >= m_low && x < last.high)) return;
            unsigned at = in ? atomicAdd(&s.list_count[FRACTION], 1u) : LISTED - 1 - atomicAdd(&s.list_count[MOST], 1u);
            s.listed[at] = x;
            s.where[at] = t * slices + (unsigned)column;
        },
        [&] {
            sums.y += (double)few;
            few = 0;
        });
    (void)sum_before(sums, s.p, &sums);
    if (part.shares > 1) {
        if (threadIdx.x < TARGETS)
            s.list_begin[threadIdx.x] = atomicAdd(&g->list_count[threadIdx.x], s.list_count[threadIdx.x]);
        __syncthreads();
        for (unsigned i = threadIdx.x; i < s.list_count[FRACTION]; i += THREADS)
            g->listed[s.list_begin[FRACTION] + i] = s.listed[i];
        for (unsigned i = threadIdx.x; i < s.list_count[MOST]; i += THREADS)
            g->listed[LISTED - 1 - s.list_begin[MOST] - i] = s.listed[LISTED - 1 - i];
        gather(part, s, g, LEVELS, false, &sums, &greatest);
    }
    if (threadIdx.x == 0) s.below = sums.y;
    __syncthreads();
}

/* Result of a bracket. */
struct outcome {
    float threshold;
    unsigned count, kept;
};

/* Finds the threshold within a bracket. For MOST alone it is the value at which the count crosses. */
__device__ outcome settle(const made &source, const part &part, workspace &s, gathering *g, int target) {
    const bracket b = s.of[target];
    float least = -s.greatest;
    if (!is_listed(s, target)) return {weight_of(b.low, least), b.above + b.members, b.above + b.members};
    double scale = exp((double)s.reference - (double)s.greatest);
    __syncthreads();
    if (threadIdx.x == 0) {
        begin_progress(s.p, target == FRACTION && s.limited && !s.apart ? source.p.most : 0);
        s.p.whole = s.total * scale;
        s.p.below = s.below * scale;
        s.p.counted[FRACTION] = s.p.counted[MOST] = b.above;
    }
    __syncthreads();
    const struct part alone = {part.particle, 0, 1, 0, 0};
    const float *x = part.shares > 1 ? g->listed : s.listed;
    const list members = {target == MOST ? x + LISTED - 1 : x, target == MOST ? -1 : 1, b.members, least};
    for (int round = 0; round < ROUNDS && !s.p.empty; round++) {
        histogram(members, alone, s.sums, s.p, nullptr, round);
        if (target == FRACTION)
            choose(s.sums, s.p, source.p.fraction, source.p.most, round);
        else
            choose_most(s.sums, s.p, source.p.most, round);
    }
    if (s.p.empty) return {0, b.above + b.members, b.above + b.members};
    return {threshold_of(s.p), s.p.counted[FRACTION], s.p.limited ? s.p.counted[MOST] : s.p.counted[FRACTION]};
}

/* Marks the kept samples among those that the block listed. */
__device__ void mark(const made &source, const part &part, const workspace &s, float threshold, unsigned *kept) {
    int target = s.apart ? MOST : FRACTION;
    unsigned slices = (unsigned)source.p.n_slices;
    unsigned *rows = kept + (size_t)part.particle * source.p.n_shifts * source.words;
    for (unsigned i = threadIdx.x; i < s.list_count[target]; i += THREADS) {
        unsigned at = target == MOST ? LISTED - 1 - i : i;
        if (weight_of(s.listed[at], -s.greatest) < threshold) continue;
        unsigned row = s.where[at] / slices, column = s.where[at] % slices;
        atomicOr(&rows[row * source.words + column / 32], 1u << (column % 32));
    }
}

__global__ void __launch_bounds__(THREADS, 2)
    select_made(made source, int shares, gathering *gatherings, top_sum *ret_sums, unsigned *ret_kept) {
    extern __shared__ __align__(16) unsigned char memory[];
    workspace &s = *(workspace *)memory;
    part part = part_of((size_t)source.p.n_slices, shares);
    gathering *g = gatherings + part.particle;
    float *priors = (float *)(memory + sizeof(workspace));
    const float *given = source.p.shift_log_prior;
    for (int t = threadIdx.x; t < filled_up(source.p.n_shifts); t += THREADS)
        priors[t] = given && t < source.p.n_shifts ? given[(size_t)part.particle * source.p.n_shifts + t] : 0;
    source.priors = priors;
    __syncthreads();
    float reference = pilot(source, part.particle, s);
    if (threadIdx.x == 0) {
        s.reference = reference;
        s.limited = source.p.most > 0;
        s.apart = false;
        for (int i = 0; i < TARGETS; i++)
            s.of[i] = bracket{CUDART_INF_F, CUDART_INF_F, 0, 0}, s.list_count[i] = 0;
    }
    __syncthreads();
    find_brackets(source, part, s, g);
    collect(source, part, s, g, ret_kept);
    outcome found = {0, 0, 0}, most;
    if (s.total > 0) {
        found = settle(source, part, s, g, FRACTION);
        if (s.apart) {
            most = settle(source, part, s, g, MOST);
            found.threshold = most.threshold, found.kept = most.kept;
        }
        mark(source, part, s, found.threshold, ret_kept);
    }
    if (part.share == 0 && threadIdx.x == 0)
        ret_sums[part.particle] = top_sum{s.total > 0 ? s.total * exp((double)s.reference - (double)s.greatest) : 0,
                                          -s.greatest, found.threshold, found.count, found.kept};
}

} // namespace

size_t posterior_scratch(int n) {
    return (size_t)(n < PARTICLES_MOST ? n : PARTICLES_MOST) * sizeof(gathering);
}

extern "C" enum status posterior_cuda(const struct posterior_input *posterior, void *scratch, struct top_sum *ret_sums,
                                      uint32_t *ret_kept, void *stream, struct err *err) {
    int n = posterior->n_particles, shares = 1;
    if (n < 1) return STATUS_OK;
    size_t samples = (size_t)posterior->n_shifts * (size_t)posterior->n_slices, memory = sizeof(workspace);
    memory += (size_t)filled_up(posterior->n_shifts) * sizeof(float);
    double depth = log((double)samples / fmax(1 - posterior->fraction, 1e-30));
    made source = {*posterior, (float)fmin(depth, (double)DEEPEST), (unsigned)kept_words(posterior->n_slices), nullptr};
    gathering *gatherings = (gathering *)scratch;
    CUDA_TRY(cuda_allow_shared((const void *)select_made), err, "asking for shared memory");
    TRY(shares_of(select_made, memory, n, n <= PARTICLES_MOST ? samples : 0, &shares, err));
    if (shares == 1) {
        select_made<<<n, THREADS, memory, (cudaStream_t)stream>>>(source, shares, gatherings, ret_sums, ret_kept);
        CUDA_TRY(cudaGetLastError(), err, "choosing the largest weights");
        return STATUS_OK;
    }
    CUDA_TRY(cudaMemsetAsync(scratch, 0, (size_t)n * sizeof(gathering), (cudaStream_t)stream), err, "clearing memory");
    void *arguments[] = {&source, &shares, &gatherings, &ret_sums, &ret_kept};
    CUDA_TRY(cudaLaunchCooperativeKernel((const void *)select_made, dim3((unsigned)(n * shares)), dim3(THREADS),
                                         arguments, memory, (cudaStream_t)stream),
             err, "choosing the largest weights");
    return STATUS_OK;
}
