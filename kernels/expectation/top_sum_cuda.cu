/* Top-sum selection: the value at which the sum of the largest weights crosses a fraction of the total, found by going
 * down from the highest bits of the weights to the lowest, with a histogram of sums at each step. The bits of floats that
 * are not negative are in their order, and buckets of leading bits lie on a logarithmic scale, which suits weights that
 * differ by powers of ten.
 *
 * All weights of a bucket have one exponent, so their mantissas are summed as whole numbers: exact, and the same in
 * whatever order the threads come. */
#include <cooperative_groups.h>

#include "common/device_cuda.h"
#include "kernels/expectation/expectation_cuda.h"

namespace cg = cooperative_groups;

namespace {

enum { THREADS = 512, ROUNDS = 3, BUCKETS = 2048, EACH = BUCKETS / THREADS, UNROLL = 8 };
/* A mantissa has 24 bits, so that many sum to less than 2^43, and their number fits above. */
constexpr size_t CHUNK = (size_t)1 << 19;
constexpr int COUNT_SHIFT = 43;
/* Particles beside each other that fill a device; fewer share out each among the blocks of a cluster. */
constexpr int ENOUGH = 264, CLUSTER_MOST = 8;
constexpr size_t WORTH_SHARING = 1 << 15;

struct tables {
    unsigned long long packed[BUCKETS]; /* of a chunk: count, sum of mantissas */
    unsigned long long sum[BUCKETS];
    unsigned count[BUCKETS];
};

/* What the rounds hand on. */
struct progress {
    unsigned prefix, mask; /* bits that are known */
    double above, wanted, total;
    unsigned counted; /* weights above the bucket */
    bool empty;
    int position, last;
    double part[THREADS / 32];
};

__device__ __constant__ const int SHIFTS[ROUNDS] = {21, 11, 0};
__device__ __constant__ const int BITS[ROUNDS] = {10, 10, 11};

__device__ inline unsigned mantissa(unsigned bits) {
    return bits >> 23 ? (bits & 0x7fffffu) | 0x800000u : bits;
}

__device__ inline double scale(unsigned bits) {
    int exponent = (int)(bits >> 23);
    return ldexp(1.0, (exponent > 0 ? exponent : 1) - 150);
}

__device__ void clear(tables &t) {
    for (int i = threadIdx.x; i < BUCKETS; i += THREADS)
        t.packed[i] = t.sum[i] = t.count[i] = 0;
}

/* Neighbours often fall into one bucket, and then add up before they write. */
__device__ inline void add(tables &t, bool mine, unsigned bits, int shift, unsigned bucket_mask) {
    unsigned lanes = __ballot_sync(0xffffffffu, mine);
    if (!mine) return;
    unsigned bucket = bits >> shift & bucket_mask;
    int same = 0;
#if __CUDA_ARCH__ >= 800
    __match_all_sync(lanes, bucket, &same);
    if (same) {
        unsigned sum = __reduce_add_sync(lanes, mantissa(bits));
        if ((threadIdx.x & 31) == __ffs((int)lanes) - 1)
            atomicAdd(&t.packed[bucket], (unsigned long long)__popc(lanes) << COUNT_SHIFT | sum);
        return;
    }
#endif
    (void)same;
    atomicAdd(&t.packed[bucket], 1ull << COUNT_SHIFT | mantissa(bits));
}

__device__ void unpack(tables &t) {
    for (int i = threadIdx.x; i < BUCKETS; i += THREADS) {
        unsigned long long packed = t.packed[i];
        t.sum[i] += packed & ((1ull << COUNT_SHIFT) - 1);
        t.count[i] += (unsigned)(packed >> COUNT_SHIFT);
        t.packed[i] = 0;
    }
}

__device__ void histogram(tables &t, const float *weights, size_t first, size_t end, const progress &p, int round) {
    int shift = SHIFTS[round];
    unsigned bucket_mask = (1u << BITS[round]) - 1;
    for (size_t chunk = first; chunk < end; chunk += CHUNK) {
        size_t stop = chunk + CHUNK < end ? chunk + CHUNK : end;
        for (size_t at = chunk; at < stop; at += THREADS * UNROLL) {
            unsigned bits[UNROLL];
#pragma unroll
            for (int i = 0; i < UNROLL; i++) {
                size_t place = at + (size_t)i * THREADS + threadIdx.x;
                bits[i] = place < stop ? __float_as_uint(weights[place]) : 0;
            }
#pragma unroll
            for (int i = 0; i < UNROLL; i++)
                add(t, bits[i] != 0 && (bits[i] & p.mask) == p.prefix, bits[i], shift, bucket_mask);
        }
        __syncthreads();
        unpack(t);
        __syncthreads();
    }
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

/* From the high end to the bucket in which the sum crosses; rounding may leave it at the last one that holds anything. */
__device__ void choose(const tables &t, progress &p, double fraction, int round) {
    int shift = SHIFTS[round];
    double value[EACH], mine = 0, all;
    for (int i = 0; i < EACH; i++) {
        int bucket = BUCKETS - 1 - ((int)threadIdx.x * EACH + i);
        value[i] = t.count[bucket] ? (double)t.sum[bucket] * scale(p.prefix | (unsigned)bucket << shift) : 0;
        mine += value[i];
    }
    if (threadIdx.x == 0) p.position = BUCKETS, p.last = -1;
    double before = sum_before(mine, p, &all);
    if (round == 0 && threadIdx.x == 0) p.total = all, p.wanted = fraction * all;
    __syncthreads();
    double sum = p.above + before;
    for (int i = 0; i < EACH; i++) {
        int place = (int)threadIdx.x * EACH + i;
        if (t.count[BUCKETS - 1 - place] == 0) continue;
        sum += value[i];
        atomicMax(&p.last, place);
        if (sum > p.wanted) atomicMin(&p.position, place);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        p.empty = p.last < 0;
        if (p.position == BUCKETS) p.position = p.last;
    }
    __syncthreads();
    if (p.empty) return;
    /* Taken once more in the order of the buckets, so that it is what the rounds go on from. */
    unsigned counted = 0;
    double above = 0;
    for (int i = 0; i < EACH; i++) {
        int place = (int)threadIdx.x * EACH + i;
        if (place < p.position) {
            above += value[i];
            counted += t.count[BUCKETS - 1 - place];
        }
    }
    int position = p.position;
    (void)sum_before(above, p, &all);
    if (threadIdx.x == 0) p.above += all;
    double whole;
    (void)sum_before((double)counted, p, &whole);
    if (threadIdx.x == 0) {
        unsigned bucket = (unsigned)(BUCKETS - 1 - position);
        p.counted += (unsigned)whole;
        if (round == ROUNDS - 1) p.counted += t.count[bucket];
        p.prefix |= bucket << shift;
        p.mask |= ((1u << BITS[round]) - 1) << shift;
    }
    __syncthreads();
}

template <int CLUSTER> __device__ void gather(tables &t, progress &p, int rank) {
#if __CUDA_ARCH__ >= 900
    if (CLUSTER == 1) return;
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
    if (rank == 0)
        for (int other = 1; other < CLUSTER; other++) {
            const tables *theirs = cluster.map_shared_rank(&t, other);
            for (int i = threadIdx.x; i < BUCKETS; i += THREADS) {
                t.sum[i] += theirs->sum[i];
                t.count[i] += theirs->count[i];
            }
        }
    __syncthreads();
#endif
    (void)t, (void)p, (void)rank;
}

template <int CLUSTER> __device__ void spread(progress &p, int rank) {
#if __CUDA_ARCH__ >= 900
    if (CLUSTER == 1) return;
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
    if (rank != 0 && threadIdx.x == 0) {
        const progress *first = cluster.map_shared_rank(&p, 0);
        p.prefix = first->prefix;
        p.mask = first->mask;
        p.empty = first->empty;
    }
    __syncthreads();
    cluster.sync();
#endif
    (void)p, (void)rank;
}

template <int CLUSTER>
__global__ void __launch_bounds__(THREADS) select(const float *weights, const size_t *begin, double fraction,
                                                  top_sum *ret_sums) {
    __shared__ tables t;
    __shared__ progress p;
    int particle = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
    size_t first = begin[particle], count = begin[particle + 1] - first, share = (count + CLUSTER - 1) / CLUSTER;
    size_t mine = first + share * rank, end = mine + share < first + count ? mine + share : first + count;
    if (threadIdx.x == 0) {
        p.prefix = p.mask = p.counted = 0;
        p.above = p.total = p.wanted = 0;
        p.empty = false;
    }
    for (int round = 0; round < ROUNDS; round++) {
        clear(t);
        __syncthreads();
        histogram(t, weights, mine, end, p, round);
        gather<CLUSTER>(t, p, rank);
        if (rank == 0) choose(t, p, fraction, round);
        spread<CLUSTER>(p, rank);
        if (p.empty) break;
    }
    if (rank == 0 && threadIdx.x == 0)
        ret_sums[particle] = top_sum{p.total, __uint_as_float(p.prefix), p.empty ? (unsigned)count : p.counted};
}

template <int CLUSTER>
enum status launch(const float *weights, const size_t *begin, int n, double fraction, top_sum *ret_sums,
                   cudaStream_t stream, err *err) {
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)n * CLUSTER);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    if (CLUSTER > 1) {
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = CLUSTER;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        config.attrs = &attribute;
        config.numAttrs = 1;
    }
    CUDA_TRY(cudaLaunchKernelEx(&config, select<CLUSTER>, weights, begin, fraction, ret_sums), err,
             "choosing the largest weights");
    return STATUS_OK;
}

} // namespace

extern "C" enum status top_sum_cuda(const float *weights, const size_t *begin, int n, size_t longest, double fraction,
                                    struct top_sum *ret_sums, void *stream, struct err *err) {
    if (n < 1) return STATUS_OK;
    int device = 0, major = 0;
    CUDA_TRY(cudaGetDevice(&device), err, "asking which it is");
    CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), err, "asking what it can do");
    int cluster = 1;
    while (major >= 9 && cluster < CLUSTER_MOST && n * cluster < ENOUGH && longest / cluster > WORTH_SHARING)
        cluster *= 2;
    switch (cluster) {
    case 1:
        return launch<1>(weights, begin, n, fraction, ret_sums, (cudaStream_t)stream, err);
    case 2:
        return launch<2>(weights, begin, n, fraction, ret_sums, (cudaStream_t)stream, err);
    case 4:
        return launch<4>(weights, begin, n, fraction, ret_sums, (cudaStream_t)stream, err);
    default:
        return launch<8>(weights, begin, n, fraction, ret_sums, (cudaStream_t)stream, err);
    }
}
