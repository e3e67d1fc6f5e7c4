/* Top-sum selection: finds the value at which the sum of the largest weights crosses a fraction of the total. Goes from
 * the highest bits of the weights to the lowest, with a histogram of sums at each step. The bits of non-negative floats
 * have the order of the floats, and buckets of leading bits are spaced logarithmically, which suits weights that differ
 * by powers of ten.
 *
 * All weights of a bucket have one exponent, so their mantissas are summed as integers: exactly, and with the same
 * result in any order of threads. Weights come from a source with each(part, visit), which calls visit(weight) for all
 * weights of the part, and with zeros, all threads of a warp together. One block works on a part, or several that meet
 * after each step; all blocks of a launch are on the device at once. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_TOP_SUM_CUH
#define ICESTREAM_KERNELS_EXPECTATION_TOP_SUM_CUH

#include "common/device_cuda.h"
#include "kernels/expectation/expectation_cuda.h"

namespace {

/* Later rounds have half the buckets; the other half is for a second prefix. */
enum { THREADS = 512, ROUNDS = 3, BUCKETS = 2048, HALF = BUCKETS / 2, UNROLL = 8 };
/* GROUPS: groups of a warp that sum first; CROWD: how large the first group must be. */
enum { GROUPS = 6, CROWD = 4 };
/* A mantissa has 24 bits, so that CHUNK of them sum to less than 2^43; their number fits above. */
constexpr int CHUNK = 1 << 19, COUNT_SHIFT = 43;
/* From this size on, a share is worth a block of its own. */
constexpr int WORTH_SHARING = 1 << 12;

/* Tables of a block. */
struct tables {
    unsigned long long packed[BUCKETS]; /* of a chunk: count, sum of mantissas */
    unsigned long long sum[BUCKETS];
    unsigned count[BUCKETS];
};

/* Memory in which the blocks of a particle meet; initially zero. */
struct meeting {
    unsigned long long sum[ROUNDS][BUCKETS];
    unsigned count[ROUNDS][BUCKETS];
    unsigned arrived[ROUNDS];
};

/* The two values to find: where the sum crosses the fraction, and the last of the `most` largest. The threshold is the
 * larger one. Their buckets may differ after the first round. */
enum { FRACTION, MOST, TARGETS };

/* State from round to round. */
struct progress {
    unsigned mask, prefix[TARGETS]; /* mask of the known bits, and these bits */
    unsigned counted[TARGETS];      /* number of weights above the bucket */
    double above, wanted, total;
    /* Sums of weights that are not in the source too, if `whole` is not negative: of all, of smaller ones. */
    double whole, below;
    bool empty, limited, apart; /* MOST is not known to be below FRACTION; MOST is above FRACTION */
    int position, last;
    double2 part[THREADS / 32];
};

__device__ inline void begin_progress(progress &p, unsigned most) {
    p = progress{};
    p.limited = most > 0;
    p.whole = -1;
}

/* The columns of a block: whole words of the kept bits. */
struct part {
    int particle, share, shares;
    size_t first, end;
};

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
    return __hiloint2double(((exponent > 0 ? exponent : 1) - 150 + 1023) << 20, 0);
}

/* Adds to a bucket; all lanes of a warp call this. If weights are nearly equal, many lanes have the same bucket and
 * would wait for each other; therefore the lanes of the largest groups sum first, and one lane of each group writes. */
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

__device__ inline part part_of(size_t length, int shares) {
    part p = {(int)blockIdx.x / shares, (int)blockIdx.x % shares, shares, 0, 0};
    size_t width = ((length + shares - 1) / shares + 31) / 32 * 32;
    p.first = width * p.share < length ? width * p.share : length;
    p.end = p.first + width < length ? p.first + width : length;
    return p;
}

/* Waits for all blocks of the particle. */
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

template <typename Source>
__device__ void histogram(const Source &source, const part &part, tables &t, const progress &p, meeting *m, int round) {
    for (int i = threadIdx.x; i < BUCKETS; i += THREADS)
        t.packed[i] = t.sum[i] = t.count[i] = 0;
    __syncthreads();
    unsigned prefix = p.prefix[FRACTION], other = p.apart ? p.prefix[MOST] : prefix, mask = p.mask;
    int since = 0;
    source.each(part, [&](float weight) {
        unsigned bits = __float_as_uint(weight);
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

__device__ inline double shift_up(double value, int step) {
    return __shfl_up_sync(0xffffffffu, value, step);
}

__device__ inline double2 shift_up(double2 value, int step) {
    return make_double2(shift_up(value.x, step), shift_up(value.y, step));
}

__device__ inline double2 operator+(double2 a, double2 b) {
    return make_double2(a.x + b.x, a.y + b.y);
}

__device__ inline double2 operator*(unsigned factor, double2 a) {
    return make_double2(factor * a.x, factor * a.y);
}

__device__ inline double2 operator-(double2 a, double2 b) {
    return make_double2(a.x - b.x, a.y - b.y);
}

/* Returns the sum over the threads before this one (one or two numbers), and the sum over all threads. */
template <typename Number> __device__ Number sum_before(Number value, progress &p, Number *ret_all) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    Number sum = value, *parts = (Number *)p.part;
    for (int step = 1; step < 32; step *= 2) {
        Number other = shift_up(sum, step);
        if (lane >= step) sum = sum + other;
    }
    if (lane == 31) parts[warp] = sum;
    __syncthreads();
    Number before = {}, all = {};
    for (int w = 0; w < THREADS / 32; w++) {
        if (w < warp) before = before + parts[w];
        all = all + parts[w];
    }
    __syncthreads();
    *ret_all = all;
    return before + (sum - value);
}

/* A bucket, and what lies above it. */
struct crossing {
    int bucket; /* -1: all buckets are empty */
    bool crossed;
    double above;
    unsigned counted;
};

/* Goes from the high end of some buckets to the one in which the sum of `value` crosses. Rounding may end at the last
 * non-empty bucket. All threads get the result. */
template <typename Value>
__device__ crossing cross(const unsigned *count, int buckets, double start, double wanted, progress &p, Value value) {
    int each = buckets / THREADS, first = (int)threadIdx.x * each;
    double mine = 0, all;
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
    /* Sum again without the values below: the rounds continue from this sum. */
    double2 above = {0, 0};
    for (int place = first; place < first + each && place < position; place++)
        above = above + make_double2(value(buckets - 1 - place), count[buckets - 1 - place]);
    (void)sum_before(above, p, &above);
    return {position < 0 ? -1 : buckets - 1 - position, crossed, start + above.x, (unsigned)above.y};
}

/* Stores the bits that a round found; one thread calls this. Drops MOST if fewer than `most` weights are above
 * FRACTION. */
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
        if (threadIdx.x == 0) {
            p.total = p.whole < 0 ? all : p.whole;
            p.above = p.whole < 0 ? 0 : p.whole - p.below - all;
            p.wanted = fraction * p.total;
        }
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

/* Like choose, for MOST alone, in place of FRACTION. */
__device__ void choose_most(const tables &t, progress &p, unsigned most, int round) {
    crossing m = cross(t.count, round == 0 ? BUCKETS : HALF, p.counted[FRACTION], most - 0.5, p,
                       [&](int bucket) { return (double)t.count[bucket]; });
    __syncthreads();
    if (threadIdx.x == 0) {
        if (m.bucket < 0)
            p.empty = true;
        else
            take_round(t, p, m, m, round);
    }
    __syncthreads();
}

__device__ inline float threshold_of(const progress &p) {
    return __uint_as_float(p.limited ? p.prefix[MOST] : p.prefix[FRACTION]);
}

/* Returns how many blocks work on each of n particles, so that all blocks are on the device at once. */
template <typename Kernel>
enum status shares_of(Kernel kernel, size_t memory, int n, size_t longest, int *ret_shares, err *err) {
    int device = 0, processors = 0, each = 0;
    CUDA_TRY(cudaGetDevice(&device), err, "asking which it is");
    CUDA_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), err, "asking for its size");
    CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, THREADS, memory), err, "asking for its size");
    size_t shares = (size_t)processors * (size_t)each / (size_t)n, worth = longest / WORTH_SHARING;
    if (shares > worth) shares = worth;
    if (shares > THREADS) shares = THREADS;
    *ret_shares = shares > 1 ? (int)shares : 1;
    return STATUS_OK;
}

} // namespace

/* Returns the scratch of posterior_cuda, which is part of top_sum_scratch. */
size_t posterior_scratch(int n);

#endif
