/* Computes ranges of rows on a CUDA device in slots that take turns, and picks entries below a cut-off. */
#include <string.h>

#include "kernels/superpose/superpose_ensemble.cuh"

enum { PICK_THREADS = 256, PICK_WARPS = PICK_THREADS / 32 };

/* The part of a row that one warp of the row's block looks through: entries from i + 1 on, in equal parts. */
struct part {
    const float *row; /* its entry of structure `begin` */
    int i, from, to;  /* structures */
};
static __device__ __forceinline__ struct part part_of(const float *results, struct superpose_range range, int row) {
    int warp = threadIdx.x / 32, i = range.begin + row, left = range.n - i - 1;
    int each = (left + PICK_WARPS - 1) / PICK_WARPS, from = i + 1 + warp * each;
    struct part p = {results + (size_t)row * (range.n - range.begin) - range.begin, i, from, min(from + each, range.n)};
    return p;
}
static __device__ __forceinline__ int count_part(const struct part &p, float cutoff) {
    int count = 0;
    for (int j = p.from + (int)threadIdx.x % 32; j < p.to; j += 32)
        count += p.row[j] < cutoff;
    return (int)__reduce_add_sync(0xffffffffu, (unsigned)count);
}

static __global__ __launch_bounds__(PICK_THREADS) void count_rows(const float *results, struct superpose_range range,
                                                                  float cutoff, int32_t *counts) {
    __shared__ int parts[PICK_WARPS];
    struct part p = part_of(results, range, (int)blockIdx.x);
    int count = count_part(p, cutoff);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = count;
    __syncthreads();
    if (threadIdx.x != 0) return;
    count = 0;
    for (int k = 0; k < PICK_WARPS; k++)
        count += parts[k];
    counts[blockIdx.x] = count;
}

/* Picks entries in the order of j: each warp knows how many stand before its own. */
static __global__ __launch_bounds__(PICK_THREADS) void pick_rows(const float *results, struct superpose_range range,
                                                                 float cutoff, int first, const int64_t *starts,
                                                                 int32_t *index, float *rmsd) {
    __shared__ int parts[PICK_WARPS];
    struct part p = part_of(results, range, first + (int)blockIdx.x);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, count = count_part(p, cutoff);
    if (lane == 0) parts[warp] = count;
    __syncthreads();
    int64_t at = starts[blockIdx.x];
    for (int k = 0; k < warp; k++)
        at += parts[k];
    for (int from = p.from; from < p.to; from += 32) {
        int j = from + lane;
        float x = j < p.to ? p.row[j] : 0;
        bool below = j < p.to && x < cutoff;
        unsigned all = __ballot_sync(0xffffffffu, below);
        if (below) {
            int64_t place = at + __popc(all & ((1u << lane) - 1));
            index[place] = j;
            rmsd[place] = x;
        }
        at += __popc(all);
    }
}

void superpose_slots_free(struct superpose_ensemble *d) {
    for (int k = 0; k < SUPERPOSE_SLOTS; k++) {
        (void)cudaFree(d->slots[k].results);
        (void)cudaFree(d->slots[k].counts);
        (void)cudaFreeHost(d->slots[k].host_counts);
        d->slots[k].results = NULL;
        d->slots[k].counts = d->slots[k].host_counts = NULL;
    }
    (void)cudaFree(d->starts);
    (void)cudaFreeHost(d->host_starts);
    (void)cudaFree(d->index);
    (void)cudaFree(d->rmsd);
    d->starts = d->host_starts = NULL;
    d->index = NULL;
    d->rmsd = NULL;
    d->slot_floats = d->entries = 0;
    d->slot_rows = 0;
}

static enum status make_slots(struct superpose_ensemble *d, size_t floats, int rows, size_t entries, struct err *err) {
    for (int k = 0; k < SUPERPOSE_SLOTS; k++) {
        struct superpose_slot *slot = &d->slots[k];
        CUDA_TRY(cudaMalloc(&slot->results, floats * sizeof *slot->results), err, "making room for RMSDs");
        if (entries == 0) continue;
        CUDA_TRY(cudaMalloc(&slot->counts, (size_t)rows * sizeof *slot->counts), err, "making room for counts");
        CUDA_TRY(cudaHostAlloc(&slot->host_counts, (size_t)rows * sizeof *slot->counts, cudaHostAllocPortable), err,
                 "making page-locked memory");
    }
    if (entries == 0) return STATUS_OK;
    CUDA_TRY(cudaMalloc(&d->starts, (size_t)rows * sizeof *d->starts), err, "making room for counts");
    CUDA_TRY(cudaHostAlloc(&d->host_starts, (size_t)rows * sizeof *d->starts, cudaHostAllocPortable), err,
             "making page-locked memory");
    CUDA_TRY(cudaMalloc(&d->index, entries * sizeof *d->index), err, "making room for neighbours");
    CUDA_TRY(cudaMalloc(&d->rmsd, entries * sizeof *d->rmsd), err, "making room for neighbours");
    return STATUS_OK;
}

enum status superpose_ensemble_slots(struct superpose_ensemble *d, size_t floats, int rows, size_t entries,
                                     struct err *err) {
    if (floats <= d->slot_floats && rows <= d->slot_rows && entries <= d->entries) return STATUS_OK;
    CUDA_TRY(cudaSetDevice(d->options.index), err, "choosing it");
    superpose_slots_free(d);
    enum status status = make_slots(d, floats, rows, entries, err);
    if (status != STATUS_OK) {
        superpose_slots_free(d);
        return status;
    }
    d->slot_floats = floats;
    d->slot_rows = rows;
    d->entries = entries;
    return STATUS_OK;
}

enum status superpose_enqueue(struct superpose_ensemble *d, int slot, const struct superpose_range *range, bool packed,
                              bool bare, struct err *err) {
    struct superpose_tiles tiles = {.rows = d->rows,
                                    .norms = d->norms,
                                    .out = d->slots[slot].results,
                                    .total = d->options.total,
                                    .stride = d->stride,
                                    .method = (int)d->options.method,
                                    .range = *range,
                                    .packed = packed,
                                    .bare = bare};
    return d->options.single ? superpose_tiles_single(&tiles, d->compute, err)
                             : superpose_tiles_double(&tiles, d->compute, err);
}

enum status superpose_ensemble_run(struct superpose_ensemble *d, int slot, const struct superpose_range *range,
                                   bool packed, struct err *err) {
    CUDA_TRY(cudaSetDevice(d->options.index), err, "choosing it");
    TRY(superpose_enqueue(d, slot, range, packed, false, err));
    CUDA_TRY(cudaEventRecord(d->slots[slot].done, d->compute), err, "superposing");
    return STATUS_OK;
}

enum status superpose_ensemble_fetch(struct superpose_ensemble *d, int slot, size_t floats, float *ret_rmsd,
                                     struct err *err) {
    CUDA_TRY(cudaStreamWaitEvent(d->fetch, d->slots[slot].done, 0), err, "superposing");
    CUDA_TRY(
        cudaMemcpyAsync(ret_rmsd, d->slots[slot].results, floats * sizeof *ret_rmsd, cudaMemcpyDeviceToHost, d->fetch),
        err, "fetching RMSDs");
    CUDA_TRY(cudaStreamSynchronize(d->fetch), err, "superposing");
    return STATUS_OK;
}

enum status superpose_ensemble_count(struct superpose_ensemble *d, int slot, const struct superpose_range *range,
                                     float cutoff, struct err *err) {
    struct superpose_slot *s = &d->slots[slot];
    int rows = range->end - range->begin;
    count_rows<<<(unsigned)rows, PICK_THREADS, 0, d->compute>>>(s->results, *range, cutoff, s->counts);
    CUDA_TRY(cudaGetLastError(), err, "counting neighbours");
    CUDA_TRY(cudaMemcpyAsync(s->host_counts, s->counts, (size_t)rows * sizeof *s->counts, cudaMemcpyDeviceToHost,
                             d->compute),
             err, "counting neighbours");
    CUDA_TRY(cudaEventRecord(s->done, d->compute), err, "counting neighbours");
    return STATUS_OK;
}

enum status superpose_ensemble_counts(struct superpose_ensemble *d, int slot, int rows, int32_t *ret_counts,
                                      struct err *err) {
    CUDA_TRY(cudaEventSynchronize(d->slots[slot].done), err, "counting neighbours");
    memcpy(ret_counts, d->slots[slot].host_counts, (size_t)rows * sizeof *ret_counts);
    return STATUS_OK;
}

enum status superpose_ensemble_pick(struct superpose_ensemble *d, int slot, const struct superpose_range *range,
                                    float cutoff, const struct superpose_part *part, int32_t *ret_index,
                                    float *ret_rmsd, struct err *err) {
    struct superpose_slot *s = &d->slots[slot];
    int rows = part->to - part->from;
    int64_t at = 0;
    for (int k = 0; k < rows; k++) {
        d->host_starts[k] = at;
        at += s->host_counts[part->from + k];
    }
    CUDA_TRY(
        cudaMemcpyAsync(d->starts, d->host_starts, (size_t)rows * sizeof *d->starts, cudaMemcpyHostToDevice, d->fetch),
        err, "picking neighbours");
    pick_rows<<<(unsigned)rows, PICK_THREADS, 0, d->fetch>>>(s->results, *range, cutoff, part->from, d->starts,
                                                             d->index, d->rmsd);
    CUDA_TRY(cudaGetLastError(), err, "picking neighbours");
    CUDA_TRY(cudaMemcpyAsync(ret_index, d->index, part->entries * sizeof *ret_index, cudaMemcpyDeviceToHost, d->fetch),
             err, "fetching neighbours");
    CUDA_TRY(cudaMemcpyAsync(ret_rmsd, d->rmsd, part->entries * sizeof *ret_rmsd, cudaMemcpyDeviceToHost, d->fetch),
             err, "fetching neighbours");
    CUDA_TRY(cudaStreamSynchronize(d->fetch), err, "picking neighbours");
    return STATUS_OK;
}
