/* Top-sum selection: the value at which the sum of the largest weights crosses a fraction of the total, found by going
 * down from the highest bits of the weights to the lowest, with a histogram of sums at each step. The bits of floats that
 * are not negative are in their order, and buckets of leading bits lie on a logarithmic scale, which suits weights that
 * differ by powers of ten.
 *
 * All weights of a bucket have one exponent, so their mantissas are summed as whole numbers: exact, and the same in
 * whatever order the threads come. A particle is worked on by one block, or by several that meet after each step; all
 * blocks of a launch are on the device at once. */
#include <math_constants.h>

#include "common/device_cuda.h"
#include "kernels/expectation/expectation_cuda.h"

namespace {

/* Later rounds have half the buckets: the other half is for a second prefix. */
enum { THREADS = 512, ROUNDS = 3, BUCKETS = 2048, HALF = BUCKETS / 2, UNROLL = 8, MEETINGS = ROUNDS + 1 };
/* Of a warp: groups that add up first, and how large the first must be. */
enum { GROUPS = 6, CROWD = 4 };
/* A mantissa has 24 bits, so that many sum to less than 2^43, and their number fits above. */
constexpr int CHUNK = 1 << 19, COUNT_SHIFT = 43;
constexpr float LEAST_EXPONENT = -87;
/* Particles of one launch; each share is worth a block of its own from here on. */
constexpr int PARTICLES_MOST = 512, WORTH_SHARING = 1 << 14;

/* Of a block. */
struct tables {
    unsigned long long packed[BUCKETS]; /* of a chunk: count, sum of mantissas */
    unsigned long long sum[BUCKETS];
    unsigned count[BUCKETS];
};

/* Where the blocks of a particle meet; starts as zeros. */
struct meeting {
    unsigned long long sum[ROUNDS][BUCKETS];
    unsigned count[ROUNDS][BUCKETS];
    unsigned arrived[MEETINGS], greatest; /* of -difference, see ordered() */
};

/* The two values that are looked for: where the sum crosses the fraction, and the last of so many weights. Of these the
 * larger is the threshold. Their buckets may be different ones after the first round. */
enum { FRACTION, MOST, TARGETS };

/* What the rounds hand on. */
struct progress {
    unsigned mask, prefix[TARGETS]; /* bits that are known */
    unsigned counted[TARGETS];      /* weights above the bucket */
    double above, wanted, total;
    bool empty, limited, apart; /* MOST is not below FRACTION, as far as is known; it is above it */
    int position, last;
    double part[THREADS / 32];
    float greatest[THREADS / 32], least;
};

/* Which columns are a block's: whole words of the bits that are kept. */
struct part {
    int particle, share, shares;
    size_t first, end;
};

/* Weights as they are: one row. */
struct stored {
    const float *weights;
    const size_t *begin;

    static constexpr bool MADE = false;
    __device__ size_t length(int particle) const { return begin[particle + 1] - begin[particle]; }

    /* Calls visit(row, column, value) for all columns of the part and some beyond it, where the value is `outside`; all
     * threads of a warp together. */
    template <typename Visit> __device__ void each(const part &part, float outside, Visit visit) const {
        const float *from = weights + begin[part.particle];
        for (size_t at = part.first; at < part.end; at += THREADS * UNROLL) {
            float value[UNROLL];
#pragma unroll
            for (int i = 0; i < UNROLL; i++) {
                size_t column = at + (size_t)i * THREADS + threadIdx.x;
                value[i] = column < part.end ? from[column] : outside;
            }
#pragma unroll
            for (int i = 0; i < UNROLL; i++)
                visit(0, at + (size_t)i * THREADS + threadIdx.x, value[i]);
        }
    }
};

/* Weights that are made of differences: a row for each shift, whose value is minus the difference. */
struct made {
    posterior_input p;

    static constexpr bool MADE = true;
    __device__ size_t length(int) const { return (size_t)p.n_slices; }

    template <typename Visit> __device__ void each(const part &part, float outside, Visit visit) const {
        size_t slices = (size_t)p.n_slices, particle = (size_t)part.particle;
        const float *prior = p.shift_log_prior ? p.shift_log_prior + particle * p.n_shifts : nullptr;
        for (size_t at = part.first; at < part.end; at += THREADS) {
            size_t column = at + threadIdx.x;
            bool inside = column < part.end;
            const float *dots = p.dots + particle * p.n_shifts * slices + column;
            float base = inside ? -p.norms[particle * slices + column] : 0;
            if (inside && p.slice_log_prior) base += p.slice_log_prior[column];
            for (int row = 0; row < p.n_shifts; row += UNROLL) {
                float value[UNROLL];
#pragma unroll
                for (int i = 0; i < UNROLL; i++)
                    value[i] = inside && row + i < p.n_shifts ? dots[(size_t)(row + i) * slices] : 0;
#pragma unroll
                for (int i = 0; i < UNROLL; i++)
                    if (row + i < p.n_shifts)
                        visit(row + i, column, inside ? base + (prior ? prior[row + i] : 0) - value[i] : outside);
            }
        }
    }
};

__device__ inline float weight_of(float value, float least) {
    float x = value + least;
    return x > LEAST_EXPONENT ? __expf(x) : 0;
}

__device__ inline int shift_of(int round) {
    return round == 0 ? 20 : round == 1 ? 10 : 0;
}

__device__ inline unsigned bucket_mask(int round) {
    return round == 0 ? 0x7ffu : 0x3ffu;
}

__device__ inline unsigned mantissa(unsigned bits) {
    return bits >> 23 ? (bits & 0x7fffffu) | 0x800000u : bits;
}

__device__ inline double scale(unsigned bits) {
    int exponent = (int)(bits >> 23);
    return ldexp(1.0, (exponent > 0 ? exponent : 1) - 150);
}

/* Floats in the order of their values as unsigned numbers; 0 is less than all. */
__device__ inline unsigned ordered(float value) {
    unsigned bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ inline float from_ordered(unsigned bits) {
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

/* All lanes of a warp. Where weights are nearly alike, many lanes have one bucket and would wait for each other: the
 * lanes of the largest groups add up first, and one of each writes. */
__device__ inline void add(tables &t, bool mine, unsigned bucket, unsigned bits) {
    unsigned value = mantissa(bits);
    unsigned todo = __ballot_sync(0xffffffffu, mine);
#if __CUDA_ARCH__ >= 800
    for (int turn = 0; turn < GROUPS && todo; turn++) {
        int leader = __ffs((int)todo) - 1;
        unsigned theirs = __shfl_sync(0xffffffffu, bucket, leader);
        bool in = mine && bucket == theirs;
        unsigned group = __ballot_sync(0xffffffffu, in);
        if (turn == 0 && __popc(group) < CROWD) break;
        unsigned sum = __reduce_add_sync(0xffffffffu, in ? value : 0);
        if ((int)(threadIdx.x & 31) == leader)
            atomicAdd(&t.packed[bucket], (unsigned long long)__popc(group) << COUNT_SHIFT | sum);
        mine = mine && !in;
        todo &= ~group;
    }
#endif
    if (mine) atomicAdd(&t.packed[bucket], 1ull << COUNT_SHIFT | value);
}

__device__ void unpack(tables &t) {
    __syncthreads();
    for (int i = threadIdx.x; i < BUCKETS; i += THREADS) {
        unsigned long long packed = t.packed[i];
        if (packed == 0) continue;
        t.sum[i] += packed & ((1ull << COUNT_SHIFT) - 1);
        t.count[i] += (unsigned)(packed >> COUNT_SHIFT);
        t.packed[i] = 0;
    }
    __syncthreads();
}

template <typename Source> __device__ part part_of(const Source &source, int shares) {
    part p = {(int)blockIdx.x / shares, (int)blockIdx.x % shares, shares, 0, 0};
    size_t length = source.length(p.particle), width = ((length + shares - 1) / shares + 31) / 32 * 32;
    p.first = width * p.share < length ? width * p.share : length;
    p.end = p.first + width < length ? p.first + width : length;
    return p;
}

/* All blocks of a particle come here before any goes on. */
__device__ void meet(const part &part, unsigned *arrived) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1u);
        while (*(volatile unsigned *)arrived < (unsigned)part.shares)
            __nanosleep(100);
        __threadfence();
    }
    __syncthreads();
}

template <typename Source> __device__ void find_least(const Source &source, const part &part, progress &p, meeting *m) {
    const float none = -CUDART_INF_F;
    float greatest = none;
    source.each(part, none, [&](int, size_t, float value) { greatest = fmaxf(greatest, value); });
    for (int step = 16; step > 0; step /= 2)
        greatest = fmaxf(greatest, __shfl_down_sync(0xffffffffu, greatest, step));
    if ((threadIdx.x & 31) == 0) p.greatest[threadIdx.x >> 5] = greatest;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < THREADS / 32; w++)
            greatest = fmaxf(greatest, p.greatest[w]);
        if (part.shares > 1) atomicMax(&m->greatest, ordered(greatest));
        p.least = -greatest;
    }
    if (part.shares > 1) {
        meet(part, &m->arrived[ROUNDS]);
        if (threadIdx.x == 0) p.least = -from_ordered(*(volatile unsigned *)&m->greatest);
    }
    __syncthreads();
}

template <typename Source>
__device__ void histogram(const Source &source, const part &part, tables &t, const progress &p, meeting *m, int round) {
    for (int i = threadIdx.x; i < BUCKETS; i += THREADS)
        t.packed[i] = t.sum[i] = t.count[i] = 0;
    __syncthreads();
    unsigned prefix = p.prefix[FRACTION], other = p.apart ? p.prefix[MOST] : prefix, mask = p.mask;
    float least = p.least;
    int since = 0;
    source.each(part, Source::MADE ? -CUDART_INF_F : 0.0f,
         [&](int, size_t, float value) {
             unsigned bits = __float_as_uint(Source::MADE ? weight_of(value, least) : value);
             if (since == CHUNK / THREADS) {
                 unpack(t);
                 since = 0;
             }
             since++;
             unsigned bucket = bits >> shift_of(round) & bucket_mask(round), known = bits & mask;
             add(t, bits != 0 && (known == prefix || known == other), known == prefix ? bucket : bucket + HALF, bits);
         });
    unpack(t);
    if (part.shares == 1) return;
    for (int i = threadIdx.x; i < BUCKETS; i += THREADS)
        if (t.count[i]) {
            atomicAdd(&m->sum[round][i], t.sum[i]);
            atomicAdd(&m->count[round][i], t.count[i]);
        }
    meet(part, &m->arrived[round]);
    for (int i = threadIdx.x; i < BUCKETS; i += THREADS) {
        t.sum[i] = __ldcg(&m->sum[round][i]);
        t.count[i] = __ldcg(&m->count[round][i]);
    }
    __syncthreads();
}

/* The sum over the threads before this one. */
__device__ double sum_before(double value, progress &p, double *ret_all) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    double sum = value;
    for (int step = 1; step < 32; step *= 2) {
        double other = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) p.part[warp] = sum;
    __syncthreads();
    double before = 0, all = 0;
    for (int w = 0; w < THREADS / 32; w++) {
        if (w < warp) before += p.part[w];
        all += p.part[w];
    }
    __syncthreads();
    *ret_all = all;
    return before + (sum - value);
}

/* A bucket, and what lies above it. */
struct crossing {
    int bucket; /* -1: all are empty */
    bool crossed;
    double above;
    unsigned counted;
};

/* From the high end of some buckets to the one in which the sum of `value` crosses; rounding may leave it at the last one
 * that holds anything. All threads get it. */
template <typename Value>
__device__ crossing cross(const unsigned *count, int buckets, double start, double wanted, progress &p, Value value) {
    int each = buckets / THREADS, first = (int)threadIdx.x * each;
    double mine = 0, all, whole;
    for (int i = 0; i < each; i++)
        mine += value(buckets - 1 - first - i);
    if (threadIdx.x == 0) p.position = buckets, p.last = -1;
    double sum = start + sum_before(mine, p, &all);
    for (int place = first; place < first + each; place++) {
        if (count[buckets - 1 - place] == 0) continue;
        sum += value(buckets - 1 - place);
        atomicMax(&p.last, place);
        if (sum > wanted) atomicMin(&p.position, place);
    }
    __syncthreads();
    bool crossed = p.position < buckets;
    int position = crossed ? p.position : p.last;
    /* Once more without what lies below, which is what the rounds go on from. */
    double above = 0, counted = 0;
    for (int place = first; place < first + each && place < position; place++) {
        above += value(buckets - 1 - place);
        counted += count[buckets - 1 - place];
    }
    (void)sum_before(above, p, &all);
    (void)sum_before(counted, p, &whole);
    return {position < 0 ? -1 : buckets - 1 - position, crossed, start + all, (unsigned)whole};
}

/* One thread: the bits that a round has found. MOST is forgotten where fewer weights than that are above FRACTION. */
__device__ void take_round(const tables &t, progress &p, const crossing &f, const crossing &m, int round) {
    int shift = shift_of(round);
    bool last = round == ROUNDS - 1;
    unsigned prefix = p.prefix[FRACTION] | (unsigned)f.bucket << shift;
    if (p.limited) {
        unsigned limit = p.prefix[MOST] | (unsigned)m.bucket << shift;
        p.limited = m.crossed && limit >= prefix;
        p.counted[MOST] += m.counted + (last ? t.count[m.bucket + (p.apart ? HALF : 0)] : 0);
        p.prefix[MOST] = limit;
        p.apart = p.limited && limit > prefix;
    }
    p.above = f.above;
    p.counted[FRACTION] += f.counted + (last ? t.count[f.bucket] : 0);
    p.prefix[FRACTION] = prefix;
    p.mask |= bucket_mask(round) << shift;
}

__device__ void choose(const tables &t, progress &p, double fraction, unsigned most, int round) {
    int buckets = round == 0 ? BUCKETS : HALF, shift = shift_of(round);
    unsigned prefix = p.prefix[FRACTION];
    auto weight = [&](int bucket) {
        return t.count[bucket] ? (double)t.sum[bucket] * scale(prefix | (unsigned)bucket << shift) : 0.0;
    };
    if (round == 0) {
        double mine = 0, all;
        for (int i = 0; i < BUCKETS / THREADS; i++)
            mine += weight(BUCKETS - 1 - (int)threadIdx.x * (BUCKETS / THREADS) - i);
        (void)sum_before(mine, p, &all);
        if (threadIdx.x == 0) p.total = all, p.wanted = fraction * all;
        __syncthreads();
    }
    crossing f = cross(t.count, buckets, p.above, p.wanted, p, weight), m = {-1, false, 0, 0};
    const unsigned *count = t.count + (p.apart ? HALF : 0);
    if (p.limited && f.bucket >= 0)
        m = cross(count, buckets, p.counted[MOST], most - 0.5, p, [&](int bucket) { return (double)count[bucket]; });
    __syncthreads();
    if (threadIdx.x == 0) {
        if (f.bucket < 0)
            p.empty = true;
        else
            take_round(t, p, f, m, round);
    }
    __syncthreads();
}

__device__ inline float threshold_of(const progress &p) {
    return __uint_as_float(p.limited ? p.prefix[MOST] : p.prefix[FRACTION]);
}

/* A bit for each weight that is kept. */
template <typename Source>
__device__ void keep(const Source &source, const part &part, const progress &p, unsigned *kept) {
    float threshold = threshold_of(p), least = p.least;
    size_t words = (source.length(part.particle) + 31) / 32, rows = (size_t)part.particle * source.p.n_shifts;
    source.each(part, -CUDART_INF_F, [&](int t, size_t column, float value) {
        unsigned bits = __ballot_sync(0xffffffffu, weight_of(value, least) >= threshold && column < part.end);
        if ((threadIdx.x & 31) == 0 && column < part.end) kept[(rows + t) * words + column / 32] = bits;
    });
}

template <typename Source>
__global__ void __launch_bounds__(THREADS, 2)
    select(Source source, int shares, double fraction, unsigned most, meeting *meetings, top_sum *ret_sums,
           unsigned *ret_kept) {
    __shared__ tables t;
    __shared__ progress p;
    part part = part_of(source, shares);
    meeting *m = meetings + part.particle;
    if (threadIdx.x == 0) {
        p.mask = 0;
        for (int i = 0; i < TARGETS; i++)
            p.prefix[i] = p.counted[i] = 0;
        p.above = p.total = p.wanted = 0;
        p.least = 0;
        p.empty = p.apart = false;
        p.limited = most > 0;
    }
    __syncthreads();
    if constexpr (Source::MADE) find_least(source, part, p, m);
    for (int round = 0; round < ROUNDS && !p.empty; round++) {
        histogram(source, part, t, p, m, round);
        choose(t, p, fraction, most, round);
    }
    if (part.share == 0 && threadIdx.x == 0) {
        unsigned all = (unsigned)source.length(part.particle), count = p.empty ? all : p.counted[FRACTION];
        ret_sums[part.particle] =
            top_sum{p.total, p.least, threshold_of(p), count, p.limited && !p.empty ? p.counted[MOST] : count};
    }
    if constexpr (Source::MADE) keep(source, part, p, ret_kept);
}

/* How many blocks work on each of n particles, so that all are on the device at once. */
template <typename Source> enum status shares_of(int n, size_t longest, int *ret_shares, err *err) {
    int device = 0, processors = 0, each = 0;
    CUDA_TRY(cudaGetDevice(&device), err, "asking which it is");
    CUDA_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), err, "asking for its size");
    CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, select<Source>, THREADS, 0), err,
             "asking for its size");
    size_t shares = (size_t)processors * (size_t)each / (size_t)n, worth = longest / WORTH_SHARING;
    if (shares > worth) shares = worth;
    *ret_shares = shares > 1 ? (int)shares : 1;
    return STATUS_OK;
}

template <typename Source>
enum status launch(Source source, int n, size_t longest, double fraction, uint32_t most, void *scratch,
                   top_sum *ret_sums, uint32_t *ret_kept, cudaStream_t stream, err *err) {
    int shares = 1;
    TRY(shares_of<Source>(n, longest, &shares, err));
    meeting *meetings = (meeting *)scratch;
    if (shares == 1) {
        select<<<n, THREADS, 0, stream>>>(source, shares, fraction, most, meetings, ret_sums, ret_kept);
        CUDA_TRY(cudaGetLastError(), err, "choosing the largest weights");
        return STATUS_OK;
    }
    CUDA_TRY(cudaMemsetAsync(scratch, 0, (size_t)n * sizeof(meeting), stream), err, "clearing memory");
    void *arguments[] = {&source, &shares, &fraction, &most, &meetings, &ret_sums, &ret_kept};
    CUDA_TRY(cudaLaunchCooperativeKernel((const void *)select<Source>, dim3((unsigned)(n * shares)), dim3(THREADS),
                                         arguments, 0, stream),
             err, "choosing the largest weights");
    return STATUS_OK;
}

} // namespace

extern "C" size_t top_sum_scratch(int n) {
    /* Only so many particles leave room for several blocks each. */
    return (size_t)(n < PARTICLES_MOST ? n : PARTICLES_MOST) * sizeof(meeting);
}

extern "C" enum status top_sum_cuda(const float *weights, const size_t *begin, int n, size_t longest, double fraction,
                                    uint32_t most, void *scratch, struct top_sum *ret_sums, void *stream,
                                    struct err *err) {
    if (n < 1) return STATUS_OK;
    return launch(stored{weights, begin}, n, n <= PARTICLES_MOST ? longest : 0, fraction, most, scratch, ret_sums,
                  nullptr, (cudaStream_t)stream, err);
}

extern "C" enum status posterior_cuda(const struct posterior_input *posterior, void *scratch, struct top_sum *ret_sums,
                                      uint32_t *ret_kept, void *stream, struct err *err) {
    int n = posterior->n_particles;
    if (n < 1) return STATUS_OK;
    size_t longest = (size_t)posterior->n_shifts * (size_t)posterior->n_slices;
    return launch(made{*posterior}, n, n <= PARTICLES_MOST ? longest : 0, posterior->fraction, posterior->most,
                  scratch, ret_sums, ret_kept, (cudaStream_t)stream, err);
}
