/* Fourier transforms of two interleaved sequences (float4: two complex numbers) by one block in shared memory, for the
 * fused correlations. Stockham passes of radix 2 to 14; inverse (exp(+2πi …)), unscaled; one butterfly per thread.
 *
 * A pass of radix R, where s is the product of the earlier radices: thread j < n/R takes the elements j + r n/R, turns
 * them by exp(2πi (j mod s) r / (s R)), transforms these R elements and stores them at (j div s) s R + (j mod s) +
 * r s. */
#ifndef ICESTREAM_KERNELS_FOURIER_BLOCK_FFT_CUH
#define ICESTREAM_KERNELS_FOURIER_BLOCK_FFT_CUH

#include <cuda_runtime.h>

enum { FFT_PASSES = 6 };

struct fft_pass {
    int radix, done, count; /* R, s, n/R */
    unsigned inverse;       /* 2³² / s, for divisions */
    const float2 *roots;    /* [s]: exp(2πi k / (s R)) */
};

struct fft_passes {
    int n, passes, threads;
    int shift; /* one element of padding after every 2^shift */
    fft_pass pass[FFT_PASSES];
};

/* Returns the place of element i in shared memory. */
static __device__ inline int fft_place(int i, int shift) {
    return i + (i >> shift);
}

static __device__ inline float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

static __device__ inline float4 operator-(float4 a, float4 b) {
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}

static __device__ inline float4 scaled(float f, float4 a, float4 b) { /* Returns b + f a. */
    return make_float4(b.x + f * a.x, b.y + f * a.y, b.z + f * a.z, b.w + f * a.w);
}

static __device__ inline float4 times_i(float4 a) {
    return make_float4(-a.y, a.x, -a.w, a.z);
}

static __device__ inline float4 turned(float4 a, float c, float s) {
    return make_float4(a.x * c - a.y * s, a.x * s + a.y * c, a.z * c - a.w * s, a.z * s + a.w * c);
}

/* Computes cos and sin of 2π k / R at compile time. */
template <int R> struct fft_roots {
    float c[R], s[R];
    constexpr fft_roots() : c(), s() {
        for (int k = 0; k < R; k++) {
            /* Within ±π the series converges long before its 20 terms end. */
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

/* Transforms an odd prime R: k and R − k share their sums and differences. */
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

/* Transforms R = A B (Cooley and Tukey). */
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
FFT_COMPOSITE(4, 4)
#undef FFT_COMPOSITE

/* Multiplies by the powers of the root. Computes each power from two half powers, so that rounding errors and latency
 * grow with the logarithm. */
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

/* Elements of a block, in natural order before the first pass and after the last. */
extern __shared__ float4 fft_elements[];

/* Runs one pass: load(i) returns element i, store(i, value) stores it. SHARED: both use the same memory. Threads
 * without a butterfly load one anyway: registers not written on every path would be kept alive, for all radices at
 * once, around the loop over passes. */
template <int R, bool SHARED, class Load, class Store>
static __device__ inline void fft_butterflies(const fft_pass &p, Load load, Store store) {
    int j = threadIdx.x, from = j < p.count ? j : 0;
    float4 v[R];
#pragma unroll
    for (int r = 0; r < R; r++)
        v[r] = load(from + r * p.count);
    if (SHARED) __syncthreads();
    if (j >= p.count) return;
    int to = j * R;
    if (p.done > 1) {
        int block = (int)__umulhi((unsigned)j, p.inverse), k = j - block * p.done;
        to = block * p.done * R + k;
        fft_turn<R>(v, __ldg(p.roots + k));
    }
    fft_small<R>::run(v);
#pragma unroll
    for (int r = 0; r < R; r++)
        store(to + r * p.done, v[r]);
}

/* Compiles radices up to MOST only: a kernel takes the registers of its largest radix even if that radix is not
 * used. */
template <int MOST, bool SHARED, class Load, class Store>
static __device__ inline void fft_run_pass(const fft_pass &p, Load load, Store store) {
#define FFT_CASE(R)                                                                                                    \
    case R:                                                                                                            \
        if (R <= MOST) fft_butterflies<R, SHARED>(p, load, store);                                                     \
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
    }
#undef FFT_CASE
}

/* Runs passes begin to end − 1 in shared memory. All threads of the block call this; it first waits for earlier
 * stores. */
template <int MOST> static __device__ inline void fft_run_shared(const fft_passes &f, int begin, int end) {
    __syncthreads();
#pragma unroll 1
    for (int i = begin; i < end; i++) {
        fft_run_pass<MOST, true>(
            f.pass[i], [&](int e) { return fft_elements[fft_place(e, f.shift)]; },
            [&](int e, float4 v) { fft_elements[fft_place(e, f.shift)] = v; });
        __syncthreads();
    }
}

static inline size_t fft_shared_bytes(const fft_passes &f) {
    return (size_t)(f.n + (f.n >> f.shift) + 1) * sizeof(float4);
}

struct fft_radices {
    int count, least;
    int radix[FFT_PASSES];
};

/* Tries all products of falling radices, from RADICES[from] on, that give n. Keeps the product with the fewest passes,
 * then with the largest smallest radix, which needs the fewest threads. */
static inline void fft_factor(int rest, int from, int most, fft_radices *tried, fft_radices *best) {
    static const int RADICES[] = {14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2};
    int count = tried->count;
    if (rest == 1 && count >= 2) {
        tried->least = tried->radix[count - 1];
        bool better = count < best->count || (count == best->count && tried->least > best->least);
        if (best->count == 0 || better) *best = *tried;
    }
    if (rest == 1 || count == FFT_PASSES) return;
    for (int i = from; i < (int)(sizeof RADICES / sizeof *RADICES); i++) {
        if (RADICES[i] > most || rest % RADICES[i] != 0) continue;
        tried->radix[count] = RADICES[i];
        tried->count = count + 1;
        fft_factor(rest / RADICES[i], i, most, tried, best);
        tried->count = count;
    }
}

/* Chooses what was fastest on an H200: three passes of 7, 8, 9 and 12; otherwise radices up to 8, which need the fewest
 * registers, even at the cost of one more pass, unless a radix of 2 or 3 would remain. */
static inline fft_radices fft_choose(int n) {
    static const int MOST[] = {12, 8, 12, 14};
    fft_radices best = {};
    for (int i = 0; i < 4 && best.least < 4; i++) {
        fft_radices tried = {}, found = {};
        fft_factor(n, 0, MOST[i], &tried, &found);
        bool tens = found.radix[0] == 10 || found.radix[1] == 10 || found.radix[2] == 10;
        if (i == 0 && (found.count != 3 || found.least < 7 || tens)) continue;
        if (found.least > best.least) best = found;
    }
    return best;
}

/* Plans at least two passes for n. Returns false if no plan has at most `most_threads` butterflies. The caller sets
 * roots. */
static inline bool fft_plan_passes(int n, int most_threads, fft_passes *ret_passes) {
    fft_radices r = fft_choose(n);
    if (r.count == 0 || n / r.least > most_threads) return false;
    fft_passes p = {};
    p.n = n;
    p.passes = r.count;
    p.threads = (n / r.least + 31) / 32 * 32;
    /* The first pass stores its elements one radix apart. If the radix is odd, eight neighbours fall into different
     * banks; otherwise padding separates them. */
    int first = r.count - 1, done = 1;
    for (int i = 0; i < r.count; i++)
        if (r.radix[i] % 2) first = i;
    p.shift = r.radix[first] % 2 ? 30 : 3;
    for (int i = 0; i < r.count; i++) {
        int radix = r.radix[i == 0 ? first : i <= first ? i - 1 : i];
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
