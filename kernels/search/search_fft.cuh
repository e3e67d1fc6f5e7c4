/* Fourier transforms of two interleaved sequences (float4: two complex numbers) by one block in shared memory, for the
 * fused correlations: Stockham's passes of radix 2 to 16, inverse (exp(+2πi …)), no factor, one butterfly a thread.
 *
 * A pass of radix R over what is done so far, s: thread j < n/R takes the elements j + r n/R, turns them by
 * exp(2πi (j mod s) r / (s R)), transforms the R of them and puts them to (j div s) s R + (j mod s) + r s. */
#ifndef ICESTREAM_KERNELS_SEARCH_FFT_CUH
#define ICESTREAM_KERNELS_SEARCH_FFT_CUH

#include <cuda_runtime.h>

enum { FFT_PASSES = 6 };

struct fft_pass {
    int radix, done, count; /* R, s, n/R */
    unsigned inverse;       /* 2³² over s, for divisions */
    const float2 *roots;    /* [s]: exp(2πi k / (s R)) */
};

struct fft_passes {
    int n, passes, threads;
    fft_pass pass[FFT_PASSES];
};

static __device__ inline float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

static __device__ inline float4 operator-(float4 a, float4 b) {
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}

static __device__ inline float4 scaled(float f, float4 a, float4 b) { /* b + f a */
    return make_float4(b.x + f * a.x, b.y + f * a.y, b.z + f * a.z, b.w + f * a.w);
}

static __device__ inline float4 times_i(float4 a) {
    return make_float4(-a.y, a.x, -a.w, a.z);
}

static __device__ inline float4 turned(float4 a, float c, float s) {
    return make_float4(a.x * c - a.y * s, a.x * s + a.y * c, a.z * c - a.w * s, a.z * s + a.w * c);
}

/* cos and sin of 2π k / R at compile time. */
template <int R> struct fft_roots {
    float c[R], s[R];
    constexpr fft_roots() : c(), s() {
        for (int k = 0; k < R; k++) {
            /* Within ±π the series has converged long before its 20 terms end. */
            double x = 2 * 3.14159265358979323846 * (2 * k > R ? k - R : k) / R, even = 1, odd = x, term = 1;
            double sum_c = 0, sum_s = 0;
            for (int i = 0; i < 20; i++) {
                sum_c += even;
                sum_s += odd;
                term = -x * x;
                even *= term / ((2 * i + 1) * (2 * i + 2));
                odd *= term / ((2 * i + 2) * (2 * i + 3));
            }
            c[k] = (float)sum_c;
            s[k] = (float)sum_s;
        }
    }
};

/* Odd primes: pairs k, R − k share their sums and differences. */
template <int R> struct fft_small {
    static __device__ inline void run(float4 (&v)[R]) {
        constexpr fft_roots<R> w;
        float4 sum[(R + 1) / 2], difference[(R + 1) / 2], first = v[0];
#pragma unroll
        for (int j = 1; j <= R / 2; j++) {
            sum[j] = v[j] + v[R - j];
            difference[j] = v[j] - v[R - j];
            v[0] = v[0] + sum[j];
        }
#pragma unroll
        for (int k = 1; k <= R / 2; k++) {
            float4 a = first, b = make_float4(0, 0, 0, 0);
#pragma unroll
            for (int j = 1; j <= R / 2; j++) {
                a = scaled(w.c[k * j % R], sum[j], a);
                b = scaled(w.s[k * j % R], difference[j], b);
            }
            b = times_i(b);
            v[k] = a + b;
            v[R - k] = a - b;
        }
    }
};

template <> struct fft_small<2> {
    static __device__ inline void run(float4 (&v)[2]) {
        float4 a = v[0];
        v[0] = a + v[1];
        v[1] = a - v[1];
    }
};

template <> struct fft_small<4> {
    static __device__ inline void run(float4 (&v)[4]) {
        float4 a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = times_i(v[1] - v[3]);
        v[0] = a + c;
        v[1] = b + d;
        v[2] = a - c;
        v[3] = b - d;
    }
};

/* Cooley and Tukey: R = A B. */
template <int A, int B> static __device__ inline void fft_composite(float4 (&v)[A * B]) {
    constexpr int R = A * B;
    constexpr fft_roots<R> w;
    float4 columns[B][A];
#pragma unroll
    for (int b = 0; b < B; b++) {
#pragma unroll
        for (int a = 0; a < A; a++)
            columns[b][a] = v[b + B * a];
        fft_small<A>::run(columns[b]);
#pragma unroll
        for (int k = 1; k < A; k++)
            if (4 * b * k == R)
                columns[b][k] = times_i(columns[b][k]);
            else if (b > 0)
                columns[b][k] = turned(columns[b][k], w.c[b * k % R], w.s[b * k % R]);
    }
#pragma unroll
    for (int k = 0; k < A; k++) {
        float4 row[B];
#pragma unroll
        for (int b = 0; b < B; b++)
            row[b] = columns[b][k];
        fft_small<B>::run(row);
#pragma unroll
        for (int b = 0; b < B; b++)
            v[k + A * b] = row[b];
    }
}

#define FFT_COMPOSITE(a, b)                                                                                            \
    template <> struct fft_small<a * b> {                                                                              \
        static __device__ inline void run(float4 (&v)[a * b]) {                                                        \
            fft_composite<a, b>(v);                                                                                    \
        }                                                                                                              \
    };
FFT_COMPOSITE(3, 2)
FFT_COMPOSITE(4, 2)
FFT_COMPOSITE(3, 3)
FFT_COMPOSITE(5, 2)
FFT_COMPOSITE(4, 3)
FFT_COMPOSITE(7, 2)
FFT_COMPOSITE(5, 3)
FFT_COMPOSITE(4, 4)
#undef FFT_COMPOSITE

/* Powers of the root by halves, so that errors and waiting grow with the logarithm. */
template <int R> static __device__ inline void fft_turn(float4 (&v)[R], float2 root) {
    float2 power[R];
    power[1] = root;
#pragma unroll
    for (int r = 2; r < R; r++) {
        float2 a = power[r / 2], b = power[r - r / 2];
        power[r] = make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
    }
#pragma unroll
    for (int r = 1; r < R; r++)
        v[r] = turned(v[r], power[r].x, power[r].y);
}

/* Elements in shared memory: one of padding after every 16, so that strides of a radix meet different banks. */
static __device__ inline int fft_place(int i) {
    return i + (i >> 4);
}

/* The elements, in natural order before the first pass and after the last. */
extern __shared__ float4 fft_elements[];

/* One pass in place. Threads without a butterfly load one nevertheless: registers that are not written on every way would
 * be kept for all radices at once around the loop over passes. */
template <int R> static __device__ inline void fft_butterflies(int count, int done, unsigned inverse, const float2 *roots) {
    int j = threadIdx.x, from = j < count ? j : 0;
    float4 v[R];
#pragma unroll
    for (int r = 0; r < R; r++)
        v[r] = fft_elements[fft_place(from + r * count)];
    __syncthreads();
    if (j >= count) return;
    int to = j * R;
    if (done > 1) {
        int block = (int)__umulhi((unsigned)j, inverse), k = j - block * done;
        to = block * done * R + k;
        fft_turn<R>(v, __ldg(roots + k));
    }
    fft_small<R>::run(v);
#pragma unroll
    for (int r = 0; r < R; r++)
        fft_elements[fft_place(to + r * done)] = v[r];
}

/* Radices up to MOST are compiled: the registers of the largest are taken whether it is used or not. */
template <int MOST> static __device__ inline void fft_run_pass(const fft_pass &p) {
#define FFT_CASE(R)                                                                                                    \
    case R:                                                                                                            \
        if (R <= MOST) fft_butterflies<R>(p.count, p.done, p.inverse, p.roots);                                        \
        break;
    switch (p.radix) {
        FFT_CASE(2)
        FFT_CASE(3)
        FFT_CASE(4)
        FFT_CASE(5)
        FFT_CASE(6)
        FFT_CASE(7)
        FFT_CASE(8)
        FFT_CASE(9)
        FFT_CASE(10)
        FFT_CASE(12)
        FFT_CASE(14)
        FFT_CASE(15)
        FFT_CASE(16)
    }
#undef FFT_CASE
}

/* All threads of the block; the elements are there for all when it begins (a barrier) and when it ends. */
template <int MOST> static __device__ inline void fft_run_all(const fft_passes &f) {
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < f.passes; i++) {
        fft_run_pass<MOST>(f.pass[i]);
        __syncthreads();
    }
}

static inline size_t fft_shared_bytes(int n) {
    return (size_t)(n + n / 16 + 1) * sizeof(float4);
}

static inline void fft_try(int rest, int from, int depth, int *radices, int most, int *best, int *best_depth, int *least) {
    static const int RADICES[] = {16, 15, 14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2};
    if (rest == 1) {
        /* Fewer passes first, then the greater smallest radix: that many fewer threads. */
        int smallest = depth > 0 ? radices[depth - 1] : 0;
        if (depth < 2 || depth > *best_depth || (depth == *best_depth && smallest <= *least)) return;
        *best_depth = depth;
        *least = smallest;
        for (int i = 0; i < depth; i++)
            best[i] = radices[i];
        return;
    }
    if (depth == FFT_PASSES) return;
    for (int i = from; i < 13; i++) {
        if (RADICES[i] > most || rest % RADICES[i] != 0) continue;
        radices[depth] = RADICES[i];
        fft_try(rest / RADICES[i], i, depth + 1, radices, most, best, best_depth, least);
    }
}

/* Radices of n, few and alike, in at least two passes of at most `most_threads` butterflies; false where there are none.
 * Fills radix, done, count and inverse. */
static inline bool fft_plan_passes(int n, int most, int most_threads, fft_passes *ret_passes) {
    int radices[FFT_PASSES], best[FFT_PASSES], depth = FFT_PASSES + 1, least = 0;
    fft_try(n, 0, 0, radices, most, best, &depth, &least);
    if (depth > FFT_PASSES || n / least > most_threads) return false;
    fft_passes p = {};
    p.n = n;
    p.passes = depth;
    p.threads = (n / least + 31) / 32 * 32;
    int done = 1;
    for (int i = 0; i < depth; i++) {
        /* The smallest first: its threads are the most, and its elements need no turning. */
        int radix = best[depth - 1 - i];
        p.pass[i].radix = radix;
        p.pass[i].done = done;
        p.pass[i].count = n / radix;
        p.pass[i].inverse = done > 1 ? (unsigned)(0x100000000ull / (unsigned)done + 1) : 0;
        done *= radix;
    }
    *ret_passes = p;
    return true;
}
#endif
