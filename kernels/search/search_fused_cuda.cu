/* Correlates without products and maps in memory: an own inverse transform, columns first, then rows.
 *
 * Two rotations are transformed together as A and B: psi and psi + 180°, or the next one if the number of rotations is
 * odd. Columns: products are formed as they are loaded; the transforms of both go to `middle`. Rows: A and B have half
 * spectra of real rows, so one transform of A + iB gives the row of A as its real part and that of B as its imaginary
 * part; two rows are transformed together. Only the best of some pairs leaves the block. */
#include <math.h>
#include <stdlib.h>

#include "kernels/fourier/block_fft.cuh"
#include "kernels/search/search_plan.cuh"

/* Most threads of a block, so that registers suffice. */
enum { MOST_THREADS = 512 };
/* If fewer blocks fit into the shared memory of a multiprocessor, cuFFT is faster. */
enum { LEAST_BLOCKS = 2 };
/* Large batches keep the device busy to the end, which is worth more than the L2 cache. */
static const size_t MIDDLE_BYTES = (size_t)512 << 20;

struct search_fused {
    fft_passes passes;
    int largest;   /* radix */
    int pairs;     /* at a time */
    int all_pairs; /* of a template */
    int resident;  /* blocks of `rows` that the device runs at once */
    float2 *roots;
    float4 *middle; /* [pairs][work/2+1][work]: A, B */
};

/* The data that columns are made of. */
struct column_source {
    const float2 *image;   /* [work/2+1][work] */
    const float2 *rotated; /* of this template, [turn][work/2+1][work], or NULL */
    search_templates templates;
    int item, turn;
    bool both; /* B is the conjugate's: psi + 180° */
};

template <bool KEPT>
static __device__ inline float2 source_value(const column_source &c, int rotation, int kx, int row, int n) {
    if (KEPT) return __ldcs(c.rotated + ((size_t)rotation * (n / 2 + 1) + kx) * n + row);
    return search_rotated(c.templates, c.item, c.templates.turns[rotation], kx, row);
}

template <int MOST, bool KEPT>
static __global__ void __launch_bounds__(MOST_THREADS, 1)
    columns(const __grid_constant__ fft_passes f, const __grid_constant__ column_source c, int first, float4 *middle) {
    int kx = blockIdx.x, n = f.n, pair = first + blockIdx.y;
    const float2 *image = c.image + (size_t)kx * n;
    int a = c.both ? pair : 2 * pair, b = a + 1;
    float4 *out = middle + ((size_t)blockIdx.y * (n / 2 + 1) + kx) * n;
    fft_run_pass<MOST, false>(
        f.pass[0],
        [&](int i) {
            float2 v = __ldg(image + i), p = source_value<KEPT>(c, a, kx, i, n), q = make_float2(0, 0);
            if (c.both)
                q = make_float2(p.x, -p.y);
            else if (b < c.turn)
                q = source_value<KEPT>(c, b, kx, i, n);
            return make_float4(v.x * p.x + v.y * p.y, v.y * p.x - v.x * p.y, v.x * q.x + v.y * q.y,
                               v.y * q.x - v.x * q.y);
        },
        [&](int i, float4 v) { fft_elements[fft_place(i, f.shift)] = v; });
    fft_run_shared<MOST>(f, 1, f.passes - 1);
    fft_run_pass<MOST, false>(
        f.pass[f.passes - 1], [&](int i) { return fft_elements[fft_place(i, f.shift)]; },
        [&](int i, float4 v) { out[i] = v; });
}

/* Computes A + iB at kx and at −kx, for both rows, from A and B at kx. At kx = 0 and n/2 they are real, and their
 * imaginary parts are rounding. */
static __device__ inline void join(const float4 *from, int kx, int n, int shift) {
    float4 u = from[0], v = from[1];
    if (kx == 0 || 2 * kx == n) {
        fft_elements[fft_place(kx, shift)] = make_float4(u.x, u.z, v.x, v.z);
        return;
    }
    fft_elements[fft_place(kx, shift)] = make_float4(u.x - u.w, u.y + u.z, v.x - v.w, v.y + v.z);
    fft_elements[fft_place(n - kx, shift)] = make_float4(u.x + u.w, u.z - u.y, v.x + v.w, v.z - v.y);
}

struct row_work {
    const float4 *middle;
    int pairs, first, turn; /* in `middle`; the first's number in the template; rotations that are transformed */
    int each;               /* pairs of a block */
    bool both;
    unsigned long long *best;
};

/* Merges the values of A and B into the best of a row so far. When values are equal the earlier rotation stays. */
static __device__ inline void keep(bool begin, float a, float b, int rotation_a, int rotation_b, float *best,
                                   unsigned short *index) {
    bool second = b > a;
    float value = second ? b : a;
    int rotation = second ? rotation_b : rotation_a;
    if (!begin && !(value > *best || (value == *best && rotation < *index))) return;
    *best = value;
    *index = (unsigned short)rotation;
}

template <int MOST>
static __global__ void __launch_bounds__(MOST_THREADS, 1)
    rows(const __grid_constant__ fft_passes f, const __grid_constant__ row_work w) {
    int n = f.n, y = 2 * blockIdx.x;
    float *best = (float *)(fft_elements + n + (n >> f.shift) + 1); /* [2][n] */
    unsigned short *index = (unsigned short *)(best + 2 * n);       /* [2][n] */
    int begin = blockIdx.y * w.each, end = min(begin + w.each, w.pairs);
    for (int pair = begin; pair < end; pair++) {
        const float4 *from = w.middle + (size_t)pair * (n / 2 + 1) * n + y;
        for (int kx = threadIdx.x; kx <= n / 2; kx += blockDim.x)
            join(from + (size_t)kx * n, kx, n, f.shift);
        int a = w.first + pair, b = a + w.turn;
        if (!w.both) {
            a = 2 * (w.first + pair);
            b = a + 1;
        }
        bool alone = !w.both && b >= w.turn, first = pair == begin;
        fft_run_shared<MOST>(f, 0, f.passes - 1);
        /* Each thread handles the same pixels every time. */
        fft_run_pass<MOST, true>(
            f.pass[f.passes - 1], [&](int i) { return fft_elements[fft_place(i, f.shift)]; },
            [&](int i, float4 v) {
                keep(first, v.x, alone ? v.x : v.y, a, b, best + i, index + i);
                keep(first, v.z, alone ? v.z : v.w, a, b, best + n + i, index + n + i);
            });
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * n; i += blockDim.x) {
        unsigned long long packed = search_pack(best[i], index[i]), *to = w.best + (size_t)y * n + i;
        if (packed > *to) atomicMax(to, packed);
    }
}

/* exp(2πi k / (s R)) of every pass. */
static enum status make_roots(search_fused *fused, err *err) {
    fft_passes *f = &fused->passes;
    size_t count = 0;
    for (int i = 1; i < f->passes; i++)
        count += f->pass[i].done;
    float2 *roots = (float2 *)malloc(count * sizeof *roots), *next = roots;
    FAIL_IF(roots == NULL, err, STATUS_NO_MEMORY, "no memory for %zu roots of a Fourier transform", count);
    cudaError_t result = cudaMalloc(&fused->roots, count * sizeof *roots);
    for (int i = 1; i < f->passes; i++) {
        fft_pass *p = &f->pass[i];
        p->roots = fused->roots + (next - roots);
        for (int k = 0; k < p->done; k++) {
            double angle = 2 * M_PI * k / ((double)p->done * p->radix);
            *next++ = make_float2((float)cos(angle), (float)sin(angle));
        }
    }
    if (result == cudaSuccess) result = cuda_copy(fused->roots, roots, count * sizeof *roots);
    free(roots);
    CUDA_TRY(result, err, "the roots of a Fourier transform");
    return STATUS_OK;
}

static size_t row_bytes(const fft_passes &f) {
    return fft_shared_bytes(f) + 2 * f.n * (sizeof(float) + sizeof(unsigned short));
}

/* Returns how many pairs a block of `rows` handles one after another, so that the last wave of blocks is full. */
static int pairs_of_a_block(int blocks, int pairs, int resident) {
    int best = pairs;
    double least = INFINITY;
    for (int each = 1; each <= pairs; each++) {
        int all = blocks * ((pairs + each - 1) / each), waves = (all + resident - 1) / resident;
        /* Half a pair for beginning and end. */
        double cost = waves * (each + 0.5);
        if (cost < least) {
            least = cost;
            best = each;
        }
    }
    return best;
}

template <int MOST> static enum status allow_shared(const fft_passes &f, int *ret_blocks, err *err) {
    CUDA_TRY(cuda_allow_shared((const void *)columns<MOST, true>), err, "taking shared memory");
    CUDA_TRY(cuda_allow_shared((const void *)columns<MOST, false>), err, "taking shared memory");
    CUDA_TRY(cuda_allow_shared((const void *)rows<MOST>), err, "taking shared memory");
    CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(ret_blocks, rows<MOST>, f.threads, row_bytes(f)), err,
             "taking shared memory");
    return STATUS_OK;
}

static enum status allow(const search_cuda *s, search_fused *fused, err *err) {
    const fft_passes &f = fused->passes;
    int blocks = 0, processors = 0;
    if (fused->largest <= 8)
        TRY(allow_shared<8>(f, &blocks, err));
    else if (fused->largest <= 12)
        TRY(allow_shared<12>(f, &blocks, err));
    else
        TRY(allow_shared<14>(f, &blocks, err));
    CUDA_TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, s->o.device.index), err,
             "asking for its multiprocessors");
    fused->resident = blocks * processors;
    return STATUS_OK;
}

static enum status build(const search_cuda *s, search_fused *fused, err *err) {
    int n = s->o.work;
    for (int i = 0; i < fused->passes.passes; i++)
        if (fused->passes.pass[i].radix > fused->largest) fused->largest = fused->passes.pass[i].radix;
    fused->all_pairs = s->turn < s->o.rotations ? s->turn : (s->turn + 1) / 2;
    size_t bytes = (size_t)(n / 2 + 1) * n * sizeof(float4), fit = MIDDLE_BYTES / bytes;
    fused->pairs = s->setup.tuning.pairs > 0 ? s->setup.tuning.pairs : fit < 1 ? 1 : fit < 1000 ? (int)fit : 1000;
    if (fused->pairs > fused->all_pairs) fused->pairs = fused->all_pairs;
    CUDA_TRY(cudaMalloc(&fused->middle, fused->pairs * bytes), err, "making room for correlations");
    TRY(allow(s, fused, err));
    return make_roots(fused, err);
}

enum status search_fused_create(const search_cuda *s, search_fused **ret_fused, err *err) {
    search_fused fused = {};
    int most_shared = 0;
    *ret_fused = NULL;
    CUDA_TRY(cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, s->o.device.index), err,
             "asking for its shared memory");
    if (!fft_plan_passes(s->o.work, MOST_THREADS, &fused.passes)) return STATUS_OK;
    if (LEAST_BLOCKS * row_bytes(fused.passes) > (size_t)most_shared) return STATUS_OK;
    enum status status = build(s, &fused, err);
    search_fused *made = status == STATUS_OK ? (search_fused *)malloc(sizeof *made) : NULL;
    if (made == NULL) {
        (void)cudaFree(fused.roots);
        (void)cudaFree(fused.middle);
        TRY(status);
        FAIL(err, STATUS_NO_MEMORY, "no memory for a search");
    }
    *made = fused;
    *ret_fused = made;
    return STATUS_OK;
}

void search_fused_destroy(search_fused **fused) {
    if (*fused == NULL) return;
    (void)cudaFree((*fused)->roots);
    (void)cudaFree((*fused)->middle);
    free(*fused);
    *fused = NULL;
}

template <int MOST>
static enum status launch(search_cuda *s, const column_source &source, int first, int pairs, err *err) {
    const search_fused *fused = s->fused;
    const fft_passes &f = fused->passes;
    int each = pairs_of_a_block(f.n / 2, pairs, fused->resident);
    dim3 column_blocks(f.n / 2 + 1, pairs), row_blocks(f.n / 2, (pairs + each - 1) / each);
    auto *kernel = source.rotated ? columns<MOST, true> : columns<MOST, false>;
    kernel<<<column_blocks, f.threads, fft_shared_bytes(f), s->stream>>>(f, source, first, fused->middle);
    LAUNCH_TRY(err, "the correlations' columns");
    row_work work = {fused->middle, pairs, first, s->turn, each, source.both, s->best};
    rows<MOST><<<row_blocks, f.threads, row_bytes(f), s->stream>>>(f, work);
    LAUNCH_TRY(err, "the correlations' rows");
    return STATUS_OK;
}

enum status search_fused_run(search_cuda *s, int t, err *err) {
    const search_fused *fused = s->fused;
    const float2 *rotated = s->rotated ? s->rotated + (size_t)t * s->turn * s->half : NULL;
    column_source source = {s->prepared, rotated, s->templates, t, s->turn, s->turn < s->o.rotations};
    for (int first = 0; first < fused->all_pairs; first += fused->pairs) {
        int left = fused->all_pairs - first, pairs = left < fused->pairs ? left : fused->pairs;
        if (fused->largest <= 8)
            TRY(launch<8>(s, source, first, pairs, err));
        else if (fused->largest <= 12)
            TRY(launch<12>(s, source, first, pairs, err));
        else
            TRY(launch<14>(s, source, first, pairs, err));
    }
    return STATUS_OK;
}
