/* Correlates through cuFFT, for sizes that search_fused_cuda.cu does not have: products of some rotations, their
 * batched transform, the best of them so far per pixel. Computes scores from the best of a template for both ways of
 * correlating.
 *
 * If the number of rotations is even, a transform serves two rotations, psi and psi + 180°: the second product uses the
 * conjugate. "Pair" p of a template is rotation p with its second half, or alone. */
#include "kernels/search/search_plan.cuh"

enum { THREADS = 256 };

static __device__ inline float2 times_conjugate(float2 a, float2 f) {
    return make_float2(a.x * f.x + a.y * f.y, a.y * f.x - a.x * f.y);
}

static __device__ inline float2 times(float2 a, float2 f) {
    return make_float2(a.x * f.x - a.y * f.y, a.y * f.x + a.x * f.y);
}

/* Multiplies with kept transforms, two complex values a thread: blockIdx.y is the pair. */
static __global__ void multiply_kept(const float4 *image, const float4 *rotated, size_t count, bool both, float4 *out) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    float4 a = image[i], f = __ldcs(rotated + blockIdx.y * count + i);
    float2 a0 = make_float2(a.x, a.y), a1 = make_float2(a.z, a.w);
    float2 f0 = make_float2(f.x, f.y), f1 = make_float2(f.z, f.w);
    float2 p = times_conjugate(a0, f0), q = times_conjugate(a1, f1);
    size_t at = (both ? 2 : 1) * blockIdx.y * count + i;
    out[at] = make_float4(p.x, p.y, q.x, q.y);
    if (!both) return;
    p = times(a0, f0);
    q = times(a1, f1);
    out[at + count] = make_float4(p.x, p.y, q.x, q.y);
}

static __global__ void multiply_turned(const float2 *image, search_templates t, int item, int first, bool both,
                                       float2 *out) {
    int columns = t.work / 2 + 1, i = blockIdx.x * THREADS + threadIdx.x, count = t.work * columns;
    if (i >= count) return;
    float2 a = image[i], f = search_rotated(t, item, t.turns[first + blockIdx.y], i % columns, i / columns);
    size_t at = (size_t)(both ? 2 : 1) * blockIdx.y * count + i;
    out[at] = times_conjugate(a, f);
    if (both) out[at + count] = times(a, f);
}

static __device__ inline void better(float value, int rotation, float &best, int &index) {
    bool more = value > best || (value == best && rotation < index);
    best = more ? value : best;
    index = more ? rotation : index;
}

/* maps: [pairs][1 or 2][count], four pixels a thread. */
static __global__ void keep_best(const float4 *maps, size_t count, int pairs, bool both, int first, int turn,
                                 bool begin, ulonglong2 *best) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    float value[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    int index[4] = {0, 0, 0, 0}, maps_of = both ? 2 : 1;
#pragma unroll 4
    for (int m = 0; m < pairs * maps_of; m++) {
        float4 v = maps[m * count + i];
        int rotation = both ? first + m / 2 + (m % 2) * turn : first + m;
        better(v.x, rotation, value[0], index[0]);
        better(v.y, rotation, value[1], index[1]);
        better(v.z, rotation, value[2], index[2]);
        better(v.w, rotation, value[3], index[3]);
    }
    unsigned long long packed[4];
    for (int k = 0; k < 4; k++)
        packed[k] = search_pack(value[k], index[k]);
    if (!begin) {
        ulonglong2 a = best[2 * i], b = best[2 * i + 1];
        packed[0] = max(packed[0], a.x);
        packed[1] = max(packed[1], a.y);
        packed[2] = max(packed[2], b.x);
        packed[3] = max(packed[3], b.y);
    }
    best[2 * i] = make_ulonglong2(packed[0], packed[1]);
    best[2 * i + 1] = make_ulonglong2(packed[2], packed[3]);
}

enum status search_correlate_run(search_cuda *s, int t, err *err) {
    if (s->fused) return search_fused_run(s, t, err);
    bool both = s->turn < s->o.rotations;
    float2 *products = (float2 *)s->scratch;
    float *maps = (float *)(products + (size_t)s->pairs * (both ? 2 : 1) * s->half);
    for (int first = 0; first < s->turn; first += s->pairs) {
        int pairs = s->turn - first < s->pairs ? s->turn - first : s->pairs;
        if (s->rotated) {
            /* work is even, so half planes and maps are whole vectors. */
            dim3 blocks(blocks_for(s->half / 2, THREADS), pairs);
            multiply_kept<<<blocks, THREADS, 0, s->stream>>>(
                (const float4 *)s->prepared, (const float4 *)(s->rotated + ((size_t)t * s->turn + first) * s->half),
                s->half / 2, both, (float4 *)products);
        } else {
            dim3 blocks(blocks_for(s->half, THREADS), pairs);
            multiply_turned<<<blocks, THREADS, 0, s->stream>>>(s->prepared, s->templates, t, first, both, products);
        }
        LAUNCH_TRY(err, "the products");
        /* A last batch that is not full also transforms leftovers of the batch before, which are ignored. */
        CUFFT_TRY(cufftExecC2R(s->batch_inverse, products, maps), err, "the correlations");
        keep_best<<<blocks_for(s->pixels / 4, THREADS), THREADS, 0, s->stream>>>(
            (const float4 *)maps, s->pixels / 4, pairs, both, first, s->turn, first == 0, (ulonglong2 *)s->best);
        LAUNCH_TRY(err, "the best correlations");
    }
    return STATUS_OK;
}

struct score_maps {
    float *score;
    uint16_t *best_template, *best_rotation;
    float *scores; /* this template's, or NULL */
    uint16_t *rotations;
};

/* Clears `best` for the next template. */
static __global__ void score(unsigned long long *best, const double *terms, const float *mu, const float *sigma,
                             size_t count, int t, score_maps out) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    unsigned long long packed = best[i];
    best[i] = 0;
    float mean = (float)terms[2 * t], power = (float)terms[2 * t + 1], factor = power > 1e-30f ? 1 / sqrtf(power) : 0;
    float value = factor * (search_value(packed) - mu[i] * mean);
    if (sigma) value /= sigma[i];
    uint16_t rotation = (uint16_t)search_rotation(packed);
    if (out.scores) {
        out.scores[i] = value;
        out.rotations[i] = rotation;
    }
    if (t > 0 && !(value > out.score[i])) return;
    out.score[i] = value;
    out.best_template[i] = (uint16_t)t;
    out.best_rotation[i] = rotation;
}

enum status search_score_run(search_cuda *s, int t, err *err) {
    score_maps maps = {s->score, s->best_template, s->best_rotation, s->scores ? s->scores + t * s->pixels : NULL,
                       s->scores ? s->rotations + t * s->pixels : NULL};
    const float *mu = s->whiten ? search_whiten_mean(s->whiten) : s->statistics;
    const float *sigma = s->whiten ? NULL : s->statistics + s->pixels;
    score<<<blocks_for(s->pixels, THREADS), THREADS, 0, s->stream>>>(s->best, s->terms, mu, sigma, s->pixels, t, maps);
    LAUNCH_TRY(err, "the scores");
    return STATUS_OK;
}
