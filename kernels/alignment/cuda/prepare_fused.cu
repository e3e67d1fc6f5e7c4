/* Prepares an image in one block, in shared memory from the image to its spectra.
 *
 * A line is transformed in place. A pass of radix R over blocks of L elements transforms the elements j, j + L/R .. of
 * a block, turns them by exp(2πi j k / L), and leaves them in place; L becomes L/R. In the end frequency k1 + R1 k2 +
 * R1 R2 k3 .. is at k1 n/R1 + k2 n/(R1 R2) + ... Two lines are processed side by side. The sign is that of the inverse
 * transform: the forward transform's value at k is at −k. */
#include "kernels/alignment/cuda/prepare.cuh"
#include "kernels/fourier/block_fft.cuh"

namespace {

enum { THREADS = 512 };

/* Lines in shared memory, an even number; strides in elements. */
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

/* Transforms lines; all threads of the block call this. It first waits for earlier stores, and its results are visible
 * to all threads. */
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

/* Tables and lists, stored behind the lines. */
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

/* Gathers the pixels of an image. at(kx, ky), with k of either sign, is the forward transform. All threads of the block
 * call this. */
template <class At> __device__ inline void gather_image(const spectra &s, size_t image, float *powers, At at) {
    const prepare_particle_cuda *p = s.which + image;
    const int *starts = s.shell_begin;
    const float *sigma2 = s.sigma2 + (size_t)p->optics * s.shells;
    int lane = (int)threadIdx.x % 32;
    bool has_ctf = p->has_ctf != 0;
    double terms[CTF_TERMS_PLAIN];
    for (int i = 0; i < CTF_TERMS_PLAIN; i++)
        terms[i] = p->ctf[i];
    for (int m = (int)threadIdx.x; m < starts[s.shells]; m += (int)blockDim.x) {
        int kx = s.kx[m], ky = s.ky[m];
        float2 added = s.shared_shell > 0 ? masked_low(s, image, kx, ky) : make_float2(0, 0);
        powers[m] = put_pixel(s, image, m, kx, ky, at(kx, ky), at(-kx, -ky), added, has_ctf, terms,
                              p->ctf + CTF_TERMS_PLAIN, 1 / sigma2[s.shell[m]]);
    }
    __syncthreads();
    for (int shell = (int)threadIdx.x / 32; shell < s.shells; shell += (int)blockDim.x / 32) {
        double sum = 0;
        for (int i = starts[shell] + lane; i < starts[shell + 1]; i += 32)
            sum += powers[i];
        sum = warp_sum(sum);
        if (shell == 0) sum = origin_power(s, at(0, 0));
        if (lane == 0) s.sums[image * s.shells + shell] = sum;
    }
}

/* Returns the place of a frequency of the forward transform. */
__device__ inline int place_of(const short *places, int n, int k) {
    return places[k > 0 ? n - k : -k];
}

__global__ void __launch_bounds__(THREADS, 1) prepare_whole(spectra s, fused_fft f) {
    extern __shared__ float2 shared[];
    __shared__ float mean;
    size_t image = blockIdx.x;
    int n = s.box, pitch = n | 1, pixels = n * n;
    const float *from = image_of(s, image);
    const prepare_particle_cuda p = s.which[image];
    tables t = load_tables(f, shared + n * pitch);
    double sum = 0;
#pragma unroll 8
    for (int i = (int)threadIdx.x; i < pixels; i += THREADS) {
        int y = i / n, x = i - y * n;
        float value = shifted(s, from, p, x, y), weight = s.outside[i];
        if (weight > 0) sum += (double)weight * (double)value;
        shared[y * pitch + x] = make_float2(value, value);
    }
    sum = block_sum(sum);
    /* A mask that covers the whole box leaves no background to average. */
    if (threadIdx.x == 0) mean = s.outside_sum > 0 ? (float)(sum / s.outside_sum) : 0;
    __syncthreads();
#pragma unroll 8
    for (int i = (int)threadIdx.x; i < pixels; i += THREADS) {
        int y = i / n, x = i - y * n;
        float weight = s.outside[i], value = shared[y * pitch + x].y;
        shared[y * pitch + x].x = value + weight * (mean - value);
    }
    transform_lines({shared, n, pitch, 1}, f, t.roots);
    transform_lines({shared, n, 1, pitch}, f, t.roots);
    auto at = [&](int kx, int ky) { return shared[place_of(t.places, n, ky) * pitch + place_of(t.places, n, kx)]; };
    if (s.shared_shell > 0) put_low(s, image, at);
    gather_image(s, image, t.powers, at);
}

size_t whole_bytes(const prepare_cuda *p) {
    size_t n = (size_t)p->box;
    return n * (n | 1) * sizeof(float2) + n * sizeof(float2) + ((n + 1) / 2 + (size_t)p->members) * sizeof(float);
}

/* Chooses the fewest passes, then the largest smallest radix. */
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
    p->fused = false;
    choose_radices(p->box, 16, &tried, &best);
    /* Variables declared in the kernel need some of it. */
    if (best.passes == 0 || whole_bytes(p) > (size_t)most - 1024) return STATUS_OK;
    CUDA_TRY(cuda_allow_shared((const void *)prepare_whole), err, "asking for shared memory");
    p->fft = best;
    p->fused = true;
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

enum status prepare_fused_run(const struct prepare_cuda *p, const spectra *s, int count, cudaStream_t stream,
                              struct err *err) {
    prepare_whole<<<(unsigned)count, THREADS, whole_bytes(p), stream>>>(*s, p->fft);
    CUDA_TRY(cudaGetLastError(), err, "preparing particles");
    return STATUS_OK;
}
