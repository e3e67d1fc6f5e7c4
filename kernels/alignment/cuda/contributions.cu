/* Turns the weights of the fine pass into the contributing poses, in order, and their sums. One block per particle; the
 * order of every sum depends only on the lists. */
#include "kernels/alignment/cuda/lists.cuh"

namespace {

enum { THREADS = 512, WARPS = THREADS / 32 };

/* Weights of listed samples: [sample][rotation][shift child]. */
struct fine_weights {
    samples_cuda samples;
    const float *weights, *shifts;
    const top_sum *sums;
    int shift_count, rotations, children;
    unsigned each;

    /* Returns the weight from which a pose contributes. */
    __device__ float threshold(int particle) const {
        return fmaxf(sums[particle].threshold, __uint_as_float(1));
    }
    __device__ pose_cuda pose_of(const row_cuda &row, uint32_t sample, unsigned rotation, unsigned child) const {
        uint32_t shift = (samples.samples[sample] - (uint32_t)row.row * shift_count) * children + child;
        return {(uint32_t)row.row, (uint16_t)rotation, (uint16_t)shift};
    }
};

/* Sums over the poses that one thread has seen. */
struct tally {
    double offset2, weight;
    unsigned count;
    float largest;
    unsigned long long pose; /* of the largest weight, as from place_of */
};

/* Returns a number that sorts poses in the order of contributions. */
__device__ inline unsigned long long place_of(const pose_cuda &p) {
    return (unsigned long long)p.row << 32 | (unsigned)p.rotation << 16 | p.shift;
}
__device__ inline pose_cuda pose_at(unsigned long long place) {
    return {(uint32_t)(place >> 32), (uint16_t)(place >> 16), (uint16_t)place};
}

/* If weights are equal, the first pose in the order of contributions counts. */
__device__ inline void take_larger(tally &mine, float weight, unsigned long long pose) {
    if (weight < mine.largest || (weight == mine.largest && pose >= mine.pose)) return;
    mine.largest = weight;
    mine.pose = pose;
}

__device__ inline void join(tally &mine, const tally &other) {
    mine.offset2 += other.offset2;
    mine.weight += other.weight;
    mine.count += other.count;
    take_larger(mine, other.largest, other.pose);
}

__device__ inline tally from_lane_below(const tally &mine, int step) {
    return {__shfl_down_sync(ALL_LANES, mine.offset2, step), __shfl_down_sync(ALL_LANES, mine.weight, step),
            __shfl_down_sync(ALL_LANES, mine.count, step), __shfl_down_sync(ALL_LANES, mine.largest, step),
            __shfl_down_sync(ALL_LANES, mine.pose, step)};
}

/* Calls visit(weight, sample, index within the sample) for the weights of a row that reach the threshold; one warp. */
template <typename Visit>
__device__ inline void each_contribution(const fine_weights &f, const row_cuda *row, float threshold, Visit visit) {
    uint32_t first = row[0].first;
    unsigned count = (row[1].first - first) * f.each;
    const float *from = f.weights + (size_t)first * f.each;
    int lane = threadIdx.x & 31;
    if (f.each % 4 == 0) {
        const float4 *wide = (const float4 *)from;
#pragma unroll 4
        for (unsigned i = lane; i < count / 4; i += 32) {
            float4 v = wide[i];
            if (fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)) < threshold) continue;
            const float value[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (unsigned j = 0; j < 4; j++)
                if (value[j] >= threshold) visit(value[j], first + (4 * i + j) / f.each, (4 * i + j) % f.each);
        }
        return;
    }
    for (unsigned i = lane; i < count; i += 32)
        if (from[i] >= threshold) visit(from[i], first + i / f.each, i % f.each);
}

__global__ void __launch_bounds__(THREADS)
    sum_contributions(fine_weights f, const float *least, const int *own, best_cuda *best) {
    __shared__ tally of_warp[WARPS];
    int particle = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float threshold = f.threshold(particle);
    double x = own[2 * particle], y = own[2 * particle + 1];
    tally mine = {0, 0, 0, 0, ~0ull};
    for (uint32_t r = f.samples.row_begin[particle] + warp; r < f.samples.row_begin[particle + 1]; r += WARPS) {
        const row_cuda *row = f.samples.rows + r;
        each_contribution(f, row, threshold, [&](float weight, uint32_t sample, unsigned which) {
            pose_cuda pose = f.pose_of(*row, sample, which / f.children, which % f.children);
            double dx = x + (double)f.shifts[2 * pose.shift], dy = y + (double)f.shifts[2 * pose.shift + 1];
            mine.offset2 += (double)weight * (dx * dx + dy * dy);
            mine.weight += (double)weight;
            mine.count++;
            take_larger(mine, weight, place_of(pose));
        });
    }
    for (int step = 16; step > 0; step /= 2)
        join(mine, from_lane_below(mine, step));
    if (lane == 0) of_warp[warp] = mine;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < WARPS; w++)
        join(mine, of_warp[w]);
    double sum = f.sums[particle].total, scale = sum > 0 ? 1 / sum : 0;
    bool any = mine.count > 0;
    best[particle] = best_cuda{sum,
                               mine.offset2 * scale,
                               mine.weight * scale,
                               least[particle],
                               mine.largest,
                               pose_at(any ? mine.pose : 0ull),
                               mine.count};
}

/* Rows that a block processes at a time. */
struct tile {
    unsigned count[THREADS], to[THREADS];
    double weight[THREADS];
    sample_counts part[WARPS];
};

/* Counts the contributions of a row and sums their weight; one warp. */
__device__ void count_row(const fine_weights &f, const row_cuda *row, float threshold, tile &t, int at) {
    unsigned count = 0;
    double weight = 0;
    each_contribution(f, row, threshold, [&](float value, uint32_t, unsigned) {
        count++;
        weight += (double)value;
    });
    for (int step = 16; step > 0; step /= 2) {
        count += __shfl_down_sync(ALL_LANES, count, step);
        weight += __shfl_down_sync(ALL_LANES, weight, step);
    }
    if ((threadIdx.x & 31) == 0) t.count[at] = count, t.weight[at] = weight;
}

/* Fills the contributions of a row; one warp. The weights of a row are stored by sample, and written by slice. */
__device__ void fill_row(const fine_weights &f, const row_cuda *rows, float threshold, double sum,
                         contribution_cuda *to) {
    row_cuda row = rows[0];
    unsigned lane = threadIdx.x & 31, count = (rows[1].first - row.first) * f.children;
    for (int rotation = 0; rotation < f.rotations; rotation++)
        for (unsigned begin = 0; begin < count; begin += 32) {
            unsigned i = begin + lane, child = i % f.children;
            uint32_t sample = row.first + i / f.children;
            float weight = i < count ? f.weights[(size_t)sample * f.each + rotation * f.children + child] : -1;
            unsigned in = __ballot_sync(ALL_LANES, weight >= threshold);
            if (weight >= threshold)
                to[__popc(in & lanes_before())] = contribution_cuda{f.pose_of(row, sample, rotation, child),
                                                                    row.particle, (float)((double)weight / sum)};
            to += __popc(in);
        }
}

/* Adds the weights of a tile's rows to each reference; one warp per reference; `sums` belongs to one of its lanes. */
__device__ void add_references(const row_cuda *rows, const tile &t, int count, int rows_each, int references,
                               double *sums) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int reference = warp; reference < references; reference += WARPS) {
        double sum = 0;
        for (int i = lane; i < count; i += 32)
            if (t.count[i] > 0 && rows[i].row / rows_each == reference) sum += t.weight[i];
        for (int step = 16; step > 0; step /= 2)
            sum += __shfl_down_sync(ALL_LANES, sum, step);
        if (lane == 0) sums[reference] += sum;
    }
}

__global__ void __launch_bounds__(THREADS)
    fill_contributions(fine_weights f, const best_cuda *best, const uint32_t *begin, int rows_each, int references,
                       contribution_cuda *contributions, float *reference_weights) {
    __shared__ tile t;
    __shared__ double of_reference[ALIGNMENT_REFERENCES_MOST];
    int particle = blockIdx.x, warp = threadIdx.x >> 5;
    float threshold = f.threshold(particle);
    double sum = best[particle].sum;
    uint32_t end = f.samples.row_begin[particle + 1], at = begin[particle];
    for (int i = threadIdx.x; i < ALIGNMENT_REFERENCES_MOST; i += THREADS)
        of_reference[i] = 0;
    __syncthreads();
    for (uint32_t first = f.samples.row_begin[particle]; first < end; first += THREADS) {
        const row_cuda *rows = f.samples.rows + first;
        int count = (int)(end - first < THREADS ? end - first : THREADS);
        for (int i = warp; i < count; i += WARPS)
            count_row(f, rows + i, threshold, t, i);
        __syncthreads();
        unsigned mine = (int)threadIdx.x < count ? t.count[threadIdx.x] : 0;
        sample_counts all;
        t.to[threadIdx.x] = at + sum_before<THREADS>({mine, 0}, t.part, &all).samples;
        at += all.samples;
        __syncthreads();
        for (int i = warp; i < count; i += WARPS)
            if (t.count[i] > 0) fill_row(f, rows + i, threshold, sum, contributions + t.to[i]);
        if (reference_weights) add_references(rows, t, count, rows_each, references, of_reference);
        __syncthreads();
    }
    if (!reference_weights) return;
    for (int i = threadIdx.x; i < references; i += THREADS)
        reference_weights[(size_t)particle * references + i] = sum > 0 ? (float)(of_reference[i] / sum) : 0;
}

fine_weights weights_of(const samples_cuda *samples, const sampling_cuda *sampling, const float *weights,
                        const top_sum *sums) {
    int rotations = sampling->direction_children * sampling->psi_children;
    return {*samples,
            weights,
            sampling->child_shifts,
            sums,
            sampling->shift_count,
            rotations,
            sampling->shift_children,
            (unsigned)(rotations * sampling->shift_children)};
}

} // namespace

extern "C" enum status alignment_cuda_contributions_count(const struct particles_cuda *particles,
                                                          const struct samples_cuda *samples,
                                                          const struct sampling_cuda *sampling, const float *weights,
                                                          const struct top_sum *sums, const float *least,
                                                          const int *own, struct best_cuda *ret_best,
                                                          uint32_t *ret_begin, void *stream, struct err *err) {
    if (particles->count > 0)
        sum_contributions<<<(unsigned)particles->count, THREADS, 0, (cudaStream_t)stream>>>(
            weights_of(samples, sampling, weights, sums), least, own, ret_best);
    make_begin<THREADS>
        <<<1, THREADS, 0, (cudaStream_t)stream>>>(contribution_counts{ret_best}, particles->count, ret_begin, nullptr);
    CUDA_TRY(cudaGetLastError(), err, "counting poses that contribute");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_contributions_fill(
    const struct particles_cuda *particles, const struct samples_cuda *samples, const struct sampling_cuda *sampling,
    const float *weights, const struct top_sum *sums, const struct best_cuda *best, const uint32_t *begin,
    struct contribution_cuda *ret_contributions, float *ret_reference_weights, void *stream, struct err *err) {
    if (particles->count < 1) return STATUS_OK;
    fill_contributions<<<(unsigned)particles->count, THREADS, 0, (cudaStream_t)stream>>>(
        weights_of(samples, sampling, weights, sums), best, begin, sampling->directions * sampling->psi_count,
        sampling->references, ret_contributions, ret_reference_weights);
    CUDA_TRY(cudaGetLastError(), err, "listing poses that contribute");
    return STATUS_OK;
}
