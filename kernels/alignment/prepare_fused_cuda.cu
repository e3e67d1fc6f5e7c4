/* Preparation with the transforms in shared memory: an image by one block where it fits; else rows, then columns, each
 * column beside its mirror image, so that the pair of spectra can be told apart at once.
 *
 * A line is transformed in place. A pass of radix R over blocks of L elements: elements j, j + L/R .. of a block are
 * transformed, turned by exp(2πi j k / L), and stay where they are; L becomes L/R. At the end frequency k1 + R1 k2 +
 * R1 R2 k3 .. stands at k1 n/R1 + k2 n/(R1 R2) + ... Two lines go side by side. The sign is that of the inverse
 * transform: the forward one's value at k is found at −k. */
#include "kernels/alignment/prepare_cuda.cuh"
#include "kernels/search/search_fft.cuh"

namespace {

enum { WHOLE_THREADS = 512, PART_THREADS = 256, ROWS = 16, COLUMN_PITCH = 24 };

/* Lines in shared memory, an even number of them; strides in elements. */
struct lines {
    float2 *at;
    int count, line, element;
};

template <int R> __device__ inline void run_pass(const lines &t, int n, int length, const float2 *roots) {
    int half = t.count / 2, apart = length / R, count = half * (n / R), turn = n / length;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        int b = i / half, line = i - b * half, block = b / apart, j = b - block * apart;
        float2 *low = t.at + line * t.line + (block * length + j) * t.element, *high = low + half * t.line;
        int step = apart * t.element;
        float4 v[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            float2 a = low[r * step], c = high[r * step];
            v[r] = make_float4(a.x, a.y, c.x, c.y);
        }
        fft_small<R>::run(v);
        if (apart > 1)
#pragma unroll
            for (int r = 1; r < R; r++) {
                float2 w = roots[j * r * turn];
                v[r] = turned(v[r], w.x, w.y);
            }
#pragma unroll
        for (int r = 0; r < R; r++) {
            low[r * step] = make_float2(v[r].x, v[r].y);
            high[r * step] = make_float2(v[r].z, v[r].w);
        }
    }
}

/* All threads of the block; what was stored before is there for all, and what is left, for all. */
__device__ inline void transform_lines(const lines &t, const fused_fft &f, const float2 *roots) {
    int length = f.n;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < f.passes; i++) {
        switch (f.radix[i]) {
#define RADIX(R)                                                                                                       \
    case R:                                                                                                            \
        run_pass<R>(t, f.n, length, roots);                                                                            \
        break;
            RADIX(2)
            RADIX(3)
            RADIX(4)
            RADIX(5)
            RADIX(6)
            RADIX(7)
            RADIX(8)
            RADIX(9)
            RADIX(10)
            RADIX(12)
            RADIX(14)
            RADIX(16)
#undef RADIX
        }
        length /= f.radix[i];
        __syncthreads();
    }
}

/* Tables and lists behind the lines. */
struct tables {
    float2 *roots;
    short *places;
    float *powers;
};

__device__ inline tables load_tables(const fused_fft &f, float2 *memory) {
    tables t = {memory, (short *)(memory + f.n), (float *)(memory + f.n) + (f.n + 1) / 2};
    for (int i = (int)threadIdx.x; i < f.n; i += (int)blockDim.x) {
        t.roots[i] = f.roots[i];
        t.places[i] = f.places[i];
    }
    return t;
}

size_t table_bytes(int n, size_t powers) {
    return (size_t)n * sizeof(float2) + (size_t)(n + 1) / 2 * sizeof(float) + powers * sizeof(float);
}

/* Spectra of a part of an image: at(kx, ky), k of either sign, is the forward transform. All threads of the block. */
template <class At> __device__ inline void gather_part(const spectra &s, size_t image, int part, float *powers, At at) {
    const prepare_particle_cuda *p = s.which + image;
    const int *starts = s.starts + (size_t)part * (s.shells + 1);
    const float *sigma2 = s.sigma2 + (size_t)p->optics * s.shells;
    int begin = starts[0], end = starts[s.shells], lane = (int)threadIdx.x % 32;
    bool has_ctf = p->has_ctf != 0;
    double terms[7];
    for (int i = 0; i < 7; i++)
        terms[i] = p->ctf[i];
    for (int i = begin + (int)threadIdx.x; i < end; i += (int)blockDim.x) {
        uint2 e = s.sorted[i];
        int kx = (int)(e.y & 2047), ky = (int)(e.y >> 11 & 2047) - FUSED_KY;
        powers[i - begin] = put_pixel(s, image, (int)e.x, kx, ky, at(kx, ky), at(-kx, -ky), has_ctf, terms,
                                      1 / sigma2[e.y >> 22]);
    }
    __syncthreads();
    for (int shell = (int)threadIdx.x / 32; shell < s.shells; shell += (int)blockDim.x / 32) {
        double sum = 0;
        for (int i = starts[shell] + lane; i < starts[shell + 1]; i += 32)
            sum += powers[i - begin];
        sum = warp_sum(sum);
        if (shell == 0 && part == 0) sum = origin_power(s, at(0, 0));
        if (lane == 0) s.sums[(image * s.parts + part) * s.shells + shell] = sum;
    }
}

/* Where a frequency of the forward transform stands. */
__device__ inline int place_of(const short *places, int n, int k) {
    return places[k > 0 ? n - k : -k];
}

__global__ void __launch_bounds__(WHOLE_THREADS, 1) prepare_whole(spectra s, fused_fft f) {
    extern __shared__ float2 shared[];
    __shared__ float mean;
    size_t image = blockIdx.x;
    int n = s.box, pitch = n | 1, pixels = n * n;
    const float *from = s.images + image * (size_t)pixels;
    const prepare_particle_cuda p = s.which[image];
    tables t = load_tables(f, shared + n * pitch);
    double sum = 0;
#pragma unroll 8
    for (int i = (int)threadIdx.x; i < pixels; i += WHOLE_THREADS) {
        int y = i / n, x = i - y * n;
        float value = shifted(from, n, p, x, y), weight = s.outside[i];
        if (weight > 0) sum += (double)weight * (double)value;
        shared[y * pitch + x] = make_float2(value, value);
    }
    sum = block_sum(sum);
    /* A mask that covers the whole box leaves no background to take a mean of. */
    if (threadIdx.x == 0) mean = s.outside_sum > 0 ? (float)(sum / s.outside_sum) : 0;
    __syncthreads();
#pragma unroll 8
    for (int i = (int)threadIdx.x; i < pixels; i += WHOLE_THREADS) {
        int y = i / n, x = i - y * n;
        float weight = s.outside[i], value = shared[y * pitch + x].y;
        shared[y * pitch + x].x = value + weight * (mean - value);
    }
    transform_lines({shared, n, pitch, 1}, f, t.roots);
    transform_lines({shared, n, 1, pitch}, f, t.roots);
    gather_part(s, image, 0, t.powers, [&](int kx, int ky) {
        return shared[place_of(t.places, n, ky) * pitch + place_of(t.places, n, kx)];
    });
}

/* Of 16 lanes eight lines wide, none meet in a bank. */
__host__ __device__ inline int row_pitch(int n) {
    return (n + 7) / 16 * 16 + 8;
}

/* ROWS rows of an image: masked, transformed, put down in the order of frequencies. */
__global__ void __launch_bounds__(PART_THREADS) prepare_rows(spectra s, fused_fft f) {
    extern __shared__ float2 shared[];
    __shared__ float mean;
    size_t image = blockIdx.y, pixels = (size_t)s.box * s.box;
    int n = s.box, pitch = row_pitch(n), first = (int)blockIdx.x * ROWS;
    int rows = n - first < ROWS ? n - first : ROWS;
    const prepare_particle_cuda p = s.which[image];
    tables t = load_tables(f, shared + ROWS * pitch);
    if (threadIdx.x == 0) mean = background_mean(s, image);
    __syncthreads();
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < ROWS * n; i += PART_THREADS) {
        int row = i / n, x = i - row * n, y = first + row;
        float value = 0, weight = 0;
        if (row < rows) {
            value = shifted(s.images + image * pixels, n, p, x, y);
            weight = s.outside[(size_t)y * n + x];
        }
        shared[row * pitch + x] = make_float2(value + weight * (mean - value), value);
    }
    transform_lines({shared, ROWS, pitch, 1}, f, t.roots);
    float2 *out = s.pairs + image * pixels + (size_t)first * n;
    for (int i = (int)threadIdx.x; i < rows * n; i += PART_THREADS) {
        int row = i / n, x = i - row * n;
        out[i] = shared[row * pitch + t.places[x]];
    }
}

/* FUSED_COLUMNS columns of an image, and behind them their mirror images. */
__global__ void __launch_bounds__(PART_THREADS) prepare_columns(spectra s, fused_fft f) {
    extern __shared__ float2 shared[];
    size_t image = blockIdx.y;
    int n = s.box, part = (int)blockIdx.x, first = part * FUSED_COLUMNS;
    const float2 *from = s.pairs + image * (size_t)n * n;
    tables t = load_tables(f, shared + n * COLUMN_PITCH);
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < 2 * FUSED_COLUMNS * n; i += PART_THREADS) {
        int y = i / (2 * FUSED_COLUMNS), slot = i % (2 * FUSED_COLUMNS), kx = first + slot % FUSED_COLUMNS;
        int x = slot < FUSED_COLUMNS || kx == 0 ? kx : n - kx;
        shared[y * COLUMN_PITCH + slot] = kx <= n / 2 ? from[(size_t)y * n + x] : make_float2(0, 0);
    }
    transform_lines({shared, 2 * FUSED_COLUMNS, 1, COLUMN_PITCH}, f, t.roots);
    gather_part(s, image, part, t.powers, [&](int kx, int ky) {
        int slot = kx < 0 ? -kx - first : kx - first + FUSED_COLUMNS;
        return shared[place_of(t.places, n, ky) * COLUMN_PITCH + slot];
    });
}

size_t whole_bytes(const prepare_cuda *p) {
    return (size_t)p->box * (p->box | 1) * sizeof(float2) + table_bytes(p->box, (size_t)p->members);
}

size_t row_bytes(const prepare_cuda *p) {
    return (size_t)ROWS * row_pitch(p->box) * sizeof(float2) + table_bytes(p->box, 0);
}

size_t column_bytes(const prepare_cuda *p) {
    return (size_t)p->box * COLUMN_PITCH * sizeof(float2) + table_bytes(p->box, (size_t)FUSED_COLUMNS * p->box);
}

/* Fewest passes, then the greatest least radix. */
void choose_radices(int rest, int most, fused_fft *tried, fused_fft *best) {
    if (rest == 1) {
        int count = tried->passes;
        bool better = best->passes == 0 || count < best->passes ||
                      (count == best->passes && tried->radix[count - 1] > best->radix[count - 1]);
        if (better) *best = *tried;
        return;
    }
    for (int radix = most; radix >= 2 && tried->passes < FUSED_PASSES; radix--) {
        if (rest % radix != 0 || radix == 11 || radix == 13 || radix == 15) continue;
        tried->radix[tried->passes++] = radix;
        choose_radices(rest / radix, radix, tried, best);
        tried->passes--;
    }
}

} // namespace

enum status prepare_fused_choose(struct prepare_cuda *p, struct err *err) {
    int device, most;
    fused_fft tried = {}, best = {};
    CUDA_TRY(cudaGetDevice(&device), err, "asking for it");
    CUDA_TRY(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), err,
             "asking for shared memory");
    tried.n = p->box;
    p->way = PREPARE_CUFFT;
    p->parts = 1;
    if (p->box < 2 * FUSED_KY - 2) choose_radices(p->box, 16, &tried, &best);
    if (best.passes == 0) return STATUS_OK;
    p->fft = best;
    /* Some of it is taken by what is declared in the kernels. */
    size_t room = (size_t)most - 1024;
    if (whole_bytes(p) <= room) {
        p->way = PREPARE_WHOLE;
        CUDA_TRY(cudaFuncSetAttribute(prepare_whole, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)whole_bytes(p)),
                 err, "asking for shared memory");
    } else if (row_bytes(p) <= room && column_bytes(p) <= room) {
        p->way = PREPARE_PARTS;
        p->parts = p->box / 2 / FUSED_COLUMNS + 1;
        CUDA_TRY(cudaFuncSetAttribute(prepare_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)row_bytes(p)),
                 err, "asking for shared memory");
        CUDA_TRY(cudaFuncSetAttribute(prepare_columns, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)column_bytes(p)),
                 err, "asking for shared memory");
    }
    return STATUS_OK;
}

void prepare_fused_tables(const struct fused_fft *f, float2 *ret_roots, short *ret_places) {
    for (int k = 0; k < f->n; k++) {
        int rest = k, length = f->n, place = 0;
        for (int i = 0; i < f->passes; i++) {
            length /= f->radix[i];
            place += rest % f->radix[i] * length;
            rest /= f->radix[i];
        }
        ret_places[k] = (short)place;
        ret_roots[k] = make_float2((float)cos(2 * M_PI * k / f->n), (float)sin(2 * M_PI * k / f->n));
    }
}

enum status prepare_fused_whole(const struct prepare_cuda *p, const spectra *s, int count, cudaStream_t stream,
                                struct err *err) {
    prepare_whole<<<(unsigned)count, WHOLE_THREADS, whole_bytes(p), stream>>>(*s, p->fft);
    CUDA_TRY(cudaGetLastError(), err, "preparing particles");
    return STATUS_OK;
}

enum status prepare_fused_parts(const struct prepare_cuda *p, const spectra *s, int count, cudaStream_t stream,
                                struct err *err) {
    prepare_rows<<<dim3(blocks_for((size_t)p->box, ROWS), (unsigned)count), PART_THREADS, row_bytes(p), stream>>>(*s,
                                                                                                               p->fft);
    prepare_columns<<<dim3((unsigned)p->parts, (unsigned)count), PART_THREADS, column_bytes(p), stream>>>(*s, p->fft);
    CUDA_TRY(cudaGetLastError(), err, "preparing particles");
    return STATUS_OK;
}
