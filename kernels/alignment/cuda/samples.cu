/* Lists samples, from the bits of the coarse pass or from weights that reach a threshold. Turns the differences of
 * listed samples into weights. */
#include <math_constants.h>

#include "kernels/alignment/cuda/lists.cuh"

namespace {

enum { THREADS = 512, WARPS = THREADS / 32, ROW_THREADS = 256, ROW_WARPS = ROW_THREADS / 32 };
constexpr float LEAST_EXPONENT = -87;

/* Counts the samples of 32 rows; `bits` is their word of the first shift. */
__device__ inline sample_counts count_word(const uint32_t *bits, int n_shifts, int words) {
    unsigned any = 0, samples = 0;
#pragma unroll 8
    for (int t = 0; t < n_shifts; t++) {
        unsigned word = bits[(size_t)t * words];
        any |= word;
        samples += __popc(word);
    }
    return {samples, (unsigned)__popc(any)};
}

__global__ void __launch_bounds__(THREADS)
    count_bits(const uint32_t *kept, int n_shifts, int words, sample_counts *counts) {
    __shared__ sample_counts part[WARPS];
    const uint32_t *bits = kept + (size_t)blockIdx.x * n_shifts * words;
    sample_counts mine = {0, 0}, all;
    for (int w = threadIdx.x; w < words; w += THREADS)
        mine = plus(mine, count_word(bits + w, n_shifts, words));
    (void)sum_before<THREADS>(mine, part, &all);
    if (threadIdx.x == 0) counts[blockIdx.x] = all;
}

/* The lists to fill. */
struct lists {
    row_cuda *rows;
    uint32_t *samples;
};

/* Lists the samples of a word; one warp, with one lane for each of the 32 rows. They begin at `at` of the lists. */
__device__ void fill_word(const uint32_t *bits, int n_shifts, int words, int particle, int row,
                          const float *row_log_prior, sample_counts at, const lists &lists) {
    int lane = threadIdx.x & 31;
    unsigned count = 0;
#pragma unroll 8
    for (int t = 0; t < n_shifts; t++)
        count += bits[(size_t)t * words] >> lane & 1;
    unsigned sum = count;
    for (int step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(ALL_LANES, sum, step);
        if (lane >= step) sum += other;
    }
    unsigned used = __ballot_sync(ALL_LANES, count > 0);
    if (count == 0) return;
    unsigned to = at.samples + sum - count;
    lists.rows[at.rows + __popc(used & lanes_before())] =
        row_cuda{particle, row, to, row_log_prior ? row_log_prior[row] : 0, 0};
    for (int t = 0; t < n_shifts; t++)
        if (bits[(size_t)t * words] >> lane & 1) lists.samples[to++] = (uint32_t)row * n_shifts + t;
}

/* Writes the entry that ends the rows. */
__device__ inline void end_rows(int particles, const uint32_t *begin, const uint32_t *row_begin, row_cuda *rows) {
    if (blockIdx.x == 0 && threadIdx.x == 0)
        rows[row_begin[particles]] = row_cuda{particles, 0, begin[particles], 0, 0};
}

__global__ void __launch_bounds__(THREADS)
    fill_from_bits(const uint32_t *kept, int particles, int n_shifts, int words, const float *row_log_prior,
                   const uint32_t *begin, const uint32_t *row_begin, lists lists) {
    __shared__ sample_counts part[WARPS];
    int particle = blockIdx.x, lane = threadIdx.x & 31;
    end_rows(particles, begin, row_begin, lists.rows);
    if (particle >= particles) return;
    const uint32_t *bits = kept + (size_t)particle * n_shifts * words;
    sample_counts at = {begin[particle], row_begin[particle]}, all;
    for (int first = 0; first < words; first += THREADS) {
        int w = first + (int)threadIdx.x;
        sample_counts mine = w < words ? count_word(bits + w, n_shifts, words) : sample_counts{0, 0};
        sample_counts before = plus(at, sum_before<THREADS>(mine, part, &all));
        for (unsigned todo = __ballot_sync(ALL_LANES, mine.rows > 0); todo; todo &= todo - 1) {
            int from = __ffs((int)todo) - 1, word = w - lane + from;
            sample_counts start = {__shfl_sync(ALL_LANES, before.samples, from),
                                   __shfl_sync(ALL_LANES, before.rows, from)};
            fill_word(bits + word, n_shifts, words, particle, word * 32 + lane, row_log_prior, start, lists);
            __syncwarp();
        }
        at = plus(at, all);
    }
}

/* Counts the samples of a row that reach the threshold. */
__device__ inline unsigned count_row(const row_cuda *row, const float *weights, float threshold) {
    unsigned count = 0;
#pragma unroll 4
    for (uint32_t s = row[0].first; s < row[1].first; s++)
        count += weights[s] >= threshold;
    return count;
}

__global__ void __launch_bounds__(ROW_THREADS)
    count_weights(samples_cuda samples, const float *weights, const top_sum *sums, sample_counts *counts) {
    __shared__ sample_counts part[ROW_WARPS];
    int particle = blockIdx.x;
    float threshold = sums[particle].threshold;
    sample_counts mine = {0, 0}, all;
    for (uint32_t r = samples.row_begin[particle] + threadIdx.x; r < samples.row_begin[particle + 1];
         r += ROW_THREADS) {
        unsigned count = count_row(samples.rows + r, weights, threshold);
        mine = plus(mine, {count, count > 0});
    }
    (void)sum_before<ROW_THREADS>(mine, part, &all);
    if (threadIdx.x == 0) counts[particle] = all;
}

__global__ void __launch_bounds__(ROW_THREADS)
    fill_from_weights(samples_cuda samples, int particles, const float *weights, const top_sum *sums,
                      const uint32_t *begin, const uint32_t *row_begin, lists lists) {
    __shared__ sample_counts part[ROW_WARPS];
    int particle = blockIdx.x;
    end_rows(particles, begin, row_begin, lists.rows);
    if (particle >= particles) return;
    float threshold = sums[particle].threshold;
    sample_counts at = {begin[particle], row_begin[particle]}, all;
    uint32_t end = samples.row_begin[particle + 1];
    for (uint32_t first = samples.row_begin[particle]; first < end; first += ROW_THREADS) {
        const row_cuda *row = samples.rows + first + threadIdx.x;
        unsigned count = first + threadIdx.x < end ? count_row(row, weights, threshold) : 0;
        sample_counts to = plus(at, sum_before<ROW_THREADS>({count, count > 0}, part, &all));
        at = plus(at, all);
        if (count == 0) continue;
        lists.rows[to.rows] = row_cuda{particle, row->row, to.samples, row->log_prior, row->left_out};
        for (uint32_t s = row[0].first; s < row[1].first; s++)
            if (weights[s] >= threshold) lists.samples[to.samples++] = samples.samples[s];
    }
}

/* Data that turn the values of listed samples into weights. */
struct priors {
    samples_cuda samples;
    const float *shift_log_prior;
    int shift_count;
    unsigned each, log2_each; /* values per sample, in units of those read at a time; its logarithm, or NOT_A_POWER */
    unsigned shifts;          /* values of a rotation, in such units; 0: samples, of which none is left out */
};
constexpr unsigned NOT_A_POWER = 32;

template <int WIDTH> struct vector_of;
template <> struct vector_of<1> { typedef float type; };
template <> struct vector_of<4> { typedef float4 type; };

/* Calls visit(value, log prior, place) for the values of a row, WIDTH at a time; one warp. */
template <int WIDTH, typename Visit>
__device__ inline void each_value(const priors &p, uint32_t at, const float *values, Visit visit) {
    typedef typename vector_of<WIDTH>::type vector;
    row_cuda row = p.samples.rows[at];
    unsigned count = (p.samples.rows[at + 1].first - row.first) * p.each;
    const vector *from = (const vector *)values + (size_t)row.first * p.each;
    const float *prior = p.shift_log_prior ? p.shift_log_prior + (size_t)row.particle * p.shift_count : nullptr;
    uint32_t shift_0 = (uint32_t)row.row * p.shift_count;
#pragma unroll 4
    for (unsigned i = threadIdx.x & 31; i < count; i += 32) {
        unsigned sample = p.log2_each < NOT_A_POWER ? i >> p.log2_each : i / p.each;
        float log_prior = row.log_prior;
        if (prior) log_prior += prior[p.samples.samples[row.first + sample] - shift_0];
        if (p.shifts && row.left_out >> (i - sample * p.each) / p.shifts & 1) log_prior = -CUDART_INF_F;
        visit(from[i], log_prior, (size_t)row.first * p.each + i);
    }
}

__device__ inline float least_of(float value) {
    return value;
}

__device__ inline float least_of(float4 v) {
    return fminf(fminf(v.x, v.y), fminf(v.z, v.w));
}

__device__ inline float weigh_one(float value, float log_prior, float least) {
    float x = least - (value - log_prior);
    return x > LEAST_EXPONENT ? expf(x) : 0;
}

__device__ inline float4 weigh_one(float4 v, float log_prior, float least) {
    return make_float4(weigh_one(v.x, log_prior, least), weigh_one(v.y, log_prior, least),
                       weigh_one(v.z, log_prior, least), weigh_one(v.w, log_prior, least));
}

__global__ void clear_least(float *least, int particles) {
    int i = (int)(blockIdx.x * ROW_THREADS + threadIdx.x);
    if (i < particles) least[i] = CUDART_INF_F;
}

/* Lowers *least to value if value is smaller. The bits of positive floats have the order of signed integers, the bits
 * of negative ones the reverse order of unsigned integers, and any negative float is below all positive ones. So the
 * smallest value remains in any order of rows. */
__device__ inline void lower(float *least, float value) {
    value += 0.0f; /* turns −0 into 0 */
    if (value >= 0)
        atomicMin((int *)least, __float_as_int(value));
    else
        atomicMax((unsigned *)least, __float_as_uint(value));
}

template <int WIDTH>
__global__ void __launch_bounds__(ROW_THREADS) find_least(priors p, const float *values, float *least) {
    uint32_t at = blockIdx.x * ROW_WARPS + (threadIdx.x >> 5);
    if (at >= p.samples.row_count) return;
    float mine = CUDART_INF_F;
    /* The operations must be those of weigh_one; otherwise the largest weight would not be 1. */
    each_value<WIDTH>(p, at, values,
                      [&](auto value, float log_prior, size_t) { mine = fminf(mine, least_of(value) - log_prior); });
    for (int step = 16; step > 0; step /= 2)
        mine = fminf(mine, __shfl_down_sync(ALL_LANES, mine, step));
    if ((threadIdx.x & 31) == 0 && mine < CUDART_INF_F) lower(least + p.samples.rows[at].particle, mine);
}

template <int WIDTH> __global__ void __launch_bounds__(ROW_THREADS) weigh(priors p, const float *least, float *values) {
    uint32_t at = blockIdx.x * ROW_WARPS + (threadIdx.x >> 5);
    if (at >= p.samples.row_count) return;
    float mine = least[p.samples.rows[at].particle];
    each_value<WIDTH>(p, at, values, [&](auto value, float log_prior, size_t to) {
        ((decltype(value) *)values)[to] = weigh_one(value, log_prior, mine);
    });
}

template <int WIDTH> void weigh_rows(priors p, float *values, float *ret_least, cudaStream_t stream) {
    unsigned blocks = (p.samples.row_count + ROW_WARPS - 1) / ROW_WARPS;
    p.each /= WIDTH;
    p.shifts /= WIDTH;
    p.log2_each = NOT_A_POWER;
    for (unsigned log2 = 0; log2 < NOT_A_POWER; log2++)
        if (p.each == 1u << log2) p.log2_each = log2;
    find_least<WIDTH><<<blocks, ROW_THREADS, 0, stream>>>(p, values, ret_least);
    weigh<WIDTH><<<blocks, ROW_THREADS, 0, stream>>>(p, ret_least, values);
}

/* One block even without particles: it ends the rows. */
unsigned blocks_of(int particles) {
    return particles > 0 ? (unsigned)particles : 1;
}

enum status begin_lists(const sample_counts *counts, int n, uint32_t *begin, uint32_t *row_begin, cudaStream_t stream,
                        err *err) {
    make_begin<THREADS><<<1, THREADS, 0, stream>>>(stored_counts{counts}, n, begin, row_begin);
    CUDA_TRY(cudaGetLastError(), err, "counting samples");
    return STATUS_OK;
}

} // namespace

extern "C" enum status alignment_cuda_compress_count(const uint32_t *kept, int count, int n_shifts, int n_rows,
                                                     struct sample_counts *ret_counts, uint32_t *ret_begin,
                                                     uint32_t *ret_row_begin, void *stream, struct err *err) {
    int words = (int)kept_words(n_rows);
    if (count > 0) count_bits<<<(unsigned)count, THREADS, 0, (cudaStream_t)stream>>>(kept, n_shifts, words, ret_counts);
    return begin_lists(ret_counts, count, ret_begin, ret_row_begin, (cudaStream_t)stream, err);
}

extern "C" enum status alignment_cuda_compress_fill(const uint32_t *kept, int count, int n_shifts, int n_rows,
                                                    const float *row_log_prior, const uint32_t *begin,
                                                    const uint32_t *row_begin, struct row_cuda *ret_rows,
                                                    uint32_t *ret_samples, void *stream, struct err *err) {
    fill_from_bits<<<blocks_of(count), THREADS, 0, (cudaStream_t)stream>>>(
        kept, count, n_shifts, (int)kept_words(n_rows), row_log_prior, begin, row_begin, lists{ret_rows, ret_samples});
    CUDA_TRY(cudaGetLastError(), err, "listing samples");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_weigh(const struct particles_cuda *particles, const struct samples_cuda *samples,
                                            const struct sampling_cuda *sampling, int each, float *values,
                                            float *ret_least, void *stream, struct err *err) {
    cudaStream_t s = (cudaStream_t)stream;
    if (particles->count < 1) return STATUS_OK;
    unsigned blocks = ((unsigned)particles->count + ROW_THREADS - 1) / ROW_THREADS;
    clear_least<<<blocks, ROW_THREADS, 0, s>>>(ret_least, particles->count);
    const unsigned shifts = each > 1 ? (unsigned)sampling->shift_children : 0;
    const priors p = {*samples, particles->shift_log_prior, sampling->shift_count, (unsigned)each, 0, shifts};
    if (samples->row_count > 0 && each % 4 == 0) weigh_rows<4>(p, values, ret_least, s);
    if (samples->row_count > 0 && each % 4 != 0) weigh_rows<1>(p, values, ret_least, s);
    CUDA_TRY(cudaGetLastError(), err, "weighing samples");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_keep_count(const struct samples_cuda *samples, int particles,
                                                 const float *weights, const struct top_sum *sums,
                                                 struct sample_counts *ret_counts, uint32_t *ret_begin,
                                                 uint32_t *ret_row_begin, void *stream, struct err *err) {
    if (particles > 0)
        count_weights<<<(unsigned)particles, ROW_THREADS, 0, (cudaStream_t)stream>>>(*samples, weights, sums,
                                                                                     ret_counts);
    return begin_lists(ret_counts, particles, ret_begin, ret_row_begin, (cudaStream_t)stream, err);
}

extern "C" enum status alignment_cuda_keep_fill(const struct samples_cuda *samples, int particles, const float *weights,
                                                const struct top_sum *sums, const uint32_t *begin,
                                                const uint32_t *row_begin, struct row_cuda *ret_rows,
                                                uint32_t *ret_samples, void *stream, struct err *err) {
    fill_from_weights<<<blocks_of(particles), ROW_THREADS, 0, (cudaStream_t)stream>>>(
        *samples, particles, weights, sums, begin, row_begin, lists{ret_rows, ret_samples});
    CUDA_TRY(cudaGetLastError(), err, "listing samples");
    return STATUS_OK;
}
