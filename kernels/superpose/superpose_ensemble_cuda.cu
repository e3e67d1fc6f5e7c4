/* Keeps the ensemble on a CUDA device: its memory, incoming structures, one row. */
#include <stdlib.h>
#include <string.h>

#include "kernels/superpose/superpose_ensemble.cuh"
#include "kernels/superpose/superpose_private.h"

enum { PUT_THREADS = 128, ROW_THREADS = 256, ROW_PAIRS = SUPERPOSE_TILE };
/* Structures are uploaded in parts of so many bytes. */
static const size_t RAW_BYTES = (size_t)64 << 20;

/* A block centres a structure, scales it and lays it out in rows. Sums are in double and in a fixed order. */
static __global__ __launch_bounds__(PUT_THREADS) void put(const float *raw, const float *roots, int atoms, int stride,
                                                          double total, float *rows, double *norms,
                                                          unsigned long long *bad) {
    __shared__ double parts[PUT_THREADS / 32][3];
    __shared__ int unfit;
    const float *xyz = raw + (size_t)blockIdx.x * atoms * 3;
    float *to = rows + (size_t)blockIdx.x * 3 * stride;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    double sum[3] = {0, 0, 0};
    if (threadIdx.x == 0) unfit = 0;
    __syncthreads();
    for (int k = threadIdx.x; k < atoms; k += PUT_THREADS) {
        double w = (double)roots[k] * roots[k];
        for (int a = 0; a < 3; a++) {
            float x = xyz[3 * k + a];
            sum[a] += w * x;
            if (!(fabsf(x) <= SUPERPOSE_FARTHEST)) {
                unfit = 1;
                atomicMin(bad, (unsigned long long)blockIdx.x * atoms + k);
            }
        }
    }
    for (int a = 0; a < 3; a++) {
        double of_warp = warp_sum(sum[a]);
        if (lane == 0) parts[warp][a] = of_warp;
    }
    __syncthreads();
    if (unfit) return;
    double centre[3], norm = 0;
    for (int a = 0; a < 3; a++) {
        centre[a] = 0;
        for (int k = 0; k < PUT_THREADS / 32; k++)
            centre[a] += parts[k][a];
        centre[a] /= total;
    }
    for (int k = threadIdx.x; k < atoms; k += PUT_THREADS)
        for (int a = 0; a < 3; a++) {
            float x = (float)((xyz[3 * k + a] - centre[a]) * roots[k]);
            to[(size_t)a * stride + k] = x;
            norm += (double)x * x;
        }
    norm = warp_sum(norm);
    __syncthreads();
    if (lane == 0) parts[warp][0] = norm;
    __syncthreads();
    if (threadIdx.x != 0) return;
    norm = 0;
    for (int k = 0; k < PUT_THREADS / 32; k++)
        norm += parts[k][0];
    norms[blockIdx.x] = norm;
}

/* A warp sums R of a few pairs, the block's first warp solves them. */
static __global__ __launch_bounds__(ROW_THREADS) void solve_row(const float *rows, const double *norms, int one,
                                                                int count, int stride, double total, int method,
                                                                float *out) {
    __shared__ double r[ROW_PAIRS][9];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float *p = rows + (size_t)3 * one * stride;
    for (int pair = warp; pair < ROW_PAIRS; pair += ROW_THREADS / 32) {
        int j = blockIdx.x * ROW_PAIRS + pair;
        if (j >= count) break;
        const float *q = rows + (size_t)3 * j * stride;
        double sums[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
        for (int k = lane; k < stride; k += 32) {
            double x = q[k], y = q[stride + k], z = q[2 * stride + k];
#pragma unroll
            for (int a = 0; a < 3; a++) {
                double u = p[a * stride + k];
                sums[3 * a] += u * x;
                sums[3 * a + 1] += u * y;
                sums[3 * a + 2] += u * z;
            }
        }
#pragma unroll
        for (int k = 0; k < 9; k++) {
            double sum = warp_sum(sums[k]);
            if (lane == 0) r[pair][k] = sum;
        }
    }
    __syncthreads();
    int j = blockIdx.x * ROW_PAIRS + lane;
    if (warp > 0 || j >= count) return;
    double mine[9], together = norms[one] + norms[j];
    for (int k = 0; k < 9; k++)
        mine[k] = r[lane][k];
    double lambda = superpose_lambda((enum superpose_method)method, mine, 0.5 * together);
    out[j] = (float)superpose_rmsd(together, lambda, total);
}

enum status superpose_cuda_doubles(int index, bool *ret_doubles, struct err *err) {
    int ratio = 0, major = 0;
    CUDA_TRY(cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, index), err,
             "asking what it is");
    CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), err, "asking what it is");
    *ret_doubles = ratio <= 2 && major >= 8;
    return STATUS_OK;
}

enum status superpose_cuda_unused(int index, size_t *ret_bytes, struct err *err) {
    size_t unused = 0, all = 0;
    CUDA_TRY(cudaSetDevice(index), err, "choosing it");
    CUDA_TRY(cudaMemGetInfo(&unused, &all), err, "asking for its memory");
    *ret_bytes = unused;
    return STATUS_OK;
}

static int whole(int count, int unit) {
    return (count + unit - 1) / unit * unit;
}

static enum status build(struct superpose_ensemble *d, const float *roots, struct err *err) {
    int least = 0, greatest = 0;
    CUDA_TRY(cudaSetDevice(d->options.index), err, "choosing it");
    CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest), err, "asking for priorities");
    CUDA_TRY(cudaStreamCreateWithPriority(&d->compute, cudaStreamNonBlocking, least), err, "making a stream");
    CUDA_TRY(cudaStreamCreateWithPriority(&d->fetch, cudaStreamNonBlocking, greatest), err, "making a stream");
    for (int k = 0; k < SUPERPOSE_SLOTS; k++)
        CUDA_TRY(cudaEventCreateWithFlags(&d->slots[k].done, cudaEventDisableTiming), err, "making an event");
    CUDA_TRY(cudaMalloc(&d->bad, sizeof *d->bad), err, "making room for structures");
    CUDA_TRY(cudaMalloc(&d->roots, (size_t)d->options.atoms * sizeof *d->roots), err, "making room for weights");
    CUDA_TRY(cuda_copy(d->roots, roots, (size_t)d->options.atoms * sizeof *roots), err, "taking weights there");
    return superpose_ensemble_reserve(d, 1, err);
}

enum status superpose_ensemble_create(const struct superpose_ensemble_options *options, const float *roots,
                                      struct superpose_ensemble **ret_ensemble, struct err *err) {
    struct superpose_ensemble *d = (struct superpose_ensemble *)calloc(1, sizeof *d);
    FAIL_IF(d == NULL, err, STATUS_NO_MEMORY, "no memory for an ensemble");
    d->options = *options;
    d->stride = whole(options->atoms, SUPERPOSE_CHUNK);
    enum status status = build(d, roots, err);
    if (status != STATUS_OK) {
        superpose_ensemble_destroy(&d);
        return status;
    }
    *ret_ensemble = d;
    return STATUS_OK;
}

void superpose_ensemble_destroy(struct superpose_ensemble **ensemble) {
    struct superpose_ensemble *d = *ensemble;
    if (d == NULL) return;
    if (cudaSetDevice(d->options.index) == cudaSuccess) {
        superpose_slots_free(d);
        void *memory[] = {d->roots, d->rows, d->norms, d->row, d->raw, d->bad};
        for (size_t k = 0; k < sizeof memory / sizeof *memory; k++)
            (void)cudaFree(memory[k]);
        for (int k = 0; k < SUPERPOSE_SLOTS; k++)
            if (d->slots[k].done) (void)cudaEventDestroy(d->slots[k].done);
        if (d->compute) (void)cudaStreamDestroy(d->compute);
        if (d->fetch) (void)cudaStreamDestroy(d->fetch);
    }
    free(d);
    *ensemble = NULL;
}

size_t superpose_ensemble_bytes(const struct superpose_ensemble_options *options, int structures) {
    size_t places = (size_t)whole(structures, SUPERPOSE_TILE) + SUPERPOSE_TILE;
    size_t row = (size_t)3 * (size_t)whole(options->atoms, SUPERPOSE_CHUNK) * sizeof(float);
    return places * (row + sizeof(double) + sizeof(float));
}

enum status superpose_ensemble_reserve(struct superpose_ensemble *d, int structures, struct err *err) {
    if (structures <= d->capacity) return STATUS_OK;
    int capacity = whole(structures, SUPERPOSE_TILE);
    size_t places = (size_t)capacity + SUPERPOSE_TILE, row_bytes = superpose_row_floats(d) * sizeof(float);
    float *rows = NULL, *row = NULL;
    double *norms = NULL;
    CUDA_TRY(cudaSetDevice(d->options.index), err, "choosing it");
    CUDA_TRY(cudaMalloc(&rows, places * row_bytes), err, "making room for structures");
    cudaError_t result = cudaMalloc(&norms, places * sizeof *norms);
    if (result == cudaSuccess) result = cudaMalloc(&row, places * sizeof *row);
    /* Missing structures count as 0 in the tiles that hold them. */
    if (result == cudaSuccess) result = cudaMemsetAsync(rows, 0, places * row_bytes, d->compute);
    if (result == cudaSuccess) result = cudaMemsetAsync(norms, 0, places * sizeof *norms, d->compute);
    if (result == cudaSuccess && d->capacity > 0) {
        result = cudaMemcpyAsync(rows, d->rows, (size_t)d->capacity * row_bytes, cudaMemcpyDeviceToDevice, d->compute);
        if (result == cudaSuccess)
            result = cudaMemcpyAsync(norms, d->norms, (size_t)d->capacity * sizeof *norms, cudaMemcpyDeviceToDevice,
                                     d->compute);
    }
    if (result == cudaSuccess) result = cudaStreamSynchronize(d->compute);
    if (result != cudaSuccess) {
        (void)cudaFree(rows);
        (void)cudaFree(norms);
        (void)cudaFree(row);
    }
    CUDA_TRY(result, err, "making room for structures");
    (void)cudaFree(d->rows);
    (void)cudaFree(d->norms);
    (void)cudaFree(d->row);
    d->rows = rows;
    d->norms = norms;
    d->row = row;
    d->capacity = capacity;
    return STATUS_OK;
}

static enum status reserve_raw(struct superpose_ensemble *d, int count, struct err *err) {
    size_t each = (size_t)d->options.atoms * 3 * sizeof(float), most = RAW_BYTES / each > 0 ? RAW_BYTES / each : 1;
    int wanted = (size_t)count < most ? count : (int)most;
    if (wanted <= d->raw_capacity) return STATUS_OK;
    CUDA_TRY(cudaFree(d->raw), err, "freeing memory");
    d->raw = NULL;
    d->raw_capacity = 0;
    CUDA_TRY(cudaMalloc(&d->raw, (size_t)wanted * each), err, "making room for structures that come");
    d->raw_capacity = wanted;
    return STATUS_OK;
}

enum status superpose_ensemble_put(struct superpose_ensemble *d, const float *xyz, int first, int count,
                                   int64_t *ret_bad, struct err *err) {
    size_t floats = (size_t)d->options.atoms * 3;
    int spot = superpose_spot(d, first);
    unsigned long long found = 0;
    CUDA_TRY(cudaSetDevice(d->options.index), err, "choosing it");
    TRY(reserve_raw(d, count, err));
    for (int done = 0; done < count; done += d->raw_capacity) {
        int here = count - done < d->raw_capacity ? count - done : d->raw_capacity;
        CUDA_TRY(cudaMemsetAsync(d->bad, 0xff, sizeof *d->bad, d->compute), err, "taking structures there");
        CUDA_TRY(cudaMemcpyAsync(d->raw, xyz + (size_t)done * floats, (size_t)here * floats * sizeof *xyz,
                                 cudaMemcpyHostToDevice, d->compute),
                 err, "taking structures there");
        put<<<(unsigned)here, PUT_THREADS, 0, d->compute>>>(
            d->raw, d->roots, d->options.atoms, d->stride, d->options.total,
            d->rows + (size_t)(spot + done) * superpose_row_floats(d), d->norms + spot + done, d->bad);
        CUDA_TRY(cudaGetLastError(), err, "centring structures");
        CUDA_TRY(cudaMemcpyAsync(&found, d->bad, sizeof found, cudaMemcpyDeviceToHost, d->compute), err,
                 "centring structures");
        CUDA_TRY(cudaStreamSynchronize(d->compute), err, "centring structures");
        if (found == ~0ull) continue;
        *ret_bad = (int64_t)done * d->options.atoms + (int64_t)found;
        return STATUS_OK;
    }
    *ret_bad = -1;
    return STATUS_OK;
}

enum status superpose_ensemble_row(struct superpose_ensemble *d, int one, int count, float *ret_rmsd, struct err *err) {
    CUDA_TRY(cudaSetDevice(d->options.index), err, "choosing it");
    solve_row<<<(unsigned)((count + ROW_PAIRS - 1) / ROW_PAIRS), ROW_THREADS, 0, d->compute>>>(
        d->rows, d->norms, superpose_spot(d, one), count, d->stride, d->options.total, (int)d->options.method, d->row);
    CUDA_TRY(cudaGetLastError(), err, "superposing a row");
    CUDA_TRY(cudaMemcpyAsync(ret_rmsd, d->row, (size_t)count * sizeof *ret_rmsd, cudaMemcpyDeviceToHost, d->compute),
             err, "fetching a row");
    CUDA_TRY(cudaStreamSynchronize(d->compute), err, "superposing a row");
    return STATUS_OK;
}
